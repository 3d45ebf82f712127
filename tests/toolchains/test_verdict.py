"""How a run ended -> an artifact or a kind of failure: the order of the rules, and what is kept."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Mapping

import pytest

from teeny_async.failures import POLICIES, FailureKind
from teeny_async.result import Artifact, Exit, Failure, Usage
from teeny_async.toolchains import diagnostics, verdict
from teeny_async.toolchains.verdict import Parse, judge

from .judging import ACTION, PTX, failed, judged, kind

K = FailureKind

# -- before the tool had its say -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOENT, K.TOOL_MISSING),
        (errno.EACCES, K.TOOL_MISSING),
        (errno.ENOTDIR, K.TOOL_MISSING),
        (errno.ENOEXEC, K.TOOL_MISSING),
        (errno.EAGAIN, K.SPAWN),
        (errno.ETXTBSY, K.SPAWN),
        (errno.ENOMEM, K.SPAWN),
        (errno.EMFILE, K.SPAWN),
        (errno.ENFILE, K.SPAWN),
        (errno.ENOSPC, K.DISK_FULL),
        (errno.EDQUOT, K.DISK_FULL),
        (errno.EIO, K.INFRA),
        (errno.ESTALE, K.INFRA),
        (None, K.INFRA),
    ],
)
def test_never_started(number: int | None, expected: FailureKind) -> None:
    found = failed(code=None, errno=number)
    assert found.kind is expected
    assert found.exit is None
    assert "/opt/zig" in found.message


@pytest.mark.parametrize("code", [None, 0, 1, -9, -15, 255])
@pytest.mark.parametrize(
    ("stopped", "expected"),
    [("timeout", K.TIMEOUT), ("cpu_timeout", K.TIMEOUT), ("cancelled", K.CANCELLED), ("lost", K.INFRA)],
)
def test_our_own_stop_decides(code: int | None, stopped: str, expected: FailureKind) -> None:
    text = "k.c:1:1: error: x\nNo space left on device\n"
    assert kind(text, code=code, stopped=stopped, outputs={"ptx": PTX}, scratch_full=True) is expected


def test_a_time_limit_says_how_long() -> None:
    usage = Usage(wall=3.04, cpu_user=1.5, cpu_system=0.25)
    assert failed(code=-9, stopped="timeout", usage=usage).message == "zig was stopped at its time limit, after 3.0 s"
    assert "1.8 s of CPU" in failed(code=-9, stopped="cpu_timeout", usage=usage).message


# -- it claims success ---------------------------------------------------------------------------


def test_success() -> None:
    found = judged("k.c:1:1: warning: w [-Wx]\n", code=0, outputs={"ptx": PTX, "stray": b"x"})
    assert isinstance(found, Artifact)
    assert found.outputs == {"ptx": PTX}
    assert [str(each) for each in found.diagnostics] == ["k.c:1:1: warning[-Wx]: w"]
    assert found.metrics == {}


def test_metrics_are_read_from_the_text() -> None:
    def count(text: str) -> Mapping[str, int]:
        return {"length": len(text)}

    ended = Exit(code=0, stderr=b"abc", outputs={"ptx": PTX})
    found = judge(ACTION, ended, tool="zig", parse=diagnostics.clang_text, metrics=count)
    assert isinstance(found, Artifact)
    assert found.metrics == {"length": 3}


@pytest.mark.parametrize("found", [{}, {"ptx": b""}, {"mlir": b"x"}])
def test_a_missing_or_empty_output(found: dict[str, bytes]) -> None:
    assert kind(code=0, outputs=found) is K.BAD_OUTPUT
    assert failed(code=0, outputs=found).message == "zig left no k.ptx, or an empty one"
    assert kind(code=0, outputs=found, scratch_full=True) is K.DISK_FULL
    assert kind("cicc: IO error: No space left on device\n", code=0, outputs=found) is K.DISK_FULL


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOENT, K.BAD_OUTPUT), (errno.EIO, K.INFRA), (errno.ENOMEM, K.INFRA), (errno.EDQUOT, K.DISK_FULL)],
)
def test_an_output_that_could_not_be_read(number: int, expected: FailureKind) -> None:
    assert kind(code=0, errno=number) is expected


def test_an_output_that_is_not_what_was_asked_for() -> None:
    wrong = {"ptx": PTX.replace(b"sm_90", b"sm_80")}
    found = failed(code=0, outputs=wrong)
    assert (found.kind, found.message) == (K.BAD_OUTPUT, "zig succeeded, but the PTX is for .target sm_80, not sm_90")
    assert kind(code=0, outputs=wrong, scratch_full=True) is K.DISK_FULL
    assert kind(code=0, outputs={"ptx": PTX[:-8]}, scratch_full=True) is K.DISK_FULL


def test_a_full_disk_beside_a_good_output_is_no_failure() -> None:
    assert isinstance(judged(code=0, outputs={"ptx": PTX}, scratch_full=True), Artifact)


def test_a_failed_write_spoils_a_success() -> None:
    text = "warning: failed to write to `x`: No space left on device (os error 28)\n"
    assert kind(text, code=0, outputs={"ptx": PTX}) is K.DISK_FULL


def test_an_ignored_processor() -> None:
    text = "'sm_999' is not a recognized processor for this target (ignoring processor)\n"
    assert kind(text, code=0, outputs={"ptx": PTX}, parse=diagnostics.rustc_text) is K.BAD_OUTPUT


# -- crash, infeasible, diagnostic, silence ------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "text", "code"),
    [
        (diagnostics.rustc_text, "error: internal compiler error: x\n --> k.rs:1:1\n\nthread 'rustc' panicked at", 101),
        (diagnostics.rustc_text, "error: the compiler unexpectedly panicked. This is a bug", 101),
        (diagnostics.rustc_text, "thread 'rustc' (24074) panicked at compiler/x.rs:1:2:\nboom", 101),
        (diagnostics.clang_text, "k.c:5:1: internal compiler error: in foo, at bar.c:12", 1),
        (diagnostics.clang_text, "PLEASE submit a bug report to https://example.org\nStack dump:\n0. x", 1),
        (diagnostics.clang_text, "fatal error: error in backend: x\nPLEASE ATTACH THE FOLLOWING FILES", 1),
        (diagnostics.nvcc_text, "k.cu(5): internal error: assertion failed at: templates.c", 4),
        (diagnostics.ptxas_text, "ptxas fatal   : (C7907) Internal compiler error", 255),
    ],
)
def test_crashes(parse: Parse, text: str, code: int) -> None:
    assert kind(text, code=code, parse=parse) is K.CRASH


def test_an_llvm_error_of_rustc_is_no_crash() -> None:
    found = failed("rustc-LLVM ERROR: Undefined external symbol\n", code=101, parse=diagnostics.rustc_json)
    assert (found.kind, found.message) == (K.DIAGNOSTIC, "Undefined external symbol")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (
            diagnostics.ptxas_text,
            "ptxas error   : Entry function 'k' uses too much shared data (0x61a80 bytes, 0xc000 max)",
        ),
        (
            diagnostics.ptxas_text,
            "ptxas error   : Entry function 'k' with max regcount of 24 calls function 'f' with 50",
        ),
        (diagnostics.ptxas_text, "ptxas k.ptx, line 4; error   : Feature 'x' requires .target sm_80 or higher"),
        (diagnostics.nvcc_text, "nvcc fatal   : Unsupported gpu architecture 'sm_999'"),
        (diagnostics.clang_text, "fatal error: error in backend: PTX version 8.6 does not support target 'sm_120'."),
        (diagnostics.clang_text, "k.c:1:37: error: local memory (400000) exceeds limit (65536) in 'k'"),
        (diagnostics.rustc_json, "rustc-LLVM ERROR: Cannot select: 0x7f: i32 = bitcast"),
    ],
)
def test_infeasible(parse: Parse, text: str) -> None:
    found = failed(text, parse=parse, code=255)
    assert found.kind is K.INFEASIBLE
    assert POLICIES[found.kind].on_sweep == "prune"


def test_infeasible_by_the_drivers_own_words() -> None:
    ended = Exit(code=1, stderr=b"OutOfResources: shared memory, Required: 1\n")
    more = (re.compile("OutOfResources"),)
    found = judge(ACTION, ended, tool="triton", parse=diagnostics.clang_text, infeasible=more)
    assert isinstance(found, Failure)
    assert found.kind is K.INFEASIBLE
    assert kind("OutOfResources: shared memory, Required: 1\n") is K.DIAGNOSTIC


def test_a_warning_makes_nothing_infeasible() -> None:
    text = "ptxas warning : Feature 'x' requires .target sm_80 or higher\nptxas fatal   : Unknown option '-x'\n"
    assert kind(text, parse=diagnostics.ptxas_text) is K.DIAGNOSTIC
    assert kind(text.replace("warning", "error  "), parse=diagnostics.ptxas_text) is K.INFEASIBLE


def test_diagnostic() -> None:
    found = failed("k.c:1:1: warning: w\nk.c:2:1: error: use of\tundeclared  identifier\nk.c:3:1: error: later\n")
    assert found.kind is K.DIAGNOSTIC
    assert found.message == "use of undeclared identifier"
    assert [each.line for each in found.diagnostics] == [1, 2, 3]
    assert (found.exit, found.tool, found.command) == (1, "zig", ACTION.argv)


def test_text_in_no_format_is_an_error_too() -> None:
    found = failed("  indented\nsomething is wrong\nmore\n", code=3)
    assert (found.kind, found.message) == (K.DIAGNOSTIC, "something is wrong")


@pytest.mark.parametrize(
    ("text", "parse"),
    [
        ("", diagnostics.clang_text),
        ("\n \n", diagnostics.nvcc_text),
        ("\nCompilation terminated.\n", diagnostics.nvcc_text),
        ("k.c:1:1: warning: w\n    1 | x\n", diagnostics.clang_text),
        ("nvcc warning : Support for offline compilation will be removed\n", diagnostics.nvcc_text),
        ("ptxas info    : 0 bytes gmem\n", diagnostics.ptxas_text),
        ("warning: unstable feature\n  |\n  = note: this\n\nwarning: 1 warning emitted\n\n", diagnostics.rustc_text),
        ("'+ptx79' is not a recognized feature for this target (ignoring feature)\n", diagnostics.rustc_text),
    ],
)
def test_a_failure_without_an_error_is_tried_again(text: str, parse: Parse) -> None:
    found = failed(text, parse=parse, code=255)
    assert found.kind is K.BAD_OUTPUT
    assert found.message.startswith("zig ended with exit status 255 with")
    assert not POLICIES[found.kind].cached


def test_a_log_is_no_error() -> None:
    text = "DEBUG rustc_codegen_llvm::mlir ttir\nmodule { tt.func @k() }\n"
    assert kind(text, parse=diagnostics.rustc_text) is K.BAD_OUTPUT
    assert kind(text + "error: bad kernel\n", parse=diagnostics.rustc_text) is K.DIAGNOSTIC


def test_a_text_that_was_cut_may_have_lost_the_error() -> None:
    assert kind("half a line\n", dropped=1) is K.BAD_OUTPUT
    assert kind("k.c:1:1: error: e\n", dropped=1) is K.DIAGNOSTIC


# -- what is kept --------------------------------------------------------------------------------


def test_messages_are_one_short_line() -> None:
    found = failed("k.c:1:1: error: " + "word " * 10_000)
    assert len(found.message) == verdict.MESSAGE
    assert found.message.endswith("...")


def test_the_log_is_the_tail_from_a_line_start() -> None:
    text = "".join(f"k.c:{at}:1: error: e\n" for at in range(1, 20_000))
    found = failed(text)
    assert len(found.log) <= verdict.LOG_TAIL
    assert text.endswith(found.log)
    assert found.log.startswith("k.c:")


def test_the_log_of_json_is_for_people() -> None:
    line = '{"$message_type":"diagnostic","message":"m","level":"error","spans":[],"rendered":"error: m\\n\\n"}'
    assert failed(line, parse=diagnostics.rustc_json).log == "error: m"


def test_the_same_crash_gives_the_same_failure() -> None:
    """Attempts are compared by their messages: process ids and addresses have no place in them."""
    text = "thread 'rustc' ({}) panicked at x.rs:1:2:\nboom\nerror: the compiler unexpectedly panicked"
    messages = {failed(text.format(pid), code=101, parse=diagnostics.rustc_text).message for pid in (1, 2)}
    assert messages == {"the compiler unexpectedly panicked"}


def test_megabytes_are_judged_in_no_time() -> None:
    log = "DEBUG mlir: %0 = tt.load %1 : tensor<1024xf32>\n" * 45_000
    start = time.process_time()
    found = failed(log + "error: No space left on device\n", parse=diagnostics.rustc_text)
    assert found.kind is K.DISK_FULL
    assert time.process_time() - start < 3


def test_a_log_of_megabytes_is_parsed_at_its_ends_only() -> None:
    noise = b"note: nothing\n" * 2_000_000
    exit = Exit(code=1, stderr=b"kernel.c:1:2: error: first\n" + noise + b"kernel.c:9:9: error: last\n")
    parsed: list[int] = []

    def parse(text: str) -> diagnostics.Parsed:
        parsed.append(len(text))
        return diagnostics.clang_text(text)

    verdict = judge(ACTION, exit, tool="cc", parse=parse)
    assert isinstance(verdict, Failure)
    assert [each.message for each in verdict.diagnostics] == ["first", "last"]
    assert parsed[0] < 300_000
