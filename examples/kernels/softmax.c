/* softmax: out[r][c] = exp(in[r][c] - max of row r) / sum of those exponentials over row r
 *
 * Arguments: in, out: rows of cols floats, row-major, cols > 0.
 * Launch (GPU): rows groups of BLOCK threads, a group for each row. On a CPU: one plain call.
 * Tunables: BLOCK  threads in a group, a power of two; on a CPU, the number of partial maxima and sums, which vectorise
 */
#ifndef BLOCK
#if defined(__NVPTX__) || defined(__AMDGCN__)
#define BLOCK 128
#else
#define BLOCK 16
#endif
#endif

_Static_assert(BLOCK > 0 && (BLOCK & (BLOCK - 1)) == 0, "BLOCK must be a power of two");

#define LOG2_E 1.44269504f
#define MAX(a, b) ((a) > (b) ? (a) : (b))

#if defined(__NVPTX__)
#define GPU 1
#define KERNEL __attribute__((nvptx_kernel)) void
#define SHARED static __attribute__((address_space(3), loader_uninitialized))
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define GROUP __nvvm_read_ptx_sreg_ctaid_x()
#define BARRIER() __syncthreads()
#define EXP(x) __nvvm_ex2_approx_f((x) * LOG2_E)
#elif defined(__AMDGCN__)
#define GPU 1
#define KERNEL __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(BLOCK, BLOCK))) void
#define SHARED static __attribute__((address_space(3), loader_uninitialized))
#define THREAD (int)__builtin_amdgcn_workitem_id_x()
#define GROUP (int)__builtin_amdgcn_workgroup_id_x()
#define BARRIER() \
    (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
     __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#define EXP(x) __builtin_amdgcn_exp2f((x) * LOG2_E)
#else
#define KERNEL void
#define EXP(x) exp_not_positive(x)

/* exp(x) for x <= 0 without libm: 2^whole from the exponent bits times a polynomial for 2^part, |part| <= 1/2. */
static inline float exp_not_positive(float x)
{
    float power = MAX(x, -87.0f) * LOG2_E;
    int whole = (int)(power - 0.5f);
    float part = power - (float)whole;
    float series = 1 + part * (0.69314718f + part * (0.24022651f + part * (0.05550411f + part * (0.00961813f + part * 0.00133336f))));
    union { int bits; float value; } scale = {.bits = (whole + 127) << 23};
    return scale.value * series;
}
#endif

KERNEL softmax(const float *restrict in, float *restrict out, int rows, int cols)
{
#if defined(GPU)
    SHARED float tree[BLOCK];
    int thread = THREAD, row = GROUP;
    if (row >= rows)
        return;
    in += (long)row * cols;
    out += (long)row * cols;

    float top = in[0];
    for (int c = thread; c < cols; c += BLOCK)
        top = MAX(top, in[c]);
    tree[thread] = top;
    BARRIER();
#pragma unroll
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (thread < half)
            tree[thread] = MAX(tree[thread], tree[thread + half]);
        BARRIER();
    }
    top = tree[0];
    BARRIER();

    float sum = 0;
    for (int c = thread; c < cols; c += BLOCK) {
        float e = EXP(in[c] - top);
        out[c] = e;
        sum += e;
    }
    tree[thread] = sum;
    BARRIER();
#pragma unroll
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (thread < half)
            tree[thread] += tree[thread + half];
        BARRIER();
    }
    float scale = 1 / tree[0];
    for (int c = thread; c < cols; c += BLOCK)
        out[c] *= scale;
#else
    for (int row = 0; row < rows; row++, in += cols, out += cols) {
        float tops[BLOCK], sums[BLOCK] = {0};
        int c = 0;
        for (int t = 0; t < BLOCK; t++)
            tops[t] = in[0];
        for (; c <= cols - BLOCK; c += BLOCK)
            for (int t = 0; t < BLOCK; t++)
                tops[t] = MAX(tops[t], in[c + t]);
        float top = in[0], sum = 0;
        for (int t = 0; t < BLOCK; t++)
            top = MAX(top, tops[t]);
        for (; c < cols; c++)
            top = MAX(top, in[c]);

        for (c = 0; c <= cols - BLOCK; c += BLOCK)
            for (int t = 0; t < BLOCK; t++)
                sums[t] += out[c + t] = EXP(in[c + t] - top);
        for (int t = 0; t < BLOCK; t++)
            sum += sums[t];
        for (; c < cols; c++)
            sum += out[c] = EXP(in[c] - top);
        for (c = 0; c < cols; c++)
            out[c] *= 1 / sum;
    }
#endif
}
