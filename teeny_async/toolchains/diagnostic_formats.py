"""How compilers spell a diagnostic: the patterns that `diagnostics` reads a line with.

A format's pattern names the parts of a `Diagnostic` that it has: severity, message, code, file,
line, column. All are matched from the start of a line. They were recorded from clang 22 (zig
0.17.1), rustc 1.95, nvcc and ptxas 13.0 and gcc 12, with LC_ALL=C.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SEVERITY = (
    r"(?P<severity>(?:fatal |internal compiler |internal |catastrophic )?error|warning|remark|note|sorry, unimplemented"
    r"|Fatal error|Error|Warning|Info)"
)
GNU = re.compile(rf"(?P<file>[^\s:][^:]*):(?P<line>\d+)(?::(?P<column>\d+))?:\s+{SEVERITY}:\s*(?P<message>.*)")
"""Of clang, gcc, zig, the assemblers, and MLIR for text files."""
MLIR = re.compile(rf'loc\("(?P<file>[^"]+)":(?P<line>\d+):(?P<column>\d+)\):\s+{SEVERITY}:\s*(?P<message>.*)')
EDG = re.compile(
    rf"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\):\s+{SEVERITY}(?:\s+#?(?P<code>\d+)(?:-D)?)?:\s*(?P<message>.*)"
)
"""Of cudafe++ and cicc, whose front end is Edison Design Group's."""
PTXAS = re.compile(
    r"ptxas (?P<file>.+?), line (?P<line>\d+); (?P<severity>fatal|error|warning|info)\s*: (?P<message>.*)"
)
TOOL = re.compile(
    r"(?:nvcc|ptxas|nvlink|fatbinary|cudafe\+\+|cicc) (?P<severity>fatal|error|warning|info)\s*: "
    r"(?:\((?P<code>C\d+)\) )?(?P<message>.*)"
)
LLVM = re.compile(r"(?:[\w-]+-)?LLVM (?P<severity>ERROR): (?P<message>.*)")
PLAIN = re.compile(rf"(?:[^\s:]+: )?{SEVERITY}:\s*(?P<message>.*)")
"""No place: `zig: error: ...`, `cc1: fatal error: ...`, `error: unable to open output file ...`."""
RUSTC = re.compile(
    r"(?P<severity>error: internal compiler error|error|warning|note|help)(?:\[(?P<code>[\w:]+)\])?: (?P<message>.*)"
)

SEVERITIES: Mapping[str, str] = {
    "fatal": "fatal error",
    "ERROR": "fatal error",
    "catastrophic error": "fatal error",
    "internal error": "internal compiler error",
    "error: internal compiler error": "internal compiler error",
    "sorry, unimplemented": "error",
}
SILENT = frozenset(["note", "help", "remark", "info", "failure-note"])
"""Not diagnostics of their own."""

HINT = re.compile(r"fatal|rror|ERROR|arning|note|remark|nfo|unimplemented")
"""A line without one of these is in no format; asking first halves the cost of a long log."""
SNIPPET = re.compile(r"\s|\d+ *\||\.\.\.")
"""A line that belongs to the diagnostic above it."""
CARET = re.compile(r"[ \t~]*\^[ \t~^]*$")
NOISE = re.compile(
    r"In file included from |\d+ (?:warning|error|catastrophic error)[\w ]* (?:generated|detected)"
    r"|[Cc]ompilation terminated\.|Remark: The warnings can be suppressed"
    r"|(?:[^\s:]+: )?(?:In function |In member function |In instantiation of |At global scope:|At top level:)"
    r"|(?:[^\s:]+: )?Assembler messages:|referenced by:"
)
"""Lines that only frame diagnostics."""
SUMMARY = re.compile(
    r"aborting due to \d+ previous errors?|aborting due to \d+ previous|\d+ warnings? emitted"
    r"|For more information about this error|Some errors have detailed explanations"
)
FLAG = re.compile(r" \[(-W[^\]\s]+)\]$")
TEMPORARY = re.compile(r".*?tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_|.*/(?=cc\w{6}\.s$)")
"""What nvcc and gcc put before the names of their intermediate files; it holds a process id."""
ARROW = re.compile(r"\s*--> (?P<file>.+):(?P<line>\d+):(?P<column>\d+)\s*$")
