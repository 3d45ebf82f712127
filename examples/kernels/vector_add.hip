/* vector_add: out[i] = a[i] + b[i], in HIP C++, without the HIP headers
 *
 * Arguments: a, b, out: n floats each.
 * Launch: ceil(n / BLOCK) blocks of BLOCK threads.
 * Tunables: BLOCK  threads in a block
 */
#ifndef BLOCK
#define BLOCK 128
#endif

extern "C" __attribute__((global, launch_bounds(BLOCK))) void
vector_add(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    int i = __builtin_amdgcn_workgroup_id_x() * BLOCK + __builtin_amdgcn_workitem_id_x();
    if (i < n)
        out[i] = a[i] + b[i];
}
