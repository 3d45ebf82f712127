"""What proves that the machine failed, and what does not: the words of tools, shells and signals."""

from __future__ import annotations

import pytest

from teeny_async.failures import POLICIES, FailureKind
from teeny_async.toolchains import diagnostics, symptoms
from teeny_async.toolchains.verdict import Parse

from .judging import failed, kind

K = FailureKind

# -- the kernel is no evidence against the machine -----------------------------------------------

SPOOFS = [
    "No space left on device",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "LLVM ERROR: out of memory",
    "std::bad_alloc",
    "error while loading shared libraries: libx.so",
    "Stale file handle",
    "sh: 1: ptxas: not found",
    "PLEASE submit a bug report",
    "internal compiler error",
    "Segmentation fault (core dumped)",
    "died due to signal 11",
    "(os error 28)",
]


@pytest.mark.parametrize("words", SPOOFS)
@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (diagnostics.clang_text, "k.c:3:2: error: {}\n    3 | #error {}\n      |  ^\n1 error generated.\n"),
        (diagnostics.clang_text, "k.c:3:2: error: e\n#error {}\n ^\n"),
        (
            diagnostics.nvcc_text,
            'k.cu(1): error: static assertion failed with "{}"\n  static_assert(0, "{}");\n  ^\n\n',
        ),
        (diagnostics.ptxas_text, "ptxas k.ptx, line 3; error   : Unknown symbol '{}'\n"),
        (diagnostics.rustc_text, 'error: {}\n --> k.rs:2:1\n  |\n2 | compile_error!("{}");\n  | ^^^\n\n'),
    ],
    ids=["clang", "old clang", "nvcc", "ptxas", "rustc"],
)
def test_the_kernels_own_words(parse: Parse, text: str, words: str) -> None:
    found = failed(text.replace("{}", words), parse=parse)
    assert found.kind is K.DIAGNOSTIC
    assert kind(text.replace("{}", words), parse=parse, scratch_full=True, code=1) is K.DIAGNOSTIC or parse is (
        diagnostics.ptxas_text
    )


def test_words_in_a_string_of_dumped_ir() -> None:
    text = '@s = constant [24 x i8] c"No space left on device\\00"\nerror: bad\n'
    assert kind(text, parse=diagnostics.rustc_text) is K.DIAGNOSTIC


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("error closing /tmp/k.s: No space left on device", K.DISK_FULL),
        ("cannot open file './h.h': Input/output error", K.INFRA),
        ("h.h: Stale file handle", K.INFRA),
        ("h.h: Cannot allocate memory", K.OUT_OF_MEMORY),
        ("h.h: No such file or directory", K.DIAGNOSTIC),
        ("'No space left on device' file not found", K.DIAGNOSTIC),
        ("No space left on device", K.DIAGNOSTIC),
    ],
)
def test_a_fatal_error_in_a_source_file_may_be_the_machines(message: str, expected: FailureKind) -> None:
    assert kind(f"k.c:1:10: fatal error: {message}\n    1 | #include\n") is expected


# -- the machine failed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("error: unable to open output file 'k.o': 'No space left on device'", K.DISK_FULL),
        ("as: k.o: Disk quota exceeded", K.DISK_FULL),
        ('panicked: Os { code: 28, kind: StorageFull, message: "No space left on device" }', K.DISK_FULL),
        ("OSError: [Errno 28] No space left on device", K.DISK_FULL),
        ("LLVM ERROR: out of memory\nAllocation failed\nPLEASE submit a bug report\nStack dump:", K.OUT_OF_MEMORY),
        ("terminate called after throwing an instance of 'std::bad_alloc'", K.OUT_OF_MEMORY),
        ("memory allocation of 268435456 bytes failed", K.OUT_OF_MEMORY),
        ("ptxas fatal   : Memory allocation failure", K.OUT_OF_MEMORY),
        ("virtual memory exhausted: Cannot allocate memory", K.OUT_OF_MEMORY),
        ("cc1: out of memory allocating 65536 bytes", K.OUT_OF_MEMORY),
        (
            "rustc: error while loading shared libraries: libLLVM.so: failed to map segment from shared object",
            K.OUT_OF_MEMORY,
        ),
        ("rustc: error while loading shared libraries: libLLVM.so: cannot open shared object file", K.INFRA),
        ("ld: k.o: Stale file handle", K.INFRA),
        ("sh: 0: Cannot fork", K.INFRA),
        ("failed to spawn thread: Resource temporarily unavailable (os error 11)", K.INFRA),
        ("error: could not acquire package cache lock", K.INFRA),
        ("nvcc fatal   : Could not open output file '/tmp/tmpxft_0000766d_0000000a'", K.INFRA),
        ("zig: error: no such file or directory: 'gone.c'", K.INFRA),
        ("cc1: fatal error: gone.c: No such file or directory\ncompilation terminated.", K.INFRA),
        ("sh: 1: cicc: not found", K.TOOL_MISSING),
        ("/bin/sh: line 1: ptxas: command not found", K.TOOL_MISSING),
        (
            "gcc: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties.",
            K.TOOL_MISSING,
        ),
        ("zig: error: unable to execute command: posix_spawn failed: No such file or directory", K.TOOL_MISSING),
        ("gcc: fatal error: cannot execute 'cc1': execvp: No such file or directory", K.TOOL_MISSING),
        ("error: linker `cc` not found\n  |\n  = note: No such file or directory (os error 2)", K.TOOL_MISSING),
        ("error: toolchain 'nope' is not installed", K.TOOL_MISSING),
    ],
)
@pytest.mark.parametrize("parse", [diagnostics.nvcc_text, diagnostics.rustc_text], ids=["nvcc", "rustc"])
def test_the_machines_words(text: str, expected: FailureKind, parse: Parse) -> None:
    found = failed(text, parse=parse)
    assert found.kind is expected
    assert not POLICIES[found.kind].cached


