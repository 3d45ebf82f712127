"""lld: zig's own linker, the stage after an object: AMD code objects (hsaco) and shared libraries.

A shared library is linked against nothing: what it calls of libc or libm is looked up in the process that
loads it (Python's own has both). So the same object links on every machine, and cross-links too.
"""

from __future__ import annotations

from teeny_async.action import Action
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.target import Target
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound, neutral_env
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.verdict import judge
from teeny_async.toolchains.zig_find import find_zig


class Lld(Driver):
    """Object to hsaco or shared library."""

    name = "lld"
    languages = frozenset()
    emits = ("hsaco", "shared")

    async def find(self, host: Host) -> Toolchain:
        try:
            return await find_zig(host, self.name)
        except ToolNotFound as error:
            raise ToolNotFound(f"lld: it comes with zig; {error}") from None

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        if target.is_nvidia:
            raise RequestError(f"lld links for AMD targets and CPUs, not {target}")
        label, output = ("hsaco", "kernel.hsaco") if target.is_amd else ("shared", "kernel.so")
        strict = ["--no-undefined"] if target.is_amd else []  # a GPU has nothing to look a name up in
        return Action(
            argv=("zig", "ld.lld", "-shared", "--threads=1", *strict, "kernel.o", "-o", output),
            executable=toolchain.path,
            neutral=neutral_env(toolchain),
            chained=FrozenMap({"kernel.o": "object"}),
            outputs=FrozenMap({label: output}),
            required=(label,),
            expect=expectations(request.kernel, target),
        )

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return judge(action, exit, tool=self.name, parse=diagnostics.clang_text, check=check)
