"""What the C-like compilers read beyond the source: followed by a dependency file, or compiled uncached."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from teeny_async.errors import RequestError
from teeny_async.model import CompileRequest, Kernel
from teeny_async.source import Rendered, files_read, render, unlisted
from teeny_async.toolchains.base import Draft, Driver, kernel_file
from teeny_async.toolchains.options import DEPFILE

_OURS = re.compile(
    r"""-o.* | -x.* | -[cSE] | -M.* | --                               # what is read, what is written
      | -(?:dc|dw|dlink|link|lib|run|ptx|cubin|fatbin) | --(?:output.*|ptx|cubin|fatbin|compile|device-(?:c|w|link)|link|run)
      | -?-target(?:=.*)? | -m(?:arch|cpu)=.* | --(?:cuda-gpu|offload)-arch=.*            # for which processor
      | -arch(?:=.*)? | -code(?:=.*)? | -gencode.* | --g(?:pu|enerate)-(?:arch|code).*
    """,
    re.VERBOSE,
)
"""Flags that would change what is read or written; the request's own fields set them."""

_READS_FILES = re.compile(
    r"""@ | -i | --i | --(?:pre|system)-include | -[IFLB] | --?(?:sysroot|config|library|ldir|libdevice|resource-dir)
      | -f(?:pass-)?plugin | -fprofile- | -fauto-profile | -fmodule | -fsanitize- | -fxray | -fbasic-block-sections
      | -fembed | -fthinlto | -Xclang | -Xcompiler | -Xpreprocessor | -Xassembler | -Xarch | -W[apl], | -mllvm
      | -ccbin | --compiler- | --(?:cuda|hip|rocm|gcc)- | -specs | -working-directory | .*opt(?:f|ions-file)
    """,
    re.VERBOSE,
)


Defines = tuple[tuple[str, str], ...]


def refuse_ours(driver: Driver, flags: Sequence[str]) -> None:
    """Raise RequestError for a flag that would take an action's inputs or outputs out of our hands."""
    for flag in flags:
        if _OURS.fullmatch(flag):
            raise RequestError(f"toolchain {driver.name}: flag {flag!r} is ours to set; use the request's fields")


def define_args(defines: Defines) -> list[str]:
    return [f"-D{name}={value}" for name, value in defines]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a compile reads beyond its source.

    files: whether it reads any, in a way that its dependency file tells of. own, builtin: the folders it
    looks in, the kernel's and then the compiler's.
    uncacheable: why the key cannot cover what it reads; None when it can.
    """

    files: bool = False
    own: tuple[str, ...] = ()
    builtin: tuple[str, ...] = ()
    uncacheable: str | None = None

    @property
    def search(self) -> tuple[str, ...]:
        return (*self.own, *self.builtin)

    def args(self, depfile: Sequence[str] = ("-MD", "-MF", DEPFILE)) -> list[str]:
        """The compiler's arguments for it. depfile: those that have it write down what it read."""
        if not self.files:
            return []
        folders = [*(f"-I{folder}" for folder in self.own), *(f"-isystem{folder}" for folder in self.builtin)]
        return [*depfile, *folders]


NOTHING_READ = Reading()


def reading(kernel: Kernel, rendered: Rendered, flags: Sequence[str], builtin: Sequence[str] = ()) -> Reading:
    """What a C-like kernel reads. builtin: folders of the compiler's own headers, looked in last."""
    for flag in flags:
        if _READS_FILES.match(flag):
            return Reading(uncacheable=f"flag {flag!r} can read a file that is not in the key")
    for macro in (*(value for _, value in rendered.defines), *flags):
        if ("__" in macro or ".inc" in macro) and (found := files_read(kernel.language, macro)):
            return Reading(uncacheable=f"a macro has {found!r}: what it stands for is not in the key")
    if files_read(kernel.language, kernel.prelude, rendered.text) is None:
        return NOTHING_READ
    own, system = (tuple(os.path.realpath(folder) for folder in folders) for folders in (kernel.include_dirs, builtin))
    found = unlisted(kernel.language, kernel.prelude, rendered.text)
    why = f"the source has {found!r}: what it stands for is not in the key" if found else None
    return Reading(files=True, own=own, builtin=system, uncacheable=why)


def draft(
    file: str, request: CompileRequest, flags: Sequence[str], builtin: Sequence[str] = ()
) -> Draft[tuple[Defines, Reading]]:
    """What hangs on a C-like kernel's text: its file, its macros, what it reads. flags: all that the compiler gets."""
    kernel, rendered = request.kernel, render(request)
    read = reading(kernel, rendered, flags, builtin)
    return Draft(kernel_file(file, kernel.prelude, rendered.text), (rendered.defines, read))
