"""What compilers, shells and loaders print when something other than the source is at fault.

Tables only; `verdict` reads them in the order of `teeny_async.failures`' kinds that FAULTS gives:
disk, memory, machine, missing program, signal, configuration, internal error. Each pattern was seen
in a real run (zig 0.17.1, rustc 1.95, nvcc and ptxas 13.0, gcc 12, Linux with LC_ALL=C) or stands in
the tool's sources. They are searched in the text that no located diagnostic accounts for.

A quotation mark in front of a system message means that the words are data (a string constant in
dumped IR, a `Debug`-printed error that has its number as well), so `(?<!")` refuses it.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from teeny_async.failures import FailureKind

Symptoms = tuple[tuple[FailureKind, re.Pattern[str]], ...]


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.MULTILINE)


ENVIRONMENT: Symptoms = (
    (
        FailureKind.DISK_FULL,
        _any(
            r'(?<!")No space left on device',
            r'(?<!")Disk quota exceeded',
            r"\(os error (?:28|122)\)",
            r"\bcode: (?:28|122),",
        ),
    ),
    (
        FailureKind.OUT_OF_MEMORY,
        _any(
            r'(?<!")Cannot allocate memory',
            r"failed to map segment from shared object",
            r"\bbad_alloc\b",
            r"\b[Oo]ut of memory\b",
            r"\b[Mm]emory allocation (?:of \d+ bytes )?fail",
            r"\b(?:virtual )?memory exhausted\b",
            r"\(os error 12\)",
            r"\bcode: 12,",
            r"^MemoryError\b",
        ),
    ),
    (
        FailureKind.INFRA,
        _any(
            r"error while loading shared libraries",
            r'(?<!")(?:Stale file handle|Input/output error|Resource temporarily unavailable|Too many open files'
            r"|Read-only file system|Device or resource busy|Text file busy|Transport endpoint is not connected"
            r"|Remote I/O error|Connection timed out)",
            r"\(os error (?:5|11|16|23|24|26|30|107|110|116|121)\)",
            r"\bcode: (?:5|11|16|23|24|26|30|107|110|116|121),",
            r"\bCannot fork\b",
            r"^error: could not acquire|^error: .*rustup.*\block\b|\bBlocking waiting for file lock\b",
            r"^error: could not parse settings file",
        ),
    ),
    (
        FailureKind.TOOL_MISSING,
        _any(
            r"^(?:\S*/)?(?:ba|da|z|k)?sh: (?:(?:line )?\d+: )?.+: (?:command |inaccessible or )?not found",
            r"^(?:\S*/)?(?:ba|da|z|k)?sh: (?:(?:line )?\d+: )?.+: (?:No such file or directory|Permission denied)",
            r"unable to execute command: .*(?:No such file or directory|Permission denied|doesn't exist)",
            r"(?:cannot execute|error trying to exec) '.*': execvp: ",
            r"^error: linker `.*` not found",
            r"^\S*(?:gcc|g\+\+|clang|clang\+\+|c\+\+|cc): No such file or directory",
            r"^error: toolchain '.*' is not installed|^error: unknown binary '.*' in toolchain",
            r"^error: rustup could not choose a version",
            r"^<command-line>: fatal error: cuda_runtime\.h: No such file or directory",
        ),
    ),
    (
        # Inputs and outputs are ours: a compiler that cannot reach them says nothing about the kernel.
        FailureKind.INFRA,
        _any(
            r"^(?:\S+: )?(?:fatal )?error: unable to (?:open output|make temporary) file",
            r"^(?:\S+: )?error: no such file or directory: '",
            r"^(?:\S+: )?fatal error: .+: No such file or directory$",
            r"^(?:\S+: )?fatal error: cannot open '.*' for writing|^ld\.lld: error: cannot open .*: ",
            r"^\w+ fatal   : (?:(?:Input|Output) file '.*' could not be opened|Could not open (?:in|out)put file)",
            r"^\S*cicc: IO error|^nvcc fatal   : Failed to preprocess host compiler properties",
            r"^error: couldn't (?:read `|create a temp dir)|^error: could not copy \"|^error: failed to write to `",
            r"^Fatal error: can't |: Fatal error: can't |^Cannot create temporary file",
        ),
    ),
)
"""In the order they are asked: a loader that had no memory also says "shared libraries"."""

FATAL_SYSTEM_ERROR = re.compile(
    r"(?P<system>out of memory)|.+: '?(?P<reason>No space left on device|Disk quota exceeded|Cannot allocate memory"
    r"|Stale file handle|(?:Remote I/O|Input/output) error|Resource temporarily unavailable|Read-only file system"
    r"|Too many open files(?: in system)?|Transport endpoint is not connected)'?"
)
"""The whole message of a *fatal* error that has a place in the source and yet is the machine's.

