"""What a Triton kernel's source says of itself, read without running it: its name, its arguments, what it imports.

    @triton.jit
    def scale(x: "*fp32:16", n: "i32", factor, BLOCK: tl.constexpr = 128): ...

An argument's type is its annotation, in Triton's own words; `:16` says that it is divisible by 16, as a launch finds
out by looking. A param of a request says the rest: the value of a constexpr, the type of an argument without one.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from teeny_async.errors import RequestError
from teeny_async.model import ParamValue

_TYPE = re.compile(
    r"(?:\*k?)*(?:i1|u1|[iu](?:8|16|32|64)|fp(?:16|32|64)|bf16|fp8(?:e4nv|e4b8|e4b15|e5|e5b16)|void)(?::16)?"
    r"|tensordesc<[\w\[\], ]+>"
)
_MODULES = frozenset({"__future__", "dataclasses", "enum", "functools", "math", "operator", "triton", "typing"})
"""What a kernel may import: triton itself, and modules of Python that read nothing."""
_READERS = frozenset(
    {"open", "exec", "eval", "compile", "__import__", "__builtins__", "globals", "breakpoint", "input"}
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a kernel. type: as annotated, None without; default: whether it has one that counts."""

    name: str
    type: str | None
    constexpr: bool
    default: bool


@dataclass(frozen=True, slots=True)
class Declared:
    """A kernel as its source declares it. reads: a construct by which it may read what is in no key; None: none."""

    name: str
    arguments: Sequence[Argument]
    reads: str | None


@functools.lru_cache(maxsize=64)
def declared(source: str, entry: str | None) -> Declared | None:
    """The kernel of a source; None for what is no Python (the worker says where, as a compiler does).

    entry: its name, where there are several. Raises RequestError for a source without a kernel, or with an import
    of what is in no key.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    _check_imports(tree)
    kernels = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_jit(node)}
    node = _chosen(kernels, entry)
    return Declared(node.name, tuple(_arguments(node)), _reader(tree))


def settled(
    kernel: Declared, params: Mapping[str, ParamValue], options: frozenset[str]
) -> tuple[dict[str, str], dict[str, ParamValue], dict[str, ParamValue]]:
    """(types, constants, options of the compile) by name: what becomes of each argument and each param.

    Raises RequestError for an argument that nothing is said of, and for a param that nothing reads.
    """
    types: dict[str, str] = {}
    constants: dict[str, ParamValue] = {}
    for argument in kernel.arguments:
        given = params.get(argument.name)
        if given is None:
            if argument.type:
                types[argument.name] = _checked_type(kernel, argument.name, argument.type)
            elif not argument.default:
                raise _unsaid(kernel, argument)
        elif argument.constexpr or not isinstance(given, str):
            constants[argument.name] = given
        else:
            types[argument.name] = _checked_type(kernel, argument.name, given)
    rest = {name: value for name, value in params.items() if name not in {a.name for a in kernel.arguments}}
    return types, constants, check_options(f"kernel {kernel.name}", rest, options, kernel)


def check_options(
    where: str, params: Mapping[str, ParamValue], options: frozenset[str], kernel: Declared | None = None
) -> dict[str, ParamValue]:
    """Params that are options of the compile. Raises RequestError for one that is none."""
    unread = sorted(name for name in params if name not in options)
    if unread:
        own = f", an argument of it ({', '.join(a.name for a in kernel.arguments)})" if kernel else ""
        raise RequestError(
            f"{where}: nothing reads {', '.join(unread)}; a param is a `placeholder` of the source{own}, or an option "
            f"of triton: {', '.join(sorted(options))}"
        )
    return dict(params)


def _checked_type(kernel: Declared, name: str, type: str) -> str:
    if not _TYPE.fullmatch(type):
        raise RequestError(
            f"kernel {kernel.name}: argument {name!r} has no type {type!r}; write it as in '*fp32:16' (a pointer, "
            "divisible by 16), 'i32', 'fp16', 'tensordesc<fp16[64, 64]>'"
        )
    return type


def _unsaid(kernel: Declared, argument: Argument) -> RequestError:
    name = argument.name
    if argument.constexpr:
        return RequestError(f"kernel {kernel.name}: constexpr {name!r} has no value; give it as a param, {name}=128")
    return RequestError(
        f'kernel {kernel.name}: argument {name!r} has no type; annotate it, {name}: "*fp32:16", or give the type as '
        f"a param, {name}='*fp32:16'"
    )


def _chosen(kernels: Mapping[str, ast.FunctionDef], entry: str | None) -> ast.FunctionDef:
    """The one that is asked for, else the one that no other calls."""
    if not kernels:
        raise RequestError("the source has no kernel: decorate a function with @triton.jit")
    if entry is not None:
        if entry not in kernels:
            raise RequestError(f"the source has no kernel {entry!r}, but {', '.join(kernels)}")
        return kernels[entry]
    called = {
        part.id
        for name, node in kernels.items()
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and part.id != name
    }
    roots = [name for name in kernels if name not in called]
    if len(roots) != 1:
        raise RequestError(f"the source has several kernels ({', '.join(roots or kernels)}): name one as entry_point")
    return kernels[roots[0]]


def _is_jit(node: ast.FunctionDef) -> bool:
    """Whether a decorator is `triton.jit`, `jit`, or a call of one."""
    plain = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    return any(_last_name(each) == "jit" for each in plain)


def _last_name(node: ast.expr | None) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _arguments(node: ast.FunctionDef) -> Iterator[Argument]:
    positional = [*node.args.posonlyargs, *node.args.args]
    padded: list[ast.expr | None] = [None] * (len(positional) - len(node.args.defaults))
    pairs = [*zip(positional, [*padded, *node.args.defaults], strict=True)]
    pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    for argument, default in pairs:
        note = argument.annotation
        text = note.value if isinstance(note, ast.Constant) and isinstance(note.value, str) else None
        constexpr = _last_name(note) == "constexpr" or (text or "").endswith("constexpr")
        none = isinstance(default, ast.Constant) and default.value is None
        yield Argument(
            argument.arg,
            None if constexpr else text,
            constexpr,
            # Triton takes None for a constant wherever it is given; another default has a type that we do not know.
            default=none or (constexpr and default is not None),
        )


def _check_imports(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else ["." * node.level + (node.module or "")]
        for name in names:
            if name.partition(".")[0] not in _MODULES:
                raise RequestError(
                    f"line {getattr(node, 'lineno', '?')} imports {name}, which is in no key: a Triton kernel may import "
                    "triton and math; put what it shares with others into its prelude"
                )


def _reader(tree: ast.Module) -> str | None:
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return next((name for name in names if name in _READERS), None)
