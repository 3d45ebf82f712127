"""The program in which Triton compiles one kernel: run by a bare interpreter, in an empty folder, as `worker.py`.

    python -P -s -S -B worker.py kernel.py cuda:90 emit=ptx kernel=scale type:x=*fp32:16 constant:BLOCK=128

It imports nothing of ours. The folder of triton comes in TEENY_ASYNC_TRITON; nothing else that is installed beside it
can be imported, and no variable of the user's is there, so that what it makes depends on its command line, its input
and triton alone. It prints its errors as a compiler does, and leaves what was asked for as `kernel.<emit>`, and
what a launch needs to know as `kernel.json`. As `__warm__` it only imports: in a process that then forks and is this
program in each fork.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

_LAUNCH = (
    *("name", "shared", "num_warps", "num_ctas", "num_stages", "warp_size", "maxnreg", "cluster_dims", "tmem_size"),
    *("global_scratch_size", "global_scratch_align", "profile_scratch_size", "profile_scratch_align"),
    *("launch_cooperative_grid", "launch_pdl", "waves_per_eu", "triton_version"),
)
"""What is kept of triton's metadata: nothing that names a folder of this machine."""
_ALSO = (
    *("tempfile", "traceback", "triton.compiler.code_generator"),
    *("triton.language.extra.cuda.libdevice", "triton.language.extra.hip.libdevice"),
)
"""What is imported late: by the first compile of a process."""
_STAGES = {"asm": "amdgcn"}
"""Our name of an output -> triton's, where they differ."""


def load_triton() -> ModuleType:
    """Import triton from its folder; that of the packages beside it is not on the path."""
    if "triton" in sys.modules:
        return sys.modules["triton"]
    import importlib.util
    import warnings
    from importlib import metadata

    folder = os.environ["TEENY_ASYNC_TRITON"]
    # Triton looks for back ends among all packages that are installed; it gets its own.
    own = metadata.EntryPoints(
        metadata.EntryPoint(name, f"triton.backends.{name}", "triton.backends") for name in ("nvidia", "amd")
    )
    metadata.entry_points = own.select  # type: ignore[assignment]
    warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")
    spec = importlib.util.spec_from_file_location(
        "triton", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    triton = importlib.util.module_from_spec(spec)
    sys.modules["triton"] = triton
    spec.loader.exec_module(triton)
    from triton.runtime import cache

    # The key of triton's own cache, which we do not use, has a digest of its 500 MB in it: a second of each compile.
    if hasattr(cache, "triton_key"):
        cache.triton_key = lambda: "teeny_async"
    return triton


def target_of(name: str) -> Any:
    from triton.backends.compiler import GPUTarget

    backend, _, arch = name.partition(":")
    if backend == "cuda":
        return GPUTarget("cuda", int(arch), 32)
    return GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)


def source_of(file: str, asked: Mapping[str, Any]) -> Any:
    """What `triton.compile` takes: the file of TTIR, or the kernel of a Python file with its types and constants."""
    if not file.endswith(".py"):
        return file
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    module = ModuleType("kernel")
    module.__file__ = file
    sys.modules["kernel"] = module
    exec(compile(text, file, "exec"), module.__dict__)  # noqa: S102 - a kernel is a program, as any source is
    kernel = getattr(module, asked["kernel"])
    while not isinstance(kernel, JITFunction):  # autotune and heuristics wrap it
        kernel = kernel.fn
    return described(kernel, asked, ASTSource)


def described(kernel: Any, asked: Mapping[str, Any], make: Any) -> Any:
    types, constants = asked["types"], dict(asked["constants"])
    for param in kernel.params:
        if param.name not in types and param.name not in constants:
            constants[param.name] = param.default
    signature = {name: types[name].partition(":")[0] if name in types else "constexpr" for name in kernel.arg_names}
    divisible = {
        (number,): [["tt.divisibility", 16]]
        for number, name in enumerate(kernel.arg_names)
        if types.get(name, "").endswith(":16")
    }
    return make(fn=kernel, signature=signature, constexprs=constants, attrs=divisible)


