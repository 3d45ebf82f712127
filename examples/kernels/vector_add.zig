// vector_add: out[i] = a[i] + b[i]
//
// Arguments: a, b, out: n floats each.
// Launch (GPU): ceil(n / BLOCK) groups of BLOCK threads. On a CPU: one plain call.
// Tunables: BLOCK  threads in a group
const arch = @import("builtin").cpu.arch;

const BLOCK = `BLOCK=128`;
const Input = [*]addrspace(.global) const f32;
const Output = [*]addrspace(.global) f32;

fn gpu(a: Input, b: Input, out: Output, n: u32) callconv(if (arch == .amdgcn) .amdgcn_kernel else .nvptx_kernel) void {
    const i = @workGroupId(0) * BLOCK + @workItemId(0);
    if (i < n) out[i] = a[i] + b[i];
}

fn cpu(a: [*]const f32, b: [*]const f32, noalias out: [*]f32, n: u32) callconv(.c) void {
    for (0..n) |i| out[i] = a[i] + b[i];
}

comptime {
    const kernel = if (arch.isNvptx() or arch == .amdgcn) &gpu else &cpu;
    @export(kernel, .{ .name = "vector_add" });
}