def test_the_message_is_the_line_that_tells() -> None:
    text = "note: first\nsh: 1: cicc: not found\nnvcc fatal   : later\n"
    assert failed(text, parse=diagnostics.nvcc_text).message == "sh: 1: cicc: not found"


def test_a_crash_for_lack_of_memory_is_no_crash() -> None:
    text = "memory allocation of 16384 bytes failed\nstack backtrace:\n"
    for code in (-6, 134, -11, 139, 101):
        assert kind(text, code=code, parse=diagnostics.rustc_text) is K.OUT_OF_MEMORY


# -- a full disk that nobody mentions ------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nvcc fatal   : Failed to preprocess host compiler properties.", 1),
        ("Segmentation fault", 139),
        ("ptxas fatal   : Output file 'k.cubin' could not be opened", 255),
        ("ptxas /tmp/tmpxft_0001_0000-6_k.ptx, line 9; fatal   : Parsing error near '': syntax error", 255),
        ("", 1),
    ],
)
def test_no_block_was_left(text: str, code: int) -> None:
    assert kind(text, code=code, parse=diagnostics.nvcc_text, scratch_full=True) is K.DISK_FULL
    assert kind(text, code=code, parse=diagnostics.nvcc_text) is not K.DISK_FULL


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("k.c:1:1: error: e", 1, K.DIAGNOSTIC),
        ("", -9, K.OUT_OF_MEMORY),
        ("", 137, K.OUT_OF_MEMORY),
        ("LLVM ERROR: out of memory", 134, K.OUT_OF_MEMORY),
    ],
)
def test_what_a_full_disk_does_not_explain(text: str, code: int, expected: FailureKind) -> None:
    assert kind(text, code=code, scratch_full=True) is expected


# -- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("through_shell", [False, True])
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *((number, K.CRASH) for number in (4, 5, 6, 7, 8, 11, 31)),
        *((number, K.INFRA) for number in (1, 2, 3, 13, 15, 25)),
        (9, K.OUT_OF_MEMORY),
        (24, K.TIMEOUT),
    ],
)
def test_signals(number: int, expected: FailureKind, through_shell: bool) -> None:
    found = failed(code=128 + number if through_shell else -number)
    assert found.kind is expected
    assert found.message.startswith("zig died of SIG")


def test_an_unknown_signal_is_a_crash_and_an_unknown_status_is_not() -> None:
    assert failed(code=-40).message == "zig died of signal 40"
    assert kind(code=-40) is K.CRASH
    assert kind(code=200) is K.BAD_OUTPUT


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        ("nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)", 11, K.CRASH),
        ("nvcc error   : 'ptxas' died due to signal 9 (Kill signal)", 9, K.OUT_OF_MEMORY),
        ("nvcc error   : 'cicc' died due to signal 15", 255, K.INFRA),
        ("nvcc error   : 'cicc' died due to signal 24", 255, K.TIMEOUT),
        ("nvcc: Segmentation fault", 255, K.CRASH),
        ("Killed", 255, K.OUT_OF_MEMORY),
        ("Aborted (core dumped)", 1, K.CRASH),
        ("nvcc: Terminated", 255, K.INFRA),
        ("gcc: fatal error: Killed signal terminated program cc1\ncompilation terminated.", 1, K.OUT_OF_MEMORY),
        ("gcc: internal compiler error: Segmentation fault signal terminated program cc1", 4, K.CRASH),
        ("collect2: fatal error: ld terminated with signal 9 [Killed]", 1, K.OUT_OF_MEMORY),
        ("clang: error: unable to execute command: Segmentation fault (core dumped)", 1, K.CRASH),
        ("clang: error: unable to execute command: Killed", 1, K.OUT_OF_MEMORY),
        ("zig: error: clang frontend command failed with exit code 139 (use -v to see invocation)", 1, K.CRASH),
        ("zig: error: clang frontend command failed with exit code 137 (use -v to see invocation)", 1, K.OUT_OF_MEMORY),
        ("error: linking with `cc` failed: signal: 9 (SIGKILL)", 1, K.OUT_OF_MEMORY),
    ],
)
def test_signals_of_a_child(text: str, code: int, expected: FailureKind) -> None:
    assert kind(text, code=code, parse=diagnostics.nvcc_text) is expected


def test_every_signal_has_one_meaning() -> None:
    assert set(symptoms.SIGNALS.values()) <= set(symptoms.KIND_OF_SIGNAL)