gcc: `k.c:1:1: fatal error: error closing k.s: No space left on device`; cudafe++: `stl.h(335):
catastrophic error: out of memory`; any of them for an include that could not be read. `#error` is
not fatal, so a kernel cannot say this.
"""

INTERNAL_ERROR = _any(
    r"\b[Ii]nternal (?:compiler )?error\b",
    r"the compiler unexpectedly panicked",
    r"^thread '.*' (?:\(\d+\) )?panicked at",
    r"PLEASE (?:submit a bug report|ATTACH THE FOLLOWING FILES)",
    r"^Stack dump:",
    r"(?:frontend|linker|assembler) command failed (?:with exit code|due to signal)",
    r"\bAssertion .* failed",
    r"UNREACHABLE executed",
    r"rustc interrupted by SIG",
)
"""The compiler says that it broke, whatever status it ends with."""

IGNORED = _any(r"^'.*' is not a recognized processor for this target \(ignoring processor\)")
"""The compiler went on without the processor that was asked for."""

LOG_LINE = _any(r"^(?:\S+ )?\s*(?:TRACE|DEBUG|INFO|WARN) ")
"""A line of rustc's log (RUSTC_LOG), which teenyc is asked for the IR of its stages with."""

SIGNALS: Mapping[str, int] = {
    "Killed": signal.SIGKILL,
    "Aborted": signal.SIGABRT,
    "Segmentation fault": signal.SIGSEGV,
    "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL,
    "Floating point exception": signal.SIGFPE,
    "Trace/breakpoint trap": signal.SIGTRAP,
    "Bad system call": signal.SIGSYS,
    "Terminated": signal.SIGTERM,
    "Interrupt": signal.SIGINT,
    "Hangup": signal.SIGHUP,
    "CPU time limit exceeded": signal.SIGXCPU,
    "File size limit exceeded": signal.SIGXFSZ,
}
"""What a shell, nvcc and gcc call the signal that ended a child of theirs."""

_NAMES = "|".join(map(re.escape, SIGNALS))
CHILD_SIGNAL = _any(
    r"\b(?:died due to|terminated with|killed by|due to) signal (?P<number>\d{1,2})\b",
    r"\bsignal: (?P<status>\d{1,2})\b",
    r"\bcommand failed with exit code (?P<code>1[2-5]\d)\b",
    rf"^(?:\S+: )?(?P<name>{_NAMES})(?: \(core dumped\))?$",
    rf"\bunable to execute command: (?P<cause>{_NAMES})",
    rf"\b(?P<victim>{_NAMES}) signal terminated program\b",
)
"""A driver's word on a child that a signal ended; the driver's own status may be 1, 4 or 255."""

KIND_OF_SIGNAL: Mapping[int, FailureKind] = {
    **dict.fromkeys(
        [
            signal.SIGABRT,
            signal.SIGBUS,
            signal.SIGFPE,
            signal.SIGILL,
            signal.SIGSEGV,
            signal.SIGSYS,
            signal.SIGTRAP,
        ],
        FailureKind.CRASH,
    ),
    **dict.fromkeys(
        [
            signal.SIGHUP,
            signal.SIGINT,
            signal.SIGPIPE,
            signal.SIGQUIT,
            signal.SIGTERM,
            signal.SIGXFSZ,
        ],
        FailureKind.INFRA,
    ),
    signal.SIGKILL: FailureKind.OUT_OF_MEMORY,
    signal.SIGXCPU: FailureKind.TIMEOUT,
}
"""What a signal that we did not send means. SIGKILL is the kernel's out-of-memory killer; SIGTERM and
its like are somebody else's doing: a job scheduler, an operator."""

INFEASIBLE: tuple[re.Pattern[str], ...] = (
    # clang, zig, gcc, and LLVM under rustc
    re.compile(r"PTX version [\d.]+ does not support target"),
    re.compile(r"\bCannot select\b"),
    re.compile(r"unknown target CPU|unsupported (?:CUDA|HIP) gpu architecture|invalid target ID"),
    re.compile(r"unsupported argument '.*' to option '-m(?:cpu|arch|tune)="),
    re.compile(r"bad value \(?'.*'\)? for '-m(?:cpu|arch|tune)="),
    re.compile(r"(?:local|shared|scratch|stack|private) memory \(\d+\) exceeds limit"),
    re.compile(r"stack frame size .* exceeds limit|ran out of registers"),
    re.compile(r"64-bit code requested on a subtarget|RV64 target requires an RV64 CPU"),
    # ptxas
    re.compile(r"uses too (?:much|many) (?:\w+ ){0,3}(?:data|space|memory|registers|stack|barriers|textures|samplers)"),
    re.compile(r"[Rr]egister allocation failed|with max regcount of \d+ calls function"),
    re.compile(r"parameter space overflowed|Barrier number '.*' out of range"),
    re.compile(r"Value '.*' is not defined for option '(?:gpu-name|gpu-architecture|gpu-code)'"),
    re.compile(r"PTX \.version [\d.]+ does not support \.target|Unsupported \.version"),
    re.compile(r"requires (?:\.target|PTX ISA \.version) |not supported on \.target"),
    re.compile(r"SM version specified by \.target is higher|\.target '.*' cannot be compiled"),
    # nvcc
    re.compile(r"Unsupported gpu architecture"),
)
"""What this target cannot hold or this tool cannot aim at: it prunes the pair, and says nothing of the
kernel elsewhere. Searched in the messages of errors too, where a kernel might say the same; that
does no harm, for either kind is a verdict about the request."""
