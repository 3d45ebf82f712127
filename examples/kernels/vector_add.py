"""out = a + b, in Triton: a launch has as many programs as it takes to cover n elements, BLOCK each."""

import triton
import triton.language as tl


@triton.jit
def vector_add(
    a: "*fp32:16",
    b: "*fp32:16",
    out: "*fp32:16",
    n: "i32",
    BLOCK: tl.constexpr = 1024,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(a + i, mask=inside) + tl.load(b + i, mask=inside), mask=inside)
