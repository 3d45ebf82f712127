"""The judge that every driver shares: how a process ended -> an artifact, or a kind of failure.

An exit status alone says nothing: ptxas on a full disk ends with 0, nvcc ends with 255 when it was
interrupted and when a kernel is wrong, and a shell says 139 where a process says -11. So the verdict
comes from our own reason for stopping it, the spawn's errno, the status, the text and the outputs,
in that order. Each rule is a small function that speaks or passes; the first that speaks decides.

Two invariants hold the cache together. Text that a located diagnostic accounts for never proves that
the machine failed (a kernel may `#error No space left on device`). And only a text that blames the
source or the configuration makes a verdict that may be remembered: a status without a word, or with
warnings alone, is tried again.
"""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from teeny_async.action import Action
from teeny_async.failures import FailureKind
from teeny_async.frozen import FrozenMap
from teeny_async.result import Artifact, Diagnostic, Exit, Failure, Metric
from teeny_async.toolchains import symptoms
from teeny_async.toolchains.clipping import clipped
from teeny_async.toolchains.diagnostics import Parsed

LOG_TAIL = 16_384
"""Characters of a failed tool's text that are kept."""
MESSAGE = 500
"""Characters of a failure's message."""
SEARCHED = 1 << 16
"""Characters at either end of the rest that are searched for symptoms; a log of megabytes lies between."""

Parse = Callable[[str], Parsed]
Check = Callable[[Action, Mapping[str, bytes]], str | None]
Finding = tuple[FailureKind, str]
"""A kind and its one-line message."""


