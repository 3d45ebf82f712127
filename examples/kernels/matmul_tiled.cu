/* matmul_tiled: c = a * b, in CUDA C++, for nvcc and for clang without the CUDA headers
 *
 * Arguments: a: m by k, b: k by n, c: m by n floats, row-major, any sizes.
 * Launch: ceil(n / TILE) by ceil(m / TILE) blocks of TILE by TILE / ROWS threads.
 * Tunables: TILE  edge of the square tiles of a and b in shared memory
 *           ROWS  results for each thread, in one column. Divides TILE.
 */
#ifndef TILE
#define TILE 16
#endif
#ifndef ROWS
#define ROWS 4
#endif

#if defined(__clang__) && !defined(__global__) /* no CUDA headers: define the few words that are used here */
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))
struct Index { unsigned x, y; };
#define threadIdx (Index{unsigned(__nvvm_read_ptx_sreg_tid_x()), unsigned(__nvvm_read_ptx_sreg_tid_y())})
#define blockIdx (Index{unsigned(__nvvm_read_ptx_sreg_ctaid_x()), unsigned(__nvvm_read_ptx_sreg_ctaid_y())})
#endif

static_assert(TILE % ROWS == 0, "ROWS must divide TILE");

extern "C" __global__ void __launch_bounds__(TILE * TILE / ROWS)
matmul_tiled(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const int step = TILE / ROWS; /* rows of a tile that the block covers at once */
    const int x = threadIdx.x, y = threadIdx.y;
    const int col = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum[ROWS] = {};

    for (int start = 0; start < k; start += TILE) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int ty = y + r * step, ar = row + r * step, ac = start + x, br = start + ty;
            tile_a[ty][x] = ar < m && ac < k ? a[ar * k + ac] : 0;
            tile_b[ty][x] = br < k && col < n ? b[br * n + col] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                sum[r] += tile_a[y + r * step][i] * tile_b[i][x];
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (row + r * step < m && col < n)
            c[(row + r * step) * n + col] = sum[r];
}
