"""The recorded runs of real compilers in `tests/samples`, as `Exit`s and `Action`s."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from teeny_async.action import Action, Input
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit, Stop
from teeny_async.toolchains import diagnostics, outputs
from teeny_async.toolchains.verdict import Parse

FOLDER = Path(__file__).parent.parent / "samples"
PARSERS: Mapping[str, Parse] = {
    "zig": diagnostics.clang_text,
    "gcc": diagnostics.clang_text,
    "nvcc": diagnostics.nvcc_text,
    "ptxas": diagnostics.ptxas_text,
    "rustc": diagnostics.rustc_text,
    "rustup": diagnostics.rustc_text,
    "teenyc": diagnostics.rustc_text,
}
_CPU = re.compile(r"(?:-Ctarget-cpu=|-march=|--cuda-gpu-arch=|-arch=)(sm_\w+|native)")
_PTX = re.compile(r"\+ptx(\d+)")
_STOPS: Mapping[str, Stop] = {"CANCELLED": "cancelled", "TIMEOUT": "cpu_timeout"}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One recorded run. kind: a `FailureKind`'s name, or OK. argv as it was run in a scratch folder."""

    tool: str
    kind: str
    file: str
    exit: int
    argv: tuple[str, ...]
    outputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return (FOLDER / self.file).read_bytes()

    @property
    def parse(self) -> Parse:
        json_lines = any(argument.startswith("--error-format=json") for argument in self.argv)
        return diagnostics.rustc_json if json_lines else PARSERS[self.tool]

    @property
    def output(self) -> str:
        return self.argv[self.argv.index("-o") + 1] if "-o" in self.argv else "out"

    @property
    def action(self) -> Action:
        sources = [
            name for name in self.argv[1:] if Path(name).suffix in {".c", ".cu", ".rs", ".ptx"} and name != self.output
        ]
        return Action(
            argv=self.argv,
            executable=self.argv[0],
            inputs=tuple(Input(name, ("",)) for name in sources),
            outputs=FrozenMap({"out": self.output}),
            required=("out",),
        )

    def ended(self, **changes: Any) -> Exit:
        """How it ended. What the index does not hold follows from the kind: our reason for stopping it
        (unless the kernel stopped it: SIGXCPU), and whether the disk was full."""
        data = {"out": _content(self.outputs[self.output])} if self.output in self.outputs else {}
        stopped = None if self.exit in (-24, 152) else _STOPS.get(self.kind)
        fields: dict[str, Any] = {
            "code": self.exit,
            "stderr": self.data,
            "outputs": FrozenMap(data),
            "stopped": stopped,
            "scratch_full": self.kind == "DISK_FULL",
        }
        return Exit(**(fields | changes))

    def check(self, action: Action, found: Mapping[str, bytes]) -> str | None:
        """What the driver of this tool would say of the output."""
        line = " ".join(self.argv)
        cpu, version = _CPU.search(line), _PTX.search(line)
        name = cpu[1] if cpu and cpu[1] != "native" else "sm_90" if cpu else None
        for data in found.values():
            if action.outputs["out"].endswith(".cubin"):
                return outputs.cubin(data, cpu=name)
            if "nvptx" in line or action.outputs["out"].endswith(".ptx"):
                return outputs.ptx(data, cpu=name, ptx_version=int(version[1]) if version else None)
        return None


@functools.cache
def samples() -> tuple[Sample, ...]:
    """Every recorded run of a compiler, in the order of the index; rustup's failures stand for its shims'."""
    rows = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
    return tuple(
        Sample(
            tool=row["tool"],
            kind=row["kind"],
            file=row["file"],
            exit=row["exit"],
            argv=tuple(row["argv"]),
            outputs=row["outputs"],
        )
        for row in rows
        if row["tool"] in PARSERS and not (row["tool"] == "rustup" and row["exit"] == 0)
    )


def _content(output: Mapping[str, Any]) -> bytes:
    """An output with the recorded beginning: an ELF file filled up to its size, or the header of a PTX file."""
    head = str(output.get("head", "")).encode("latin-1", "replace")
    if head.startswith(b"\x7fELF"):
        return head.ljust(output["size"], b"\0")
    return head.partition(b"\t// .globl")[0].partition(b".visible")[0]
