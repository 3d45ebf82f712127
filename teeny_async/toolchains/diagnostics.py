"""Compiler text -> `Diagnostic`s, and the text that none of them accounts for.

The rest matters as much as the diagnostics do. A judge that looks for "No space left on device"
must not find a kernel's own `#error No space left on device`, nor the source line that a compiler
quotes under a warning. So a diagnostic with a place in a source file takes its message and its
snippet out of the rest; one without a place, and every line that is no diagnostic, stays in it.

Severities are the compilers' words in four spellings: "error", "warning", "fatal error" (the tool
gave up: an include it could not read, a backend error) and "internal compiler error". Notes are
dropped: they explain an error and are in the log. At most `LIMIT` diagnostics are kept, errors
before warnings, in the order of the text. Everything here is linear in the length of the text, and
no line is read past its first `LINE` characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from teeny_async.result import Diagnostic
from teeny_async.toolchains import diagnostic_formats as formats

LIMIT = 100
"""Most diagnostics of one text."""
LINE = 4096
"""Characters of a line, and of a message, that are looked at."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text says.

    rest: the lines that no located diagnostic accounts for.
    log: the text as a person would read it, where that differs from what was printed (rustc's
        JSON, rendered); else empty.
    """

    diagnostics: tuple[Diagnostic, ...]
    rest: str
    log: str = ""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Those that are not warnings."""
        return tuple(each for each in self.diagnostics if each.severity != "warning")


SILENCE = Parsed((), "")
"""What is in no text at all."""


def clang_text(text: str) -> Parsed:
    """Diagnostics of clang, gcc, zig and LLVM's tools: `file:line:column: severity: message`."""
    return _scan(text, (formats.GNU, formats.MLIR, formats.LLVM, formats.PLAIN))


def nvcc_text(text: str) -> Parsed:
    """Diagnostics of nvcc and of what it runs: cudafe++, cicc, ptxas, and gcc as preprocessor."""
    return _scan(text, (formats.GNU, formats.EDG, formats.PTXAS, formats.TOOL, formats.LLVM, formats.PLAIN))


def ptxas_text(text: str) -> Parsed:
    """Diagnostics of ptxas; its `info` lines are neither diagnostics nor rest (see `ptxas_info`)."""
    return _scan(text, (formats.PTXAS, formats.TOOL))


def rustc_text(text: str) -> Parsed:
    """Diagnostics in rustc's form for people, which teenyc has too; lines of a log stay in the rest."""
    found = _Found()
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        end = _block_end(lines, at) if formats.RUSTC.match(lines[at][:LINE]) else at + 1
        _rustc_block(lines[at:end], found)
        at = end
    return found.parsed()


def rustc_json(text: str) -> Parsed:
    """Diagnostics of `--error-format=json --json=artifacts`.

    Lines that are not JSON are LLVM's own, a panic's, or a log's: they are left as rest. A JSON
    line that was cut short by the cap on captured output is dropped: it may quote the source.
    """
    found = _Found()
    log: list[str] = []
    for line in text.split("\n"):
        if line.startswith('{"'):
            _rustc_message(line, found, log)
        else:
            log.append(line)
            found.keep(line)
            if match := formats.LLVM.match(line[:LINE]):
                found.add(_diagnostic(match))
    return found.parsed("\n".join(log))


def by_pattern(pattern: re.Pattern[str], text: str) -> Parsed:
    """Diagnostics of a compiler with a format of its own. The pattern is matched at the start of each line; its
    groups are `message` and, as they come, severity ("error" where there is none), file, line, column, code."""
    found = _Found()
    for line in text.split("\n"):
        match = pattern.match(line[:LINE])
        if match is None:
            found.keep(line)
            continue
        parts = match.groupdict()
        severity = (parts.get("severity") or "error").lower()
        if severity not in formats.SILENT:
            number, column = _number(parts.get("line")), _number(parts.get("column"))
            message, code, file = parts["message"], parts.get("code"), parts.get("file")
            found.add(Diagnostic(severity=severity, message=message, code=code, file=file, line=number, column=column))
        if not parts.get("file"):
            found.keep(line)
    return found.parsed()


@dataclass(slots=True)
class _Found:
    """What has been read so far: quotas for errors and for warnings, no diagnostic twice."""

    errors: list[tuple[int, Diagnostic]] = field(default_factory=list)
    warnings: list[tuple[int, Diagnostic]] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    seen: set[Diagnostic] = field(default_factory=set)

    def add(self, diagnostic: Diagnostic | None) -> None:
        if diagnostic is None or diagnostic in self.seen:
            return
        kept = self.warnings if diagnostic.severity == "warning" else self.errors
        if len(kept) < LIMIT:
            kept.append((len(self.seen), diagnostic))
            self.seen.add(diagnostic)

    def keep(self, *lines: str) -> None:
        self.rest += [line for line in lines if not formats.NOISE.match(line)]

    def parsed(self, log: str = "") -> Parsed:
        chosen = sorted(self.errors + self.warnings[: LIMIT - len(self.errors)], key=lambda pair: pair[0])
        return Parsed(tuple(diagnostic for _, diagnostic in chosen), "\n".join(self.rest).strip("\n"), log)


def _scan(text: str, patterns: Sequence[re.Pattern[str]]) -> Parsed:
    """Read line by line: a line in one of the formats, then the lines of its snippet."""
    if not text:
        return SILENCE  # as most compiles are
    found = _Found()
    lines = text.split("\n")
    owned = False
    for at, line in enumerate(lines):
        if match := _match(line[:LINE], patterns):
            found.add(_diagnostic(match))
            owned = _is_located(match) or match["severity"] == "info"
            if not owned:
                found.keep(line)
        elif not (owned and _belongs(lines, at)):
            found.keep(line)
            owned = owned and bool(formats.NOISE.match(line))
    return found.parsed()