def checked_options(triton: Any, target: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options; triton ignores one that it does not have, so that it is looked up here."""
    known = triton.compiler.make_backend(target).parse_options({}).__dict__
    for name in options:
        if name not in known:
            raise Refused(f"triton {triton.__version__} has no option {name!r} for {target.backend}")
    return dict(options)


class Refused(Exception):
    """What is asked for cannot be had, in a sentence."""


def read_arguments(words: list[str]) -> dict[str, Any]:
    """The command line: `name=value`, or `kind:name=value` for what there are several of."""
    asked: dict[str, Any] = {"types": {}, "constants": {}, "options": {}}
    for word in words:
        name, _, value = word.partition("=")
        kind, _, inner = name.partition(":")
        if not inner:
            asked[name] = value
        else:
            asked[kind + "s"][inner] = value if kind == "type" else json.loads(value)
    return asked


def leave_out_binary(wanted: str, binary: str) -> None:
    """Let triton stop before its last stage when what is wanted is an earlier one's."""
    from triton import knobs

    def hook(*arguments: Any) -> tuple[str, str] | None:
        if not arguments:
            return "", ""
        stages = arguments[1]
        if binary in stages and wanted != binary:
            stages[binary] = lambda source, metadata: b""
        return None

    if hasattr(knobs.runtime, "add_stages_inspection_hook"):
        knobs.runtime.add_stages_inspection_hook = hook
    if hasattr(knobs.nvidia, "dump_ptxas_log"):
        knobs.nvidia.dump_ptxas_log = True


def compile_kernel(file: str, target_name: str, words: list[str]) -> None:
    """Compile, and leave the output and its metadata. Raises what triton raises."""
    asked = read_arguments(words)
    os.utime(file, (0, 0))  # the ptxas for what is older than sm_90 writes the time stamp into its line table
    os.environ["TRITON_CACHE_DIR"] = os.path.join(os.getcwd(), "triton-cache")
    triton = load_triton()
    target = target_of(target_name)
    stage = _STAGES.get(asked["emit"], asked["emit"])
    options = checked_options(triton, target, asked["options"])
    leave_out_binary(stage, "cubin" if target.backend == "cuda" else "hsaco")
    source = source_of(file, asked)
    compiled = triton.compile(source, target=target, options=options)
    output = compiled.asm[stage]
    with open(f"kernel.{asked['emit']}", "wb") as written:
        written.write(output if isinstance(output, bytes) else output.encode())
    with open("kernel.json", "w", encoding="utf-8") as written:
        json.dump(launch_facts(compiled, target_name), written, indent=1, sort_keys=True)


def launch_facts(compiled: Any, target: str) -> dict[str, Any]:
    """What a launch needs: the entry's name, dynamic shared memory in bytes, warps, the arguments that are left."""
    found = {name: getattr(compiled.metadata, name) for name in _LAUNCH if hasattr(compiled.metadata, name)}
    arguments = [[str(name), str(type)] for name, type in compiled.src.signature.items() if type != "constexpr"]
    return {"target": target, "arguments": arguments, **found}


def complain(error: BaseException, file: str) -> None:
    """Print an error in clang's form, where it has a place in the kernel's file."""
    causes = [error]
    while (inner := causes[-1].__cause__) is not None:
        causes.append(inner)
    placed = [
        one for one in causes if getattr(getattr(one, "node", None), "lineno", None) and getattr(one, "src", None)
    ]
    if isinstance(error, SyntaxError):
        print(f"{error.filename}:{error.lineno}:{error.offset or 1}: error: {error.msg}", file=sys.stderr)
    elif placed:
        inmost: Any = placed[-1]
        line, column = inmost.node.lineno + first_line(file, inmost.src) - 1, inmost.node.col_offset + 1
        message = inmost.error_message or str(causes[-1])
        print(f"{file}:{line}:{column}: error: {message}\n{inmost}", file=sys.stderr)
    else:
        print(f"{place_of(error, file)}error: {type(error).__name__}: {error}", file=sys.stderr)


def first_line(file: str, source: str) -> int:
    """The line of the file in which a function's text begins."""
    with open(file, encoding="utf-8") as opened:
        before, found, _ = opened.read().partition(source.rstrip("\n"))
    return before.count("\n") + 1 if found else 1


def place_of(error: BaseException, file: str) -> str:
    """`file:line: ` of the last frame that is in the kernel's file: what failed while the module was run."""
    import traceback

    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{file}:{lines[-1]}:1: " if lines else ""


def get_ready() -> None:
    """Import all that a compile does, for a process that forks; no kernel is compiled in it."""
    from importlib import import_module

    load_triton()
    for name in _ALSO:
        with contextlib.suppress(ImportError):
            import_module(name)


def main(words: list[str]) -> int:
    file, target, *rest = words
    try:
        compile_kernel(file, target, rest)
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the compiler says
        complain(error, file)
        return 1
    return 0


if __name__ == "__warm__":
    get_ready()
elif __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # what is left to tear down is the whole of LLVM
