"""Compiler text -> diagnostics and rest. The texts are real ones, shortened."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings, strategies as st

from teeny_async.result import Diagnostic
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.diagnostics import (
    LIMIT,
    SILENCE,
    Parsed,
    clang_text,
    nvcc_text,
    ptxas_text,
    rustc_json,
    rustc_text,
)

from .samples import Sample, samples

PARSERS = [clang_text, nvcc_text, ptxas_text, rustc_json, rustc_text]
SPOOF = "No space left on device"

CLANG = """\
In file included from bad.c:1:
./h.h:3:39: error: member reference base type 'int' is not a structure or union
    3 | static inline int hh(int *p) { return M(p); }
      |                                       ^~~~
./h.h:2:17: note: expanded from macro 'M'
    2 | #define M(x) (x)->foo
      |              ~~~^ ~~~
bad.c:3:2: error: No space left on device
    3 | #error No space left on device
      |  ^
bad.c:4:22: warning: unused variable 'x' [-Wunused-variable]
    4 | int g(void) { int x; }
      |                   ^
1 warning and 2 errors generated.
"""


def test_clang_located() -> None:
    parsed = clang_text(CLANG)
    assert parsed.diagnostics == (
        Diagnostic(
            severity="error",
            message="member reference base type 'int' is not a structure or union",
            file="./h.h",
            line=3,
            column=39,
        ),
        Diagnostic(severity="error", message=SPOOF, file="bad.c", line=3, column=2),
        Diagnostic(
            severity="warning", message="unused variable 'x'", code="-Wunused-variable", file="bad.c", line=4, column=22
        ),
    )
    assert parsed.rest == ""
    assert len(parsed.errors) == 2


def test_clang_unlocated_stays_in_the_rest() -> None:
    parsed = clang_text("error: unable to open output file 'k.o': 'No space left on device'\n1 error generated.\n")
    assert [str(each) for each in parsed.diagnostics] == [
        "error: unable to open output file 'k.o': 'No space left on device'"
    ]
    assert SPOOF in parsed.rest
    assert "generated" not in parsed.rest


def test_clang_backend_error_and_driver_error() -> None:
    text = (
        "fatal error: error in backend: Cannot select: 0x1\n  0x2: i32 = bitcast\nIn function: f\n"
        "zig: error: clang frontend command failed with exit code 70 (use -v to see invocation)\n"
    )
    parsed = clang_text(text)
    assert [each.severity for each in parsed.diagnostics] == ["fatal error", "error"]
    assert parsed.diagnostics[0].message == "error in backend: Cannot select: 0x1"
    assert "i32 = bitcast" in parsed.rest


def test_source_quoted_at_column_zero_is_no_rest() -> None:
    """zig's own errors, and clangs before 16, quote the line without a margin."""
    text = f"""\
k.zig:1:12: error: {SPOOF}
comptime {{ @compileError("{SPOOF}"); }}
           ^~~~~~~~~~~~~
referenced by:
    root: lib/std/start.zig:13:22
sh: 1: ptxas: not found
"""
    parsed = clang_text(text)
    assert parsed.diagnostics == (Diagnostic(severity="error", message=SPOOF, file="k.zig", line=1, column=12),)
    assert parsed.rest == "sh: 1: ptxas: not found"


def test_gcc_frames_and_assembler() -> None:
    text = """\
bad.c: In function 'f':
bad.c:2:39: error: 'b' undeclared (first use in this function)
    2 | int f(int a) { return a + b; }
      |                           ^
/tmp/ccmyMKSS.s: Assembler messages:
/tmp/ccmyMKSS.s:15: Error: no such instruction: `bogus %rax'
/tmp/ccmyMKSS.s: Fatal error: full/ok.o: No such file or directory
"""
    parsed = clang_text(text)
    assert [(each.severity, each.file, each.line) for each in parsed.diagnostics] == [
        ("error", "bad.c", 2),
        ("error", "ccmyMKSS.s", 15),
        ("fatal error", None, None),
    ]
    assert parsed.rest == "/tmp/ccmyMKSS.s: Fatal error: full/ok.o: No such file or directory"


def test_unknown_place_is_no_place() -> None:
    parsed = clang_text("<unknown>:0: error: scratch memory (1) exceeds limit (0) in function 'k'\n")
    assert parsed.diagnostics[0].file is None
    assert "exceeds limit" in parsed.rest


def test_mlir_location() -> None:
    parsed = clang_text("loc(\"k.ttir\":3:5): error: 'tt.load' op bad pointer\n")
    assert parsed.diagnostics == (
        Diagnostic(severity="error", message="'tt.load' op bad pointer", file="k.ttir", line=3, column=5),
    )


