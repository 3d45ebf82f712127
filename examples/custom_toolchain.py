"""A compiler of your own: find it, plan a run, judge the outcome. Key, cache, retries and killing come with it."""

from pathlib import Path

from teeny_async import CompileRequest, Kernel, Target, compile_many_sync
from teeny_async.action import Action, Input
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.source import render
from teeny_async.target import host_triple
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound, neutral_env
from teeny_async.toolchains.verdict import judge


class Gcc(Driver):
    """C to assembly for this machine."""

    name = "gcc"
    languages = frozenset({"c"})

    async def find(self, host: Host) -> Toolchain:
        path = host.which("gcc")
        if path is None:
            raise ToolNotFound("gcc: not installed; run: apt-get install gcc")
        version = (await host.run([path, "--version"])).stdout.decode().splitlines()[0]
        compiler = (await host.run([path, "-print-prog-name=cc1"])).stdout.decode().strip()
        files = {"gcc": Path(path), "cc1": Path(compiler)}  # their contents are the compiler's identity
        fingerprint = await host.fingerprint(self.name, version, files)
        return Toolchain(
            name=self.name, path=path, version=version, fingerprint=fingerprint, search_path=("/usr/bin", "/bin")
        )

    def default_target(self, kernel: Kernel) -> Target:
        return Target(None, host_triple())

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        rendered = render(request)
        macros = [f"-D{name}={value}" for name, value in rendered.defines]
        cpu = [f"-march={target.cpu}"] if target.cpu else []
        return Action(
            argv=("gcc", *cpu, f"-O{request.opt_level}", *macros, *request.flags, "-S", "kernel.c", "-o", "kernel.s"),
            executable=toolchain.path,
            neutral=neutral_env(toolchain),
            inputs=(Input("kernel.c", (rendered.text,)),),
            outputs={"asm": "kernel.s"},
            required=("asm",),
        )

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text)


kernel = Kernel(name="square", source="int square(int x) { return x * x; }\n", language="c")
broken = Kernel(name="broken", source="int broken( { return 1; }\n", language="c")
good, bad = compile_many_sync([CompileRequest(each, toolchain=Gcc()) for each in (kernel, broken)])
print(good.artifact["asm"].decode())
print(bad.failure)
