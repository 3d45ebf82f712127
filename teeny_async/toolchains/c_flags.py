"""Flags of the C-like compilers that reach beyond the source: refused, or compiled uncached."""

from __future__ import annotations

import re
from collections.abc import Sequence

from teeny_async.errors import RequestError
from teeny_async.model import Kernel
from teeny_async.source import Rendered, files_read
from teeny_async.toolchains.base import Driver

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


def refuse_ours(driver: Driver, flags: Sequence[str]) -> None:
    """Raise RequestError for a flag that would take an action's inputs or outputs out of our hands."""
    for flag in flags:
        if _OURS.fullmatch(flag):
            raise RequestError(f"toolchain {driver.name}: flag {flag!r} is ours to set; use the request's fields")


def define_args(rendered: Rendered) -> list[str]:
    return [f"-D{name}={value}" for name, value in rendered.defines]


def include_args(kernel: Kernel) -> list[str]:
    return [f"-I{folder}" for folder in kernel.include_dirs]


def why_uncacheable(kernel: Kernel, rendered: Rendered, flags: Sequence[str]) -> str | None:
    """Why the key would not cover everything the compiler reads; None when it does."""
    found = files_read(kernel.language, kernel.prelude, rendered.text)
    if found:
        return f"the source has {found!r}: what it stands for is not in the key"
    for flag in flags:
        if _READS_FILES.match(flag):
            return f"flag {flag!r} can read a file that is not in the key"
    for macro in (*(value for _, value in rendered.defines), *flags):
        if ("__" in macro or ".inc" in macro) and (found := files_read(kernel.language, macro)):
            return f"a macro has {found!r}: what it stands for is not in the key"
    return None
