/* vector_add: out[i] = a[i] + b[i]
 *
 * Arguments: a, b, out: n floats each.
 * Launch (GPU): ceil(n / (BLOCK * UNROLL)) groups of BLOCK threads. On a CPU: one plain call.
 * Tunables: BLOCK   threads in a group; on a CPU, BLOCK * UNROLL is the length of the inner loop
 *           UNROLL  elements for each thread, BLOCK apart, so that neighbours read neighbouring words
 */
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef UNROLL
#define UNROLL 4
#endif

#if defined(__NVPTX__)
#define GPU 1
#define KERNEL __attribute__((nvptx_kernel)) void
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define GROUP __nvvm_read_ptx_sreg_ctaid_x()
#elif defined(__AMDGCN__)
#define GPU 1
#define KERNEL __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(BLOCK, BLOCK))) void
#define THREAD (int)__builtin_amdgcn_workitem_id_x()
#define GROUP (int)__builtin_amdgcn_workgroup_id_x()
#else
#define KERNEL void
#endif

KERNEL vector_add(const float *restrict a, const float *restrict b, float *restrict out, int n)
{
#if defined(GPU)
    int first = GROUP * (BLOCK * UNROLL) + THREAD;
#pragma unroll
    for (int u = 0; u < UNROLL; u++) {
        int i = first + u * BLOCK;
        if (i < n)
            out[i] = a[i] + b[i];
    }
#else
    int i = 0;
    for (; i <= n - BLOCK * UNROLL; i += BLOCK * UNROLL)
        for (int j = 0; j < BLOCK * UNROLL; j++)
            out[i + j] = a[i + j] + b[i + j];
    for (; i < n; i++)
        out[i] = a[i] + b[i];
#endif
}
