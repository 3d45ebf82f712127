"""The second stage of nvcc: PTX to cubin, by the ptxas that nvcc itself would run, with the arguments it would give.

So the cubin is, byte for byte, the one that `nvcc -cubin` writes (its notes hold ptxas's arguments), and PTX that
does not differ is assembled once. Flags that this file does not know are nvcc's own to hand on: then all of it is
one action.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from teeny_async.model import CompileRequest
from teeny_async.toolchains.base import Host, Toolchain, ToolNotFound
from teeny_async.toolchains.nvcc_find import all_flags, find_nvcc, helper_folders, user_settings
from teeny_async.toolchains.ptxas import ARCH_OF_PTX, Ptxas

_FRONT_END = re.compile(
    r"""-[DUI].+ | --?std=[\w+]+ | --?use_fast_math | --?(?:ftz|prec-div|prec-sqrt)=\w+ | --?restrict
      | --?extra-device-vectorization | --?(?:expt-)?(?:relaxed-constexpr|extended-lambda) | --?src-in-ptx
      | --?diag-(?:suppress|warn|error)=[\d,]+
    """,
    re.VERBOSE,
)
"""Flags that are of no concern to ptxas."""
_FOR_PTXAS = re.compile(r"-Xptxas|--ptxas-options")
_REGISTERS = re.compile(r"--?maxrregcount")
_READS_FILES = re.compile(r"-optf|--options-file|@|.*[/\\'\"]")


def front_end_flags(flags: Sequence[str]) -> list[str]:
    """The flags without those for ptxas alone, which make no difference to PTX."""
    return [word for name, _, words in _groups(flags) if not _FOR_PTXAS.fullmatch(name) for word in words]


def assembler_args(flags: Sequence[str]) -> list[str] | None:
    """What nvcc gives ptxas when it has these flags; None when one is not known here, or would read a file."""
    passed, registers = ["-v"], []
    for name, value, _ in _groups(flags):
        if _FOR_PTXAS.fullmatch(name):
            passed += value.split(",")
        elif _REGISTERS.fullmatch(name):
            registers = [f"-maxrregcount={value}"]
        elif not _FRONT_END.fullmatch(f"{name}={value}" if value else name):
            return None
    return None if any(not arg or _READS_FILES.match(arg) for arg in passed) else [*passed, *registers]


def _groups(flags: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Each flag's name and value, and its words: a value may be behind a "=", or a word of its own."""
    words = iter(flags)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and (_FOR_PTXAS.fullmatch(name) or _REGISTERS.fullmatch(name)):
            value = next(words, "")
            yield name, value, [word, value]
        else:
            yield name, value, [word]


class NvccPtxas(Ptxas):
    """nvcc's PTX to cubin, with metrics."""

    async def find(self, host: Host) -> Toolchain:
        nvcc = find_nvcc(host)
        folders = helper_folders(nvcc) if nvcc else ()
        path = next((path for folder in folders if os.access(path := os.path.join(folder, "ptxas"), os.X_OK)), None)
        if path is None:
            raise ToolNotFound(f"ptxas: none beside nvcc ({nvcc}); its toolkit is not complete")
        return await self.identify(host, path, user_settings(host))

    def _options(self, request: CompileRequest, toolchain: Toolchain) -> Sequence[str]:
        args = assembler_args(all_flags(toolchain, request.flags))
        assert args is not None, "nvcc has planned it as one action"
        return (ARCH_OF_PTX, "-m64", *args)
