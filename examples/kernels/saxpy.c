/* saxpy: y[i] = alpha * x[i] + y[i]
 *
 * Arguments: alpha: a scalar; x, y: n floats each, y is updated in place.
 * Launch (GPU): ceil(n / (BLOCK * UNROLL)) groups of BLOCK threads. On a CPU: one plain call.
 * Tunables: BLOCK   threads in a group; on a CPU, BLOCK * UNROLL is the length of the inner loop
 *           UNROLL  consecutive elements for each thread
 */
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef UNROLL
#define UNROLL 2
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

KERNEL saxpy(float alpha, const float *restrict x, float *restrict y, int n)
{
#if defined(GPU)
    int first = (GROUP * BLOCK + THREAD) * UNROLL;
#pragma unroll
    for (int i = first; i < first + UNROLL; i++)
        if (i < n)
            y[i] += alpha * x[i];
#else
    int i = 0;
    for (; i <= n - BLOCK * UNROLL; i += BLOCK * UNROLL)
        for (int j = 0; j < BLOCK * UNROLL; j++)
            y[i + j] += alpha * x[i + j];
    for (; i < n; i++)
        y[i] += alpha * x[i];
#endif
}
