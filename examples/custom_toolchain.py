"""A compiler of your own, from its command line. Key, cache, header tracking, retries and killing come with it."""

from teeny_async import CommandToolchain, CompileRequest, Kernel, compile_many_sync

gcc = CommandToolchain(
    "gcc",
    "gcc -march={cpu} -O{opt_level} -D{defines} -I{include_dirs} {flags} -MD -MF {depfile} -S {source} -o {output}",
    languages=["c"],
    outputs={"asm": "kernel.s"},
    asks=["-print-prog-name=cc1"],  # the compiler proper: its contents, too, are this toolchain's identity
)

square = Kernel(name="square", source="int square(int x) { return x * x * SCALE; }\n", language="c")
broken = Kernel(name="broken", source="int broken( { return SCALE; }\n", language="c")
requests = [CompileRequest(kernel, toolchain=gcc, params={"SCALE": 3}) for kernel in (square, broken)]
good, bad = compile_many_sync(requests)
print(good.artifact["asm"].decode())
print(bad.failure)
