"""The architecture: imports point down, modules stay small, every public name is there."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import teeny_async

PACKAGE = Path(teeny_async.__file__).parent
LAYERS = (
    ("cli", "__main__"),
    ("report",),
    ("tuning", "upstream"),
    ("api", "caching", "testing", "sync", "files"),
    ("cluster",),
    ("pipeline",),
    ("execution",),
    ("store",),
    ("toolchains",),
    (
        *("keys", "events", "errors", "model", "action", "result", "plain", "failures", "target", "target_names"),
        "target_aliases",
        *("source", "prelude", "frozen", "settings", "lexing", "closure", "nearest"),
    ),
)
"""From the top down; a module imports from its own layer and from those below."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
AT_A_WORKER = PACKAGE / "cluster" / "worker.py"
"""Where code begins on another machine, as `api` is where it begins on this one."""
IN_THEIR_OWN_PROCESS = (
    PACKAGE / "toolchains" / "triton_worker.py",
    PACKAGE / "execution" / "supervisor" / "forker.py",
)
"""Programs of their own, in an environment that we made."""
MAY_READ_IT = (AT_A_WORKER, *IN_THEIR_OWN_PROCESS)
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room(dotted: str) -> str:
    return dotted.split(".")[1]


def runtime_imports(tree: ast.Module) -> Iterator[str]:
    """Modules imported anywhere but under TYPE_CHECKING: a type's name may point anywhere."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        pending.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert own in RANK, f"{own} has no place in the layers"
    for imported in runtime_imports(ast.parse(path.read_text())):
        if imported.startswith("teeny_async."):
            assert RANK[room(imported)] >= RANK[own], f"{own} imports {imported}, which is above it"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_and_functions_are_small(path: Path) -> None:
    """350 lines a module, 60 a function; a longer one is defended in its docstring ("Long because")."""
    text = path.read_text()
    tree = ast.parse(text)
    if "Long because" in (ast.get_docstring(tree) or ""):
        return
    assert text.count("\n") <= 350
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


def test_no_module_unpickles() -> None:
    for path in MODULES:
        assert not {"pickle", "marshal", "shelve"} & set(runtime_imports(ast.parse(path.read_text()))), path


def test_the_environment_is_read_at_the_edge_only() -> None:
    for path in MODULES:
        if path.relative_to(PACKAGE).parts[0] in ("cli", "api.py", "__main__.py") or path in MAY_READ_IT:
            continue
        reads = [
            node
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") and _is_os(node.value)
        ]
        assert not reads, f"{path} reads the environment"


def _is_os(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "os"


def test_every_public_name_is_there() -> None:
    assert teeny_async.__all__ == sorted(teeny_async.__all__)
    for name in teeny_async.__all__:
        assert getattr(teeny_async, name) is not None
    testing = importlib.import_module("teeny_async.testing")
    assert all(hasattr(testing, name) for name in testing.__all__)


def test_every_public_function_and_class_says_what_it_does() -> None:
    for name in teeny_async.__all__:
        public = getattr(teeny_async, name)
        if callable(public):
            assert public.__doc__, name
            assert not public.__doc__.startswith(f"{name}("), f"{name} has only the docstring that dataclasses make"


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = ["diskcache", "tenacity", "rich", "click", "aiofiles", "platformdirs", "trio", "asyncio", "sqlite3"]
    heavy += ["obstore", "dask", "distributed", "triton"]
    script = f"import sys, teeny_async; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_toolchain_that_is_only_planned_with_loads_no_verdict() -> None:
    script = (
        "import sys; from teeny_async.model import LANGUAGES; from teeny_async.toolchains.registry import candidates\n"
        "assert [candidates(language) for language in set(LANGUAGES.values())]\n"
        "print([name for name in sys.modules if name.rpartition('.')[2] in ('verdict', 'symptoms', 'diagnostics')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
