/* vector_add: out[i] = a[i] + b[i], in CUDA C++, for nvcc and for clang without the CUDA headers
 *
 * Arguments: a, b, out: n floats each.
 * Launch: any number of blocks of BLOCK threads; a grid-stride loop covers the rest.
 * Tunables: BLOCK   threads in a block
 *           UNROLL  elements for each thread and turn of the loop, BLOCK apart
 */
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef UNROLL
#define UNROLL 4
#endif

#if defined(__clang__) && !defined(__global__) /* no CUDA headers: define the few words that are used here */
#define __global__ __attribute__((global))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
struct Index { unsigned x; };
#define threadIdx (Index{unsigned(__nvvm_read_ptx_sreg_tid_x())})
#define blockIdx (Index{unsigned(__nvvm_read_ptx_sreg_ctaid_x())})
#define gridDim (Index{unsigned(__nvvm_read_ptx_sreg_nctaid_x())})
#endif

extern "C" __global__ void __launch_bounds__(BLOCK)
vector_add(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int turn = BLOCK * UNROLL;
    for (long long first = (long long)blockIdx.x * turn + threadIdx.x; first < n; first += (long long)gridDim.x * turn) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            long long i = first + u * BLOCK;
            if (i < n)
                out[i] = a[i] + b[i];
        }
    }
}