def judge(
    action: Action,
    exit: Exit,
    *,
    tool: str,
    parse: Parse,
    check: Check | None = None,
    infeasible: Sequence[re.Pattern[str]] = (),
    metrics: Callable[[str], Mapping[str, Metric]] | None = None,
) -> Artifact | Failure:
    """The verdict on one run.

    tool: what messages call it. parse: one of `diagnostics`. check: what is wrong with the outputs
    of a run that claims success, else None. infeasible: what this tool says of a configuration that
    its target cannot hold, beyond `symptoms.INFEASIBLE`. metrics: numbers to read from the text of
    a success.
    """
    exit = clipped(exit)
    text = exit.text
    patterns = (*symptoms.INFEASIBLE, *infeasible)
    case = Case(action=action, exit=exit, tool=tool, parsed=parse(text), check=check, infeasible=patterns)
    rules = _ON_SUCCESS if exit.code == 0 else _ON_FAILURE
    finding = next((finding for rule in rules if (finding := rule(case))), None)
    if finding is None:
        return Artifact(
            outputs=_outputs(case),
            metrics=FrozenMap(metrics(text)) if metrics else FrozenMap(),
            diagnostics=case.parsed.diagnostics,
        )
    kind, message = finding
    return Failure(
        kind=kind,
        message=_one_line(message),
        exit=exit.code,
        diagnostics=case.parsed.diagnostics,
        tool=tool,
        command=tuple(action.argv),
        log=_tail(case.parsed.log or text),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the rules look at."""

    action: Action
    exit: Exit
    tool: str
    parsed: Parsed
    check: Check | None
    infeasible: Sequence[re.Pattern[str]]


# -- before the tool had its say ----------------------------------------------------------------


def _stopped(case: Case) -> Finding | None:
    """We ended it ourselves: what it printed on the way down is no evidence."""
    stop, usage = case.exit.stopped, case.exit.usage
    if stop is None:
        return None
    kind, reason = {
        "timeout": (FailureKind.TIMEOUT, f"stopped at its time limit, after {usage.wall:.1f} s"),
        "cpu_timeout": (FailureKind.TIMEOUT, f"stopped at its CPU time limit, after {usage.cpu:.1f} s of CPU"),
        "cancelled": (FailureKind.CANCELLED, "cancelled"),
        "lost": (FailureKind.INFRA, "lost: its supervisor died while it ran"),
    }[stop]
    return kind, f"{case.tool} was {reason}"


_ERRNO_KINDS: Mapping[int, FailureKind] = {
    **dict.fromkeys([errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC], FailureKind.TOOL_MISSING),
    **dict.fromkeys([errno.EAGAIN, errno.ETXTBSY, errno.ENOMEM, errno.EMFILE, errno.ENFILE], FailureKind.SPAWN),
    **dict.fromkeys([errno.ENOSPC, errno.EDQUOT], FailureKind.DISK_FULL),
}


def _never_started(case: Case) -> Finding | None:
    if case.exit.code is not None:
        return None
    code = case.exit.errno
    reason = os.strerror(code) if code else "no reason given"
    kind = _ERRNO_KINDS.get(code or 0, FailureKind.INFRA)
    return kind, f"{case.tool} could not be started ({case.action.executable}): {reason}"


# -- it claims success --------------------------------------------------------------------------


def _missing_outputs(case: Case) -> Finding | None:
    missing = [label for label in case.action.required if not case.exit.outputs.get(label)]
    if not missing:
        return None
    names = ", ".join(case.action.outputs.get(label, label) for label in missing)
    return _environment(case) or _unreadable(case) or _bad_output(case, f"left no {names}, or an empty one")


def _unreadable(case: Case) -> Finding | None:
    """The output may be there: reading it failed. A file that does not exist is no such failure."""
    code = case.exit.errno
    if code in (None, errno.ENOENT):
        return None
    kind = FailureKind.DISK_FULL if _ERRNO_KINDS.get(code or 0) is FailureKind.DISK_FULL else FailureKind.INFRA
    return kind, f"the output of {case.tool} could not be read: {os.strerror(code or 0)}"


def _disk_full_text(case: Case) -> Finding | None:
    """A write that failed may have cut an output short, whatever the status."""
    finding = _environment(case)
    return finding if finding and finding[0] is FailureKind.DISK_FULL else None


def _ignored(case: Case) -> Finding | None:
    """LLVM under rustc takes an unknown processor for none, warns, and writes its name as the target."""
    match = symptoms.IGNORED.search(_searched(case.parsed.rest))
    return (FailureKind.BAD_OUTPUT, f"{case.tool} ignored the target: {_line_of(match)}") if match else None


def _complaint(case: Case) -> Finding | None:
    complaint = case.check(case.action, _outputs(case)) if case.check else None
    return _bad_output(case, f"succeeded, but {complaint}") if complaint else None


def _bad_output(case: Case, what: str) -> Finding:
    if case.exit.scratch_full:
        return FailureKind.DISK_FULL, f"{case.tool} {what}, and the scratch file system is full"
    return FailureKind.BAD_OUTPUT, f"{case.tool} {what}"


def _outputs(case: Case) -> FrozenMap[bytes]:
    return FrozenMap({label: data for label, data in case.exit.outputs.items() if label in case.action.outputs})


# -- it failed ----------------------------------------------------------------------------------


def _environment(case: Case) -> Finding | None:
    """The machine failed under the tool, by the tool's own words."""
    rest = _searched(case.parsed.rest)
    found = ((kind, match) for kind, pattern in symptoms.ENVIRONMENT if (match := pattern.search(rest)))
    for kind, match in found:
        # "Output file could not be opened" is all that ptxas says when there is no inode left.
        full = kind is FailureKind.INFRA and case.exit.scratch_full
        return FailureKind.DISK_FULL if full else kind, _line_of(match)
    return _fatal_system_error(case)


def _fatal_system_error(case: Case) -> Finding | None:
    for error in case.parsed.errors:
        match = symptoms.FATAL_SYSTEM_ERROR.fullmatch(error.message) if error.severity == "fatal error" else None
        if match:
            return _first_kind(match["system"] or match["reason"]), str(error)
    return None


def _first_kind(words: str) -> FailureKind:
    return next((kind for kind, pattern in symptoms.ENVIRONMENT if pattern.search(words)), FailureKind.INFRA)


def _full_disk(case: Case) -> Finding | None:
    """No block was left, and nothing blames a file that we wrote.

    nvcc on a full disk says "Failed to preprocess host compiler properties", or dies of SIGSEGV, or
    hands ptxas half a PTX file, whose error is in no file of ours.
    """
    blamed = any(_is_of_source(case.action, error) for error in case.parsed.errors)
    if not case.exit.scratch_full or blamed or _own_signal(case) == signal.SIGKILL:
        return None
    return FailureKind.DISK_FULL, f"{case.tool} failed, and the scratch file system is full: {_said(case)}"


def _is_of_source(action: Action, error: Diagnostic) -> bool:
    """Whether an error is in a file that we wrote, or in a header, and not in an intermediate PTX."""
    ours = {*(source.name for source in action.inputs), *action.chained}
    return error.file is not None and (error.file in ours or not error.file.endswith(".ptx"))


def _signal(case: Case) -> Finding | None:
    """A signal ended the tool, or a child of it."""
    if own := _own_signal(case):
        return symptoms.KIND_OF_SIGNAL.get(own, FailureKind.CRASH), f"{case.tool} died of {_signal_name(own)}"
    if match := symptoms.CHILD_SIGNAL.search(_searched(case.parsed.rest)):
        number = _child_signal(match)
        if kind := symptoms.KIND_OF_SIGNAL.get(number):
            return kind, f"{case.tool}: {_signal_name(number)} ended a part of it: {_line_of(match)}"
    return None


def _own_signal(case: Case) -> int | None:
    """The signal that a status stands for: -N of a child of ours, 128 + N through a shell."""
    code = case.exit.code or 0
    if code < 0:
        return -code
    return code - 128 if code - 128 in symptoms.KIND_OF_SIGNAL else None


def _child_signal(match: re.Match[str]) -> int:
    name = match["name"] or match["cause"] or match["victim"]
    if name:
        return symptoms.SIGNALS[name]
    return int(match["code"]) - 128 if match["code"] else int(match["number"] or match["status"])


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _too_much(case: Case) -> Finding | None:
    """The target cannot hold this configuration: no full disk and no signal makes a tool say so."""
    rest = "\n".join(line for line in _searched(case.parsed.rest).split("\n") if not _WARNING.match(line))
    said = [*(error.message for error in case.parsed.errors), rest]
    for pattern in case.infeasible:
        if match := next((found for text in said if (found := pattern.search(text))), None):
            return FailureKind.INFEASIBLE, _line_of(match)
    return None


def _internal_error(case: Case) -> Finding | None:
    """The compiler broke and said so; its first error, if any, says where."""
    broken = next((error for error in case.parsed.errors if error.severity == "internal compiler error"), None)
    if broken:
        return FailureKind.CRASH, str(broken)
    match = symptoms.INTERNAL_ERROR.search(_searched(case.parsed.rest))
    return (FailureKind.CRASH, _said(case) or _line_of(match)) if match else None


def _refused(case: Case) -> Finding | None:
    """It printed an error, or at least something that is no warning.

    Words in no format are an error only when they are all there is to read: a log that was asked
    for, or a text that was cut at the cap, may hold anything.
    """
    said = _said(case)
    if not case.parsed.errors and (case.exit.dropped or symptoms.LOG_LINE.search(_searched(case.parsed.rest))):
        return None
    return (FailureKind.DIAGNOSTIC, said) if said else None


def _silent(case: Case) -> Finding:
    words = "without an error in its text" if case.exit.stderr or case.exit.stdout else "without a word"
    return FailureKind.BAD_OUTPUT, f"{case.tool} ended with exit status {case.exit.code} {words}"


Rule = Callable[[Case], Finding | None]
_ON_SUCCESS: tuple[Rule, ...] = (
    _stopped,
    _missing_outputs,
    _disk_full_text,
    _ignored,
    _complaint,
)
_ON_FAILURE: tuple[Rule, ...] = (
    _stopped,
    _never_started,
    _environment,
    _too_much,
    _full_disk,
    _signal,
    _internal_error,
    _refused,
    _silent,
)

# -- text ---------------------------------------------------------------------------------------

_WARNING = re.compile(
    r"(?:[^\s:]+:? )?warning\s*:|'[^']*' is not a recognized (?:feature|processor)|(?:\S+ )?(?:note|help): "
)


def _said(case: Case) -> str:
    """The first error; without one, the first line that is no warning; else nothing."""
    if case.parsed.errors:
        return case.parsed.errors[0].message
    lines = (line for line in case.parsed.rest.split("\n") if line.strip() and not line[0].isspace())
    return next((line for line in lines if not _WARNING.match(line)), "")


def _searched(rest: str) -> str:
    return rest if len(rest) <= 2 * SEARCHED else rest[:SEARCHED] + "\n" + rest[-SEARCHED:]


def _line_of(match: re.Match[str]) -> str:
    """The line that a match begins in."""
    start = match.string.rfind("\n", 0, match.start()) + 1
    end = match.string.find("\n", match.end())
    return match.string[start : end if end >= 0 else None]


def _one_line(message: str) -> str:
    line = " ".join(message[: 4 * MESSAGE].split())
    return line if len(line) <= MESSAGE else line[: MESSAGE - 3] + "..."


def _tail(text: str) -> str:
    """The last `LOG_TAIL` characters, from the start of a line on."""
    if len(text) <= LOG_TAIL:
        return text
    tail = text[-LOG_TAIL:]
    return tail[tail.find("\n") + 1 :]