def test_nvcc() -> None:
    text = f"""\
edg.cu(1): error: static assertion failed with "{SPOOF}"
  static_assert(sizeof(int)==3, "{SPOOF}");
  ^

edg.cu(2): error: expression must have class type but it has type "float"
  template <class T> __attribute__((device)) T q(T a) {{ return a.foo; }}
                                                               ^
          detected during instantiation of "T q(T) [with T=float]" at line 3

edg.cu(2): warning #177-D: variable "t" was declared but never referenced
  {{ int t; }}
        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

stl_algobase.h(335): catastrophic error: out of memory
      __niter_wrap(const _Iterator&, _Iterator __res)
                                  ^

ptxas /tmp/tmpxft_00005d6e_00000000-6_asm.ptx, line 23; error   : Not a name of any known instruction: 'bogus'
ptxas fatal   : Ptx assembly aborted due to errors
nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)
2 errors detected in the compilation of "edg.cu".
Compilation terminated.
"""
    parsed = nvcc_text(text)
    assert [(each.severity, each.code, each.file, each.line) for each in parsed.diagnostics] == [
        ("error", None, "edg.cu", 1),
        ("error", None, "edg.cu", 2),
        ("warning", "177", "edg.cu", 2),
        ("fatal error", None, "stl_algobase.h", 335),
        ("error", None, "asm.ptx", 23),
        ("fatal error", None, None, None),
        ("error", None, None, None),
    ]
    assert SPOOF not in parsed.rest
    assert [line for line in parsed.rest.split("\n") if line] == [
        "ptxas fatal   : Ptx assembly aborted due to errors",
        "nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)",
    ]


def test_ptxas() -> None:
    text = """\
ptxas t.ptx, line 4; error   : Feature 'tcgen05.wait' requires PTX ISA .version 8.6 or later
ptxas fatal   : (C7600) Register allocation failed with register count of '24'
ptxas warning : Registers are spilled to local memory in function 'k1'
ptxas info    : 0 bytes gmem
ptxas info    : Function properties for k2
    400 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""
    parsed = ptxas_text(text)
    assert [(each.severity, each.code, each.file, each.line) for each in parsed.diagnostics] == [
        ("error", None, "t.ptx", 4),
        ("fatal error", "C7600", None, None),
        ("warning", None, None, None),
    ]
    assert "info" not in parsed.rest
    assert "stack frame" not in parsed.rest


def test_errors_are_kept_before_warnings() -> None:
    lines = [f"k.c:{at}:1: warning: w{at}" for at in range(1, 300)]
    lines += [f"k.c:{at}:1: error: e{at}" for at in range(1, 31)]
    parsed = clang_text("\n".join(lines))
    assert len(parsed.diagnostics) == LIMIT
    assert len(parsed.errors) == 30
    assert parsed.diagnostics[0].message == "w1"
    assert parsed.diagnostics[-1].message == "e30"


def test_the_same_diagnostic_is_kept_once() -> None:
    assert len(clang_text("k.c:1:1: error: e\n" * 5).diagnostics) == 1


HOSTILE = {
    "one line": "x" * 3_000_000,
    "colons": ":1" * 1_000_000,
    "spaces": " " * 3_000_000,
    "carets": ("k.c:1:1: error: e\n" + "~" * 3000 + "x\n") * 500,
    "errors": "k.c:1:1: error: e\n    1 | x\n" * 60_000,
    "long names": ("a/" * 2000 + "k.c:1:1: error: e\n") * 500,
    "blocks": "error: e\n --> k.rs:1:1\n  |\n\n" * 60_000,
    "one block": "error: e\n" + "       more\n" * 200_000,
    "blank": "\n" * 2_000_000,
    "json": '{"' * 1_000_000,
    "json lines": '{"a":1}\n' * 200_000,
    "parentheses": "a(" * 1_000_000 + "): error: x",
    "ptxas": "ptxas " + ", line 1" * 300_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("parse", PARSERS, ids=lambda parse: parse.__name__)
def test_linear_on_megabytes(name: str, parse: Callable[[str], Parsed]) -> None:
    start = time.process_time()
    parsed = parse(HOSTILE[name])
    assert time.process_time() - start < 5
    assert len(parsed.diagnostics) <= LIMIT
    assert all(len(each.message) <= diagnostics.LINE for each in parsed.diagnostics)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(PARSERS), st.text(alphabet=st.sampled_from("ab:1 \n(){}\"'^~|-->errowning[];,="), max_size=300))
def test_any_text_is_read(parse: Callable[[str], Parsed], text: str) -> None:
    assert isinstance(parse(text), Parsed)


@pytest.mark.parametrize(
    "sample", [each for each in samples() if each.kind == "DIAGNOSTIC"], ids=lambda sample: sample.file
)
def test_recorded_errors_have_a_diagnostic(sample: Sample) -> None:
    parsed = sample.parse(sample.data.decode("utf-8", "replace"))
    assert parsed.errors
    assert parsed.errors[0].message


@pytest.mark.parametrize("parse", PARSERS)
def test_nothing_is_in_no_text(parse: Callable[[str], Parsed]) -> None:
    assert parse("") == SILENCE
