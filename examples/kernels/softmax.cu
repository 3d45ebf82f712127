/* softmax: out[r][c] = exp(in[r][c] - max of row r) / sum of those exponentials over row r,
 * in CUDA C++, for nvcc and for clang without the CUDA headers
 *
 * Arguments: in, out: rows of cols floats, row-major, cols > 0.
 * Launch: rows blocks of BLOCK threads, a block for each row.
 * Tunables: BLOCK  threads in a block: a multiple of 32, at most 1024
 */
#ifndef BLOCK
#define BLOCK 128
#endif

#if defined(__clang__) && !defined(__global__) /* no CUDA headers: define the few words that are used here */
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
#define __shfl_xor_sync(mask, value, lanes) __nvvm_shfl_sync_bfly_f32(mask, value, lanes, 31)
struct Index { unsigned x; };
#define threadIdx (Index{unsigned(__nvvm_read_ptx_sreg_tid_x())})
#define blockIdx (Index{unsigned(__nvvm_read_ptx_sreg_ctaid_x())})
#endif

static_assert(BLOCK % 32 == 0 && BLOCK <= 1024, "BLOCK must be a multiple of 32, at most 1024");

struct Max { static __device__ float of(float a, float b) { return a > b ? a : b; } };
struct Sum { static __device__ float of(float a, float b) { return a + b; } };

/* exp(x) as the hardware's 2^(x log2 e), without libdevice */
static __device__ float exp_fast(float x)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
    return result;
}

/* Op over the values of all threads of the block: by shuffles in each warp, then over one value a warp. */
template <class Op> static __device__ float all_threads(float value)
{
    __shared__ float warps[BLOCK / 32];
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        value = Op::of(value, __shfl_xor_sync(0xffffffffu, value, lanes));
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = warps[0];
#pragma unroll
    for (int w = 1; w < BLOCK / 32; w++)
        value = Op::of(value, warps[w]);
    return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
softmax(const float *__restrict__ in, float *__restrict__ out, int rows, int cols)
{
    const int row = blockIdx.x;
    if (row >= rows)
        return;
    in += (long long)row * cols;
    out += (long long)row * cols;

    float top = in[0], sum = 0;
    for (int c = threadIdx.x; c < cols; c += BLOCK)
        top = Max::of(top, in[c]);
    top = all_threads<Max>(top);
    for (int c = threadIdx.x; c < cols; c += BLOCK) {
        float e = exp_fast(in[c] - top);
        out[c] = e;
        sum += e;
    }
    const float scale = 1 / all_threads<Sum>(sum);
    for (int c = threadIdx.x; c < cols; c += BLOCK)
        out[c] *= scale;
}
