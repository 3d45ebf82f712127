"""A compiler of the user's own, from its command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from teeny_async import CommandToolchain, Compiler, CompileRequest, FailureKind, Kernel, RequestError, RetryPolicy
from teeny_async.action import Action
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.settings import Settings
from teeny_async.target import Target
from teeny_async.testing import FakeHost
from teeny_async.toolchains.base import Toolchain, ToolNotFound
from teeny_async.toolchains.diagnostics import by_pattern
from tests.support import changed

TOOL = Toolchain(name="mycc", path="/opt/mycc", version="1", fingerprint="00")
SAMPLE = Kernel(name="k", source="int f(void);\n", language="c")


def mycc(argv: str = "mycc {source} -o {output}", **options: Any) -> CommandToolchain:
    return CommandToolchain("mycc", argv, **{"languages": ["c"], "outputs": {"object": "kernel.o"}, **options})


def planned(tool: CommandToolchain, target: str = "znver4", kernel: Kernel = SAMPLE, **options: Any) -> Action:
    return tool.plan(CompileRequest(kernel, toolchain=tool, **options), Target.parse(target), TOOL)


# -- the template -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "options", "expected"),
    [
        ("-march={cpu}", {}, ["-march=znver4"]),
        ("-march={cpu}", {"target": "default@x86_64-linux-gnu"}, []),
        ("--target={triple} {arch}", {}, ["--target=x86_64-unknown-linux-gnu", "x86_64"]),
        ("-m{features}", {"target": "default+avx2+fma@x86_64-linux-gnu"}, ["-m+avx2", "-m+fma"]),
        ("--ptx={ptx_version} {cpu}", {"target": "sm_90+ptx86"}, ["--ptx=86", "sm_90"]),
        ("-D{defines}", {"params": {"N": 4, "M": True}}, ["-DM=1", "-DN=4"]),
        ("-D{defines}", {}, []),
        ("{flags} -O{opt_level}", {"flags": ("-a", "b c"), "opt_level": "s"}, ["-a", "b c", "-Os"]),
        ("'{{x}}' -o{output}", {}, ["{x}", "-okernel.o"]),
    ],
)
def test_an_argument_is_there_for_each_thing_it_names(
    template: str, options: dict[str, Any], expected: list[str]
) -> None:
    target = options.pop("target", "znver4" if "{cpu}" in template else "default@x86_64-unknown-linux-gnu")
    assert list(planned(mycc(f"/opt/bin/mycc {template}"), target, **options).argv) == ["mycc", *expected]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "znver4"}, r"mycc: its command has no \{cpu\}, so it cannot take znver4"),
        ({"flags": ("-g",)}, r"no \{flags\}, so it cannot take -g"),
        ({"params": {"N": 1}}, r"no \{defines\}, so it cannot take N=1"),
        ({"opt_level": 2}, r"no \{opt_level\}; leave opt_level at 3"),
        ({"emit": "asm"}, "cannot emit 'asm'"),
        ({"log_level": "debug"}, "writes no log"),
    ],
)
def test_what_the_command_has_no_place_for_is_refused(options: dict[str, Any], message: str) -> None:
    target = options.pop("target", "default@x86_64-unknown-linux-gnu")
    with pytest.raises(RequestError, match=message):
        planned(mycc(), target, **options)


@pytest.mark.parametrize(
    ("argv", "options", "message"),
    [
        ("mycc {sauce}", {}, r"argument '\{sauce\}': \{sauce\} is none of \{source\}"),
        ("mycc {", {}, "write {{ for a brace"),
        ("mycc {cpu!r}", {}, "is none of"),
        ("mycc", {"outputs": {}}, "outputs names no file"),
        ("mycc", {"parse": "msvc"}, "parse is one of clang, nvcc"),
    ],
)
def test_a_template_that_makes_no_sense(argv: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        mycc(argv, **options)


def test_inputs_outputs_and_names() -> None:
    kernel = Kernel(name="k", source="body", prelude="head\n", language="c")
    outputs = {"ptx": "out.ptx", "log": "out.log"}
    tool = mycc("mycc {cpu}", outputs=outputs, optional=["log"], inputs={"lib.ld": "SECTIONS"}, source="k.cl")
    action = planned(tool, "sm_90", kernel, emit="cubin")
    assert {item.name: item.data() for item in action.inputs} == {"k.cl": b"head\nbody", "lib.ld": b"SECTIONS"}
    assert (action.outputs, action.required) == (outputs, ("ptx",))
    request = CompileRequest(kernel, toolchain=tool, emit="cubin")
    assert tool.finish(request, Target.parse("sm_90")) == "ptxas"
    assert tool.finish(CompileRequest(kernel, toolchain=tool), Target.parse("sm_90")) is None
    assert tool.emits == ("ptx", "log", "cubin")


def test_a_kernel_that_includes_is_keyed_by_the_depfile_or_not_kept(tmp_path: Path) -> None:
    kernel = Kernel(name="k", source='#include "a.h"\n', language="c", include_dirs=(str(tmp_path),))
    command = "mycc -I{include_dirs} {source} -o {output} {cpu}"
    blind, seeing = planned(mycc(command), kernel=kernel), planned(mycc(f"{command} -MF {{depfile}}"), kernel=kernel)
    assert blind.uncacheable == "the source reads files, and the command has no {depfile} to say which"
    assert (seeing.uncacheable, seeing.depfile, list(seeing.search)) == (None, "kernel.d", [str(tmp_path)])
    assert f"-I{tmp_path}" in seeing.argv
    plain = planned(mycc(command), kernel=Kernel(name="k", source="", language="c", include_dirs=(str(tmp_path),)))
    assert (plain.uncacheable, list(plain.argv)) == (None, ["mycc", "kernel.c", "-o", "kernel.o", "znver4"])


def test_messages_of_a_format_of_its_own() -> None:
    pattern = re.compile(r"\[(?P<severity>\w+)\] (?:(?P<file>\S+)@(?P<line>\d+) )?(?P<message>.*)")
    found = by_pattern(pattern, "start\n[ERROR] k.x@7 bad token\n[warning] old\n[note] k.x@1 seen here")
    assert [str(one) for one in found.diagnostics] == ["k.x:7: error: bad token", "warning: old"]
    assert found.rest == "start\n[warning] old"
    bare = by_pattern(re.compile(r"!! (?P<message>.*)"), "!! no")
    assert bare.errors[0].severity == "error"
    verdict = mycc(parse=pattern).judge(planned(mycc("mycc {cpu}")), Exit(code=3, stderr=b"[ERROR] k.x@7 bad token"))
    assert getattr(verdict, "kind", None) is FailureKind.DIAGNOSTIC
    assert getattr(verdict, "message", None) == "bad token"


# -- finding it ---------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_its_identity_is_what_it_says_and_what_it_is_made_of() -> None:
    answers: dict[tuple[str, ...], Exit] = {
        ("/opt/mycc", "-V"): Exit(code=0, stderr=b"mycc 3\nbuilt today\n"),
        ("/opt/mycc", "-where=core"): Exit(code=0, stdout=b"/opt/core.so\n"),
    }
    host = FakeHost({"MYCC_MODE": "fast", "HOME": "/root"}, {"mycc": "/opt/mycc"}, answers)
    tool = mycc(version=["-V"], asks=["-where=core"], files=["/opt/lib.so"], pass_env=["MYCC_MODE", "MYCC_OTHER"])
    found = await tool.find(host)
    assert (found.version, found.settings) == ("mycc 3", {"MYCC_MODE": "fast"})
    assert bytes.fromhex(found.fingerprint).decode() == (
        "mycc mycc 3\nbuilt today ['-where=core', 'file 0', 'program']"
    )
    action = tool.plan(CompileRequest(SAMPLE, toolchain=tool), Target(None, "x86_64-unknown-linux-gnu"), found)
    assert action.env == FrozenMap({"MYCC_MODE": "fast"})


@pytest.mark.anyio
async def test_it_is_not_there() -> None:
    with pytest.raises(ToolNotFound, match="mycc: mycc is not installed, or is not on PATH"):
        await mycc().find(FakeHost())
    with pytest.raises(ToolNotFound, match="/nowhere/mycc is not installed"):
        await mycc("/nowhere/mycc").find(FakeHost())
    with pytest.raises(ToolNotFound, match="does not answer `--version`"):
        await mycc().find(FakeHost(programs={"mycc": "/opt/mycc"}))


# -- a real one ---------------------------------------------------------------------------------

SCRIPT = """\
#!/bin/sh
# version VERSION
if [ "$1" = --version ]; then echo "mycc 1"; exit 0; fi
echo "$MYCC_MODE" >>"LOG"
[ -e "LOG.fault" ] && { rm "LOG.fault"; kill -SEGV $$; }
cat kernel.c >kernel.o
"""


@pytest.mark.anyio
@pytest.mark.usefixtures("no_leftovers")
async def test_key_cache_and_retry_work_for_it(settings: Settings, tmp_path: Path) -> None:
    program, log = tmp_path / "mycc", tmp_path / "log"

    def write(version: int) -> None:
        program.write_text(SCRIPT.replace("LOG", str(log)).replace("VERSION", str(version)))
        program.chmod(0o755)

    async def compiled(**options: Any) -> tuple[str, int]:
        tool = mycc(f"{program} {{source}} {{output}} {{flags}}", outputs={"blob": "kernel.o"}, pass_env=["MYCC_MODE"])
        environ = {"MYCC_MODE": options.pop("mode", "a")}
        retry = RetryPolicy(initial=0, jitter=0)
        async with Compiler(settings=changed(settings, environ), jobs=1, retry=retry) as compiler:
            result = await compiler.compile_result(CompileRequest(SAMPLE, toolchain=tool, **options))
            assert result.outputs["blob"] == b"int f(void);\n"
            return result.source, len(result.attempts)

    write(1)
    Path(f"{log}.fault").touch()
    assert await compiled() == ("compiled", 2), "a crash is tried again"
    assert await compiled() == ("cached", 0)
    assert await compiled(mode="b") == ("compiled", 1)
    assert await compiled(flags=("-x",)) == ("compiled", 1)
    write(2)
    assert await compiled() == ("compiled", 1), "another program that says the same of itself"
    assert await compiled() == ("cached", 0)
    assert log.read_text().split() == ["a", "a", "b", "a", "a"]
