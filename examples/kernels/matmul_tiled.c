/* matmul_tiled: c = a * b
 *
 * Arguments: a: m by k, b: k by n, c: m by n floats, row-major, any sizes.
 * Launch (GPU): ceil(n / TILE) by ceil(m / TILE) groups of TILE * TILE / ROWS threads (1D). On a CPU: one plain call.
 * Tunables: TILE  edge of the square tiles of a and b in shared memory; on a CPU, columns of a block of c in registers
 *           ROWS  results for each thread, in one column; on a CPU, rows of that block. Divides TILE.
 */
#ifndef TILE
#define TILE 16
#endif
#ifndef ROWS
#define ROWS 4
#endif
#define STEP (TILE / ROWS) /* rows of a tile that the group covers at once */

_Static_assert(TILE % ROWS == 0, "ROWS must divide TILE");

#if defined(__NVPTX__)
#define GPU 1
#define KERNEL __attribute__((nvptx_kernel)) void
#define SHARED static __attribute__((address_space(3), loader_uninitialized))
#define THREAD __nvvm_read_ptx_sreg_tid_x()
#define GROUP_X __nvvm_read_ptx_sreg_ctaid_x()
#define GROUP_Y __nvvm_read_ptx_sreg_ctaid_y()
#define BARRIER() __syncthreads()
#elif defined(__AMDGCN__)
#define GPU 1
#define KERNEL __attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(TILE * STEP, TILE * STEP))) void
#define SHARED static __attribute__((address_space(3), loader_uninitialized))
#define THREAD (int)__builtin_amdgcn_workitem_id_x()
#define GROUP_X (int)__builtin_amdgcn_workgroup_id_x()
#define GROUP_Y (int)__builtin_amdgcn_workgroup_id_y()
#define BARRIER() \
    (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
     __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
#else
#define KERNEL void
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#endif

KERNEL matmul_tiled(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k)
{
#if defined(GPU)
    SHARED float tile_a[TILE][TILE];
    SHARED float tile_b[TILE][TILE];
    int x = THREAD % TILE, y = THREAD / TILE;
    int col = GROUP_X * TILE + x, row = GROUP_Y * TILE + y;
    float sum[ROWS] = {0};

    for (int start = 0; start < k; start += TILE) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int ty = y + r * STEP, ar = row + r * STEP, ac = start + x, br = start + ty;
            tile_a[ty][x] = ar < m && ac < k ? a[ar * k + ac] : 0;
            tile_b[ty][x] = br < k && col < n ? b[br * n + col] : 0;
        }
        BARRIER();
#pragma unroll
        for (int i = 0; i < TILE; i++) {
            float shared_b = tile_b[i][x];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[r] += tile_a[y + r * STEP][i] * shared_b;
        }
        BARRIER();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (row + r * STEP < m && col < n)
            c[(row + r * STEP) * n + col] = sum[r];
#else
    for (int top = 0; top < m; top += ROWS)
        for (int left = 0; left < n; left += TILE) {
            int height = MIN(ROWS, m - top), width = MIN(TILE, n - left);
            float sum[ROWS][TILE] = {{0}};
            if (height == ROWS && width == TILE) { /* constant bounds: sum stays in vector registers */
                for (int i = 0; i < k; i++)
                    for (int r = 0; r < ROWS; r++)
                        for (int x = 0; x < TILE; x++)
                            sum[r][x] += a[(top + r) * k + i] * b[i * n + left + x];
            } else {
                for (int i = 0; i < k; i++)
                    for (int r = 0; r < height; r++)
                        for (int x = 0; x < width; x++)
                            sum[r][x] += a[(top + r) * k + i] * b[i * n + left + x];
            }
            for (int r = 0; r < height; r++)
                for (int x = 0; x < width; x++)
                    c[(top + r) * n + left + x] = sum[r][x];
        }
#endif
}