def _match(line: str, patterns: Sequence[re.Pattern[str]]) -> re.Match[str] | None:
    if not formats.HINT.search(line):
        return None
    return next((match for pattern in patterns if (match := pattern.match(line))), None)


def _belongs(lines: Sequence[str], at: int) -> bool:
    """Whether a line is part of the located diagnostic above it.

    zig and older clangs quote the source at column 0; the caret under it gives the line away.
    """
    if formats.SNIPPET.match(lines[at]):
        return True
    below = lines[at + 1] if at + 1 < len(lines) else ""
    return len(below) < LINE and bool(formats.CARET.match(below))


def _is_located(match: re.Match[str]) -> bool:
    return bool(_part(match, "file")) and match["file"] != "<unknown>"


def _part(match: re.Match[str], name: str) -> str | None:
    return match.groupdict().get(name)


def _diagnostic(match: re.Match[str]) -> Diagnostic | None:
    """The diagnostic that a matched line is; None for a note."""
    severity = formats.SEVERITIES.get(match["severity"], match["severity"].lower())
    if severity in formats.SILENT:
        return None
    message, code = match["message"].strip(), _part(match, "code")
    if flag := formats.FLAG.search(message):
        message, code = message[: flag.start()], flag[1]
    if not _is_located(match):
        return Diagnostic(severity=severity, message=message, code=code)
    return Diagnostic(
        severity=severity,
        message=message,
        code=code,
        file=_without_temporary(match["file"]),
        line=_number(match["line"]),
        column=_number(_part(match, "column")),
    )


def _without_temporary(file: str) -> str:
    match = formats.TEMPORARY.match(file)
    return file[match.end() :] if match else file


def _number(digits: object) -> int | None:
    """A line or column; None for 0, which compilers write for "nowhere", and for what is no number."""
    return int(str(digits)) or None if str(digits).isdecimal() and len(str(digits)) < 10 else None


# -- rustc, for people ------------------------------------------------------------------------


def _block_end(lines: Sequence[str], start: int) -> int:
    """Where the diagnostic that starts at `start` ends: at a blank line with nothing indented below,
    or at a line that is neither snippet nor a note or help of it."""
    at = start + 1
    while at < len(lines):
        line = lines[at][:LINE]
        if not line.strip():
            below = lines[at + 1] if at + 1 < len(lines) else ""
            if not below.strip() or not below[0].isspace():
                return at + 1
        elif not (formats.SNIPPET.match(line) or line.startswith(("note: ", "help: "))):
            return at
        at += 1
    return at


def _rustc_block(block: Sequence[str], found: _Found) -> None:
    """One diagnostic, or one line that is none."""
    head = formats.RUSTC.match(block[0][:LINE])
    if head is None:
        found.keep(block[0])
        found.add(_foreign(block[0][:LINE]))
        return
    if formats.SUMMARY.match(head["message"]):
        return
    arrow, message = _place_and_message(head["message"], block[1:])
    severity = formats.SEVERITIES.get(head["severity"], head["severity"])
    if arrow is None:
        found.keep(*block)
    if severity not in formats.SILENT:
        place = arrow.groupdict() if arrow else {}
        found.add(
            Diagnostic(
                severity=severity,
                message=message[:LINE],
                code=head["code"],
                file=place.get("file"),
                line=_number(place.get("line")),
                column=_number(place.get("column")),
            )
        )


def _foreign(line: str) -> Diagnostic | None:
    """The diagnostic in a line of LLVM's or MLIR's between rustc's own."""
    match = _match(line, (formats.LLVM, formats.MLIR, formats.GNU))
    return _diagnostic(match) if match else None


def _place_and_message(message: str, lines: Sequence[str]) -> tuple[re.Match[str] | None, str]:
    """The `-->` of a block, and its message with the lines it goes on over."""
    parts = [message]
    for line in lines:
        arrow = formats.ARROW.match(line[:LINE])
        if arrow or line.startswith(("note: ", "help: ")) or line.lstrip().startswith(("|", "=")):
            return arrow, "\n".join(parts)
        parts.append(line.strip())
    return None, "\n".join(parts).rstrip()


# -- rustc, JSON ------------------------------------------------------------------------------


def _rustc_message(line: str, found: _Found, log: list[str]) -> None:
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        return
    if message.get("$message_type", "diagnostic") != "diagnostic":
        return
    rendered = str(message.get("rendered") or message.get("message") or "").rstrip("\n")
    log.append(rendered)
    text = str(message.get("message", "")).strip()
    if formats.SUMMARY.match(text):
        return
    severity = formats.SEVERITIES.get(str(message.get("level")), str(message.get("level")))
    place = next(_primary_spans(message), None)
    if place is None:
        found.keep(*rendered.split("\n"))
    if severity not in formats.SILENT:
        found.add(_from_json(severity, text, message.get("code"), place or {}))


def _primary_spans(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    spans = message.get("spans")
    for span in spans if isinstance(spans, list) else []:
        if isinstance(span, dict) and span.get("is_primary"):
            yield span


def _from_json(severity: str, text: str, code: Any, place: Mapping[str, Any]) -> Diagnostic:
    file = place.get("file_name")
    return Diagnostic(
        severity=severity,
        message=text[:LINE],
        code=str(code["code"]) if isinstance(code, dict) and code.get("code") else None,
        file=None if file is None else str(file),
        line=_number(place.get("line_start")),
        column=_number(place.get("column_start")),
    )
