"""Flags of the C-like compilers that reach beyond the source: refused, or compiled uncached."""

from __future__ import annotations

from collections.abc import Sequence

from teeny_async.model import Kernel
from teeny_async.source import Rendered, files_read

RESERVED = ("-o", "-c", "-S", "-E", "-M", "-MM", "-MD", "-MMD", "-MF", "-x", "-ptx", "-cubin", "-fatbin", "-target")
"""Flags that would change what is read or written; the request's own fields set them."""

_READS_FILES = (
    *("-include", "-imacros", "-I", "-isystem", "-iquote", "-idirafter", "-isysroot", "--sysroot", "-L", "-B", "@"),
    *("-fplugin", "-fpass-plugin", "-fprofile-use", "-fprofile-instr-use", "-fmodule", "-ivfsoverlay", "--config"),
    *("-Xclang", "-mllvm", "--options-file", "-optf", "-ccbin", "--compiler-bindir", "-fsanitize-", "--cuda-path"),
)


def define_args(rendered: Rendered) -> list[str]:
    return [f"-D{name}={value}" for name, value in rendered.defines]


def include_args(kernel: Kernel) -> list[str]:
    return [f"-I{folder}" for folder in kernel.include_dirs]


def why_uncacheable(kernel: Kernel, rendered: Rendered, flags: Sequence[str]) -> str | None:
    """Why the key would not cover everything the compiler reads; None when it does."""
    found = files_read(kernel.language, kernel.prelude + rendered.text if kernel.prelude else rendered.text)
    if found:
        return f"the source has {found!r}: what it stands for is not in the key"
    for flag in flags:
        if flag.startswith(_READS_FILES):
            return f"flag {flag!r} can read a file that is not in the key"
    return None
