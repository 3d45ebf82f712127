/* reduce_sum: partial[g] = x[g * CHUNK] + ... + x[(g + 1) * CHUNK - 1], where CHUNK = BLOCK * UNROLL
 *
 * Arguments: x: n floats; partial: ceil(n / CHUNK) floats. Run it again on the partial sums until one is left.
 * Launch (GPU): ceil(n / CHUNK) groups of BLOCK threads. On a CPU: one plain call, the same partial sums.
 * Tunables: BLOCK   threads in a group, a power of two
 *           UNROLL  elements that each thread sums before the tree over shared memory starts
 */
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef UNROLL
#define UNROLL 8
#endif
#define CHUNK (BLOCK * UNROLL)

_Static_assert(BLOCK > 0 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK must be a power of two");

#if defined(__NVPTX__)
#define GPU 1
#define KERNEL __attribute__((nvptx_kernel)) void
#define SHARED static __attribute__((address_space(3), loader_uninitialized))
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define GROUP __nvvm_read_ptx_sreg_ctaid_x()
#define BARRIER() __syncthreads()
#elif defined(__AMDGCN__)
#define GPU 1
#define KERNEL __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(BLOCK, BLOCK))) void
#define SHARED static __attribute__((address_space(3), loader_uninitialized))
#define THREAD (int)__builtin_amdgcn_workitem_id_x()
#define GROUP (int)__builtin_amdgcn_workgroup_id_x()
#define BARRIER() \
    (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
     __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#else
#define KERNEL void
#endif

KERNEL reduce_sum(const float *restrict x, float *restrict partial, int n)
{
#if defined(GPU)
    SHARED float tree[BLOCK];
    int thread = THREAD, first = GROUP * CHUNK + thread;
    float sum = 0;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        int i = first + u * BLOCK;
        sum += i < n ? x[i] : 0;
    }
    tree[thread] = sum;
    BARRIER();
#pragma unroll
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (thread < half)
            tree[thread] += tree[thread + half];
        BARRIER();
    }
    if (thread == 0)
        partial[GROUP] = tree[0];
#else
    /* The same order of additions as on a GPU: BLOCK running sums, which also vectorise, then the tree. */
    for (int start = 0; start < n; start += CHUNK) {
        float tree[BLOCK] = {0};
        int count = n - start < CHUNK ? n - start : CHUNK, j = 0;
        for (; j <= count - BLOCK; j += BLOCK)
            for (int t = 0; t < BLOCK; t++)
                tree[t] += x[start + j + t];
        for (int t = 0; j + t < count; t++)
            tree[t] += x[start + j + t];
        for (int half = BLOCK / 2; half > 0; half /= 2)
            for (int t = 0; t < half; t++)
                tree[t] += tree[t + half];
        partial[start / CHUNK] = tree[0];
    }
#endif
}
