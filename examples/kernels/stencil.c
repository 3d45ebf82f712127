/* stencil: one step of the heat equation, a 5-point stencil on a 2D grid
 *
 *     out[y][x] = in[y][x] + rate * (in[y-1][x] + in[y+1][x] + in[y][x-1] + in[y][x+1] - 4 * in[y][x])
 *
 * Arguments: in, out: height rows of width floats, row-major; border cells are copied as they are.
 * Launch (GPU): ceil(width / BLOCK) by ceil(height / ROWS) groups of BLOCK threads. On a CPU: one plain call.
 * Tunables: BLOCK  threads in a group, along x; on a CPU, the width of a column strip
 *           ROWS   rows for each thread: the cells above and below stay in registers; on a CPU, rows of a strip
 */
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef ROWS
#define ROWS 4
#endif

#if defined(__NVPTX__)
#define GPU 1
#define KERNEL __attribute__((nvptx_kernel)) void
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define GROUP_X __nvvm_read_ptx_sreg_ctaid_x()
#define GROUP_Y __nvvm_read_ptx_sreg_ctaid_y()
#elif defined(__AMDGCN__)
#define GPU 1
#define KERNEL __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(BLOCK, BLOCK))) void
#define THREAD (int)__builtin_amdgcn_workitem_id_x()
#define GROUP_X (int)__builtin_amdgcn_workgroup_id_x()
#define GROUP_Y (int)__builtin_amdgcn_workgroup_id_y()
#else
#define KERNEL void
#endif

KERNEL stencil(const float *restrict in, float *restrict out, int width, int height, float rate)
{
#if defined(GPU)
    int x = GROUP_X * BLOCK + THREAD, top = GROUP_Y * ROWS;
    if (x >= width)
        return;
    float above = top > 0 ? in[(top - 1) * width + x] : 0, here = in[top * width + x];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        int y = top + r, i = y * width + x;
        if (y >= height)
            continue;
        float below = y + 1 < height ? in[i + width] : 0;
        int inside = x > 0 && x < width - 1 && y > 0 && y < height - 1;
        out[i] = inside ? here + rate * (above + below + in[i - 1] + in[i + 1] - 4 * here) : here;
        above = here;
        here = below;
    }
#else
    for (int top = 0; top < height; top += ROWS)
        for (int left = 0; left < width; left += BLOCK)
            for (int y = top; y < top + ROWS && y < height; y++) {
                const float *row = in + y * width;
                int right = left + BLOCK < width ? left + BLOCK : width, x = left;
                if (y > 0 && y < height - 1) {
                    if (x == 0)
                        out[y * width] = row[x++];
                    for (; x < right - (right == width); x++)
                        out[y * width + x] = row[x] + rate * (row[x - width] + row[x + width] + row[x - 1] + row[x + 1] - 4 * row[x]);
                }
                for (; x < right; x++)
                    out[y * width + x] = row[x];
            }
#endif
}
