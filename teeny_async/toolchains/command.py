"""`CommandToolchain`: a compiler of the user's own, described by its command line.

The template is expanded by one rule: an argument is repeated for each thing that its placeholder stands
for, and so left out where there is none. `-march={cpu}` is gone for a target without a CPU, `-D{defines}`
is there once for each macro, `{flags}` becomes the request's flags.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import string
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import LANGUAGES, CompileRequest, Kernel
from teeny_async.result import Artifact, Exit, Failure
from teeny_async.source import C_LIKE, Rendered, files_read, render
from teeny_async.target import Target, host_triple
from teeny_async.toolchains import diagnostics
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound, check_emit, neutral_env
from teeny_async.toolchains.c_flags import Reading, reading
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.options import DEPFILE, refuse_log
from teeny_async.toolchains.verdict import Parse, judge

PLACEHOLDERS = (
    *("source", "output", "depfile", "cpu", "triple", "arch", "features", "ptx_version"),
    *("defines", "flags", "include_dirs", "opt_level"),
)
PARSERS: Mapping[str, Parse] = {
    "clang": diagnostics.clang_text,
    "nvcc": diagnostics.nvcc_text,
    "ptxas": diagnostics.ptxas_text,
    "rustc": diagnostics.rustc_json,
}
_SUFFIX = {language: suffix for suffix, language in LANGUAGES.items()}
_SYSTEM_FOLDERS = ("/usr/bin", "/bin")


class CommandToolchain(Driver):
    """A compiler of your own, from its command line.

        CommandToolchain(
            "gcc", "gcc -march={cpu} -O{opt_level} -D{defines} {flags} -S {source} -o {output}",
            languages=["c"], outputs={"asm": "kernel.s"}, asks=["-print-prog-name=cc1"],
        )

    name: stands for it in results and keys.
    argv: the program (a name on PATH, or a path) and its arguments, as a list or as a shell would split one
        text, with placeholders: {source} {output}
        {depfile} {cpu} {triple} {arch} {features} {ptx_version} {defines} (NAME=VALUE each) {flags}
        {include_dirs} {opt_level}. An argument is repeated for each thing its placeholder stands for, and left
        out where there is none; `{{` is a brace. What a request asks for and the template has no place for
        (flags, macros, a CPU, an optimisation level other than 3) is refused.
    languages: of the kernels it takes. outputs: label -> file that it writes in its folder; {output} is the
        first. "ptx", "cubin", "object", "shared", "asm" and "hsaco" are checked for what they should be; from
        "ptx", emit="cubin" is made by ptxas. optional: labels of those that may be missing.
    inputs: further files for its folder, name -> text. source: the kernel's file name there.
    env: variables of its environment; pass_env: names of those to take from the user's. Both are keyed.
    version: arguments that make it print its version; None: it has none.
    files, asks: what it is made of besides the program itself: paths, and arguments that make it print one
        (`-print-prog-name=cc1`). The contents of all of them are its identity.
    cpus: the CPU names it knows; None: any. triple: of its default target; None is this machine's.
    parse: how its messages are read: "clang" (and gcc), "nvcc", "ptxas", "rustc", a pattern with the groups
        `message` and, as they come, `severity`, `file`, `line`, `column`, `code`, or a function.

    A language that is not among the known ones borrows the nearest, as in language="c", source="kernel.cl".
    Without {depfile} a kernel that includes files is compiled and not cached; with it, they complete its key.

    Raises RequestError for a template that makes no sense.
    """

    def __init__(
        self,
        name: str,
        argv: str | Sequence[str],
        *,
        languages: Iterable[str],
        outputs: Mapping[str, str],
        optional: Iterable[str] = (),
        inputs: Mapping[str, str] | None = None,
        source: str | None = None,
        env: Mapping[str, str] | None = None,
        pass_env: Iterable[str] = (),
        version: Sequence[str] | None = ("--version",),
        files: Iterable[str | os.PathLike[str]] = (),
        asks: Iterable[str] = (),
        cpus: Iterable[str] | None = None,
        triple: str | None = None,
        parse: str | re.Pattern[str] | Parse = "clang",
    ) -> None:
        self.name = name
        self.languages = frozenset([languages] if isinstance(languages, str) else languages)
        program, *template = shlex.split(argv) if isinstance(argv, str) else argv
        if not outputs:
            raise RequestError(f"toolchain {name}: outputs names no file")
        self.emits = (*outputs, *(("cubin",) if "ptx" in outputs and "cubin" not in outputs else ()))
        self._program = os.fspath(program)
        self._template = [_pieces(name, argument) for argument in template]
        self._places = {field for pieces in self._template for _, field in pieces if field}
        self._outputs = FrozenMap(outputs)
        self._required = tuple(label for label in outputs if label not in set(optional))
        self._inputs = tuple(Input(file, (text,)) for file, text in (inputs or {}).items())
        self._source = source
        self._env = FrozenMap(env or {})
        self._pass_env = tuple(pass_env)
        self._version = version
        self._files = tuple(Path(file) for file in files)
        self._asks = tuple(asks)
        self._cpus = None if cpus is None else frozenset(cpus)
        self._triple = triple
        self._parse = _parser(parse)

    async def find(self, host: Host) -> Toolchain:
        path = self._locate(host)
        if path is None:
            raise ToolNotFound(f"{self.name}: {self._program} is not installed, or is not on PATH")
        version = self.name
        if self._version is not None:
            version = _text(await self._ask(host, path, self._version))
        files = {"program": Path(path), **{f"file {number}": file for number, file in enumerate(self._files)}}
        for question in self._asks:
            answer = Path(_text(await self._ask(host, path, [question])))
            files[question] = answer if answer.is_absolute() else Path(host.which(str(answer)) or answer)
        return Toolchain(
            name=self.name,
            path=path,
            version=version.splitlines()[0] if version else self.name,
            fingerprint=await host.fingerprint(self.name, version, files),
            search_path=tuple(dict.fromkeys((os.path.dirname(path), *_SYSTEM_FOLDERS))),
            settings=FrozenMap({name: host.environ[name] for name in self._pass_env if name in host.environ}),
        )

    def _locate(self, host: Host) -> str | None:
        if os.sep not in self._program:
            return host.which(self._program)
        path = os.path.abspath(os.path.expanduser(self._program))
        return path if os.access(path, os.X_OK) else None

    async def _ask(self, host: Host, path: str, arguments: Sequence[str]) -> Exit:
        answer = await host.run([path, *arguments], {n: host.environ[n] for n in self._pass_env if n in host.environ})
        if answer.code != 0:
            raise ToolNotFound(f"{self.name}: {path} does not answer `{' '.join(arguments)}` (exit {answer.code})")
        return answer

    def default_target(self, kernel: Kernel) -> Target:
        return Target(None, self._triple or host_triple())

    def finish(self, request: CompileRequest, target: Target) -> str | None:
        return "ptxas" if request.emit == "cubin" and "cubin" not in self._outputs else None

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        return self._cpus

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        kernel, rendered = request.kernel, render(request)
        check_emit(self, request, self.emits, target)
        refuse_log(self, request)
        source = self._source or "kernel" + _SUFFIX.get(kernel.language, "." + kernel.language)
        read = self._reading(kernel, rendered, request.flags)
        values: dict[str, Sequence[str]] = {
            "source": [source],
            "output": [next(iter(self._outputs.values()))],
            "depfile": [DEPFILE],
            "cpu": [target.cpu] if target.cpu else [],
            "triple": [target.triple],
            "arch": [target.arch],
            "features": target.features,
            "ptx_version": [str(target.ptx_version)] if target.ptx_version else [],
            "defines": [f"{name}={value}" for name, value in rendered.defines],
            "flags": request.flags,
            "include_dirs": read.own if read.files else (),
            "opt_level": [str(request.opt_level)],
        }
        self._refuse_unplaced(request, values)
        argv = [os.path.basename(self._program)]
        argv += itertools.chain.from_iterable(_expanded(pieces, values) for pieces in self._template)
        parts = (kernel.prelude, rendered.text) if kernel.prelude else (rendered.text,)
        return Action(
            argv=tuple(argv),
            executable=toolchain.path,
            env=FrozenMap({**toolchain.settings, **self._env}),
            neutral=neutral_env(toolchain),
            inputs=(Input(source, parts), *self._inputs),
            outputs=self._outputs,
            required=self._required,
            expect=expectations(kernel, target, ptx_version=target.ptx_version),
            depfile=DEPFILE if read.files else None,
            search=read.search,
            uncacheable=read.uncacheable,
        )

    def _refuse_unplaced(self, request: CompileRequest, values: Mapping[str, Sequence[str]]) -> None:
        for field in ("cpu", "features", "ptx_version", "defines", "flags"):
            if values[field] and field not in self._places:
                what = " ".join(values[field])
                raise RequestError(f"toolchain {self.name}: its command has no {{{field}}}, so it cannot take {what}")
        if request.opt_level != 3 and "opt_level" not in self._places:
            raise RequestError(f"toolchain {self.name}: its command has no {{opt_level}}; leave opt_level at 3")

    def _reading(self, kernel: Kernel, rendered: Rendered, flags: Sequence[str]) -> Reading:
        """What a compile reads. Of a language that is not like C, only the compiler itself can say."""
        says = "depfile" in self._places
        if kernel.language in C_LIKE:
            read = reading(kernel, rendered, flags)
        else:
            own = tuple(os.path.realpath(folder) for folder in kernel.include_dirs)
            read = Reading(files=says or bool(files_read(kernel.language, kernel.prelude, rendered.text)), own=own)
        if read.files and not says:
            return Reading(uncacheable="the source reads files, and the command has no {depfile} to say which")
        return read

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        return judge(action, exit, tool=self.name, parse=self._parse, check=check)


Pieces = Sequence[tuple[str, str | None]]
"""An argument cut at its placeholders: text, and the placeholder after it."""


def _pieces(name: str, argument: str) -> Pieces:
    try:
        cut = list(string.Formatter().parse(argument))
    except ValueError as error:
        raise RequestError(f"toolchain {name}: argument {argument!r}: {error}; write {{{{ for a brace") from None
    for _, field, form, conversion in cut:
        if field is not None and (field not in PLACEHOLDERS or form or conversion):
            known = " ".join(f"{{{each}}}" for each in PLACEHOLDERS)
            raise RequestError(f"toolchain {name}: argument {argument!r}: {{{field}}} is none of {known}")
    return [(text, field) for text, field, _, _ in cut]


def _expanded(pieces: Pieces, values: Mapping[str, Sequence[str]]) -> Iterable[str]:
    choices = [[text + value for value in ([""] if field is None else values[field])] for text, field in pieces]
    return ("".join(chosen) for chosen in itertools.product(*choices))


def _parser(parse: str | re.Pattern[str] | Parse) -> Parse:
    if isinstance(parse, re.Pattern):
        return partial(diagnostics.by_pattern, parse)
    if isinstance(parse, str):
        try:
            return PARSERS[parse]
        except KeyError:
            raise RequestError(
                f"parse is one of {', '.join(PARSERS)}, a pattern or a function, not {parse!r}"
            ) from None
    return parse


def _text(exit: Exit) -> str:
    """What a probe printed; some compilers print their version to standard error."""
    return (exit.stdout or exit.stderr).decode("utf-8", "replace").strip()
