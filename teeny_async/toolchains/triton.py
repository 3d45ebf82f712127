"""triton: Triton kernels in Python, and TTIR files, to NVIDIA and AMD code; no GPU is needed.

    CompileRequest(kernel, "sm_90", emit="cubin", params={"BLOCK": 128, "num_warps": 8})

Triton is a library: its compiler is a Python process that imports it, `triton_worker`, which is sent along as an
input, so that its text is in the key. That process gets no variable of the user's (TRITON_*, MLIR_*, LLVM_*), no
package but triton, and an empty folder; so the source, the params and triton's own files are all that it can depend on.

A param is a placeholder of the source, else an argument of the kernel (the value of a constexpr, the type of any
other), else an option of the compile (num_warps, num_stages, ...). `kernel.json` beside the output says what a launch
needs to know.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.model import CompileRequest, ParamValue
from teeny_async.result import Artifact, Exit, Failure, Metric
from teeny_async.source import placed_in
from teeny_async.target import Target
from teeny_async.target_names import AMDGCN
from teeny_async.toolchains import amd_info, ptxas_info
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound, check_emit, neutral_env
from teeny_async.toolchains.expect import check, expectations
from teeny_async.toolchains.options import check_opt_level, refuse_log
from teeny_async.toolchains.triton_source import check_options, declared, settled

_ANY_OPTION = ("num_warps", "num_stages", "num_ctas", "enable_fp_fusion", "debug", "sanitize_overflow")
_CUDA_OPTIONS = frozenset(
    {
        *(*_ANY_OPTION, "maxnreg", "enable_reflect_ftz", "launch_cooperative_grid", "launch_pdl", "clc", "sched4reg"),
        *("default_dot_input_precision", "min_shared_mem"),
    }
)
_HIP_OPTIONS = frozenset(
    {
        *(*_ANY_OPTION, "waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "schedule_hint"),
        *("launch_cooperative_grid", "default_dot_input_precision", "wgp_cu_mode", "llvm_fn_attrs"),
    }
)
_FILES = {"triton": "kernel.py", "ttir": "kernel.ttir"}
_TEXTS = ("ttir", "ttgir", "llir")
_LAUNCH = "kernel.json"
_AMD_KNOWN = re.compile(r"gfx(?:906|908|90a|94\d|95\d|1[12]\d\d)")
"""The families that Triton has code for (CDNA 1 to 4, RDNA 3 and 4); of the others it says "PassManager::run failed"."""
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)", re.MULTILINE)
_PROBE = """
import importlib.util, json, sys
spec = importlib.util.find_spec("triton")
print(json.dumps([sys.version, spec and spec.origin]))
"""
_INSTALL = "run: pip install 'teeny_async[triton]'"


class Triton(Driver):
    """Triton kernels and TTIR to PTX, cubin, hsaco, and what comes between."""

    name = "triton"
    languages = frozenset(_FILES)
    emits = ("ptx", "cubin", "hsaco", "asm", *_TEXTS)

    async def find(self, host: Host) -> Toolchain:
        python, about, origin = await _located(host)
        folder = Path(origin).parent
        try:
            version = _VERSION.search((folder / "__init__.py").read_text(encoding="utf-8"))
        except OSError as error:
            raise ToolNotFound(f"triton: cannot read {folder}: {error.strerror}; {_INSTALL}") from None
        release = version[1] if version else "of an unknown version"
        return Toolchain(
            name=self.name,
            path=python,
            version=f"triton {release}, Python {about.split()[0]}",
            fingerprint=await host.fingerprint(self.name, f"{release}\n{about}", _parts(folder, python)),
            settings=FrozenMap({"folder": str(folder)}),
        )

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        if not triple.startswith("nvptx"):
            return frozenset(name for name in AMDGCN if _AMD_KNOWN.fullmatch(name))
        names: set[str] = set()
        tools = Path(toolchain.settings["folder"], "backends", "nvidia", "bin")
        for program in ("ptxas", "ptxas-blackwell"):
            probe = await host.run([str(tools / program), "--help"])
            names |= set(re.findall(r"'(sm_\d+a?)'", probe.text))
        return frozenset(names) or None

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        kernel, emit = request.kernel, self._emit(request, target)
        check_opt_level(self, request, (3,))
        refuse_log(self, request)
        if request.flags:
            raise RequestError(f"triton takes no flags: {' '.join(request.flags)}; its options are params")
        text, params = placed_in(request)
        source = kernel.prelude + text if kernel.prelude else text
        words, uncacheable = _words(request, target, source, params)
        output, file = f"kernel.{emit}", _FILES[kernel.language]
        return Action(
            argv=("python", "-P", "-s", "-S", "-B", "worker.py", file, _target_name(target), f"emit={emit}", *words),
            executable=toolchain.path,
            # A set of strings has another order in each process unless this is said.
            env=FrozenMap({"PYTHONHASHSEED": "0"}),
            neutral=FrozenMap({**neutral_env(toolchain), "TEENY_ASYNC_TRITON": toolchain.settings["folder"]}),
            inputs=(
                Input("worker.py", (_worker(),)),
                Input(file, (kernel.prelude, text) if kernel.prelude else (text,)),
            ),
            outputs=FrozenMap({emit: output, "json": _LAUNCH}),
            required=(emit, "json"),
            # From sm_90 on it writes the form of its own, sm_90a.
            expect=expectations(kernel, target, ptx_version=target.ptx_version, also=(f"{target.base_cpu}a",)),
            warm=_worker(),
            uncacheable=uncacheable,
        )

    def _emit(self, request: CompileRequest, target: Target) -> str:
        if not target.is_gpu:
            raise RequestError(f"triton compiles for NVIDIA and AMD GPUs, not for {target}")
        if target.cpu is None:
            raise RequestError("triton has no default target: name one, as in sm_90")
        if target.features:
            raise RequestError(f"triton takes no target features: {' '.join(target.features)}")
        allowed = (*(("ptx", "cubin") if target.is_nvidia else ("hsaco", "asm")), *_TEXTS)
        check_emit(self, request, allowed, target)
        return request.emit or allowed[0]

    def judge(self, action: Action, exit: Exit) -> Artifact | Failure:
        from teeny_async.toolchains import diagnostics
        from teeny_async.toolchains.verdict import judge

        verdict = judge(action, exit, tool=self.name, parse=diagnostics.clang_text, check=check)
        if isinstance(verdict, Failure):
            return verdict
        return replace(verdict, metrics=_metrics(verdict.outputs, exit.text))


async def _located(host: Host) -> tuple[str, str, str]:
    """(interpreter, its `sys.version`, triton's `__init__.py`). Raises ToolNotFound."""
    asked = host.environ.get("TEENY_ASYNC_TRITON_PYTHON")
    if not asked:
        origin = host.package_file("triton", "__init__.py")
        if origin is None:
            raise ToolNotFound(f"triton: not installed; {_INSTALL}")
        return _real(sys.executable), sys.version, origin
    python = _absolute(asked) if os.sep in asked else host.which(asked) or asked
    # Not remembered: a package comes and goes without a change of the interpreter's file.
    probe = await host.run([python, "-I", "-c", _PROBE], remember=False)
    try:
        about, found = json.loads(probe.stdout)
    except ValueError:
        raise ToolNotFound(f"triton: TEENY_ASYNC_TRITON_PYTHON is {asked!r}, which is no Python") from None
    if not found:
        raise ToolNotFound(f"triton: TEENY_ASYNC_TRITON_PYTHON is {asked!r}, which has no triton; install it there")
    return python, about, _real(found)


def _real(path: str) -> str:
    return os.path.realpath(path)


def _absolute(path: str) -> str:
    """As it is named, not what it links to: that is how an interpreter knows its environment."""
    return os.path.abspath(path)


def _parts(folder: Path, python: str) -> dict[str, Path]:
    """What a compile is made of: the interpreter, triton's own Python, its libraries, bitcode and assemblers."""
    backends = folder / "backends"
    files = [
        *folder.rglob("*.py"),
        *(folder / "_C").glob("libtriton.*"),
        *(path for kind in ("bc", "ll", "so") for path in backends.glob(f"*/lib/*.{kind}")),
        *backends.glob("nvidia/bin/ptxas*"),
    ]
    return {"python": Path(python), **{str(path.relative_to(folder)): path for path in sorted(files)}}


@functools.cache
def _worker() -> str:
    return Path(__file__).with_name("triton_worker.py").read_text(encoding="utf-8")


def _words(
    request: CompileRequest, target: Target, source: str, params: Mapping[str, ParamValue]
) -> tuple[list[str], str | None]:
    """(the worker's arguments for the kernel, why its result must not be kept)."""
    kernel, options = request.kernel, _HIP_OPTIONS if target.is_amd else _CUDA_OPTIONS
    words, reads = [], None
    if kernel.language == "ttir":
        params = check_options(f"kernel {kernel.name!r}", params, options)
    elif found := declared(source, kernel.entry_point):
        types, constants, params = settled(found, params, options)
        words = [f"kernel={found.name}", *(f"type:{name}={type}" for name, type in types.items())]
        words += [f"constant:{name}={json.dumps(value)}" for name, value in constants.items()]
        reads = found.reads
    words += [f"option:{name}={json.dumps(value)}" for name, value in sorted(params.items())]
    words += [f"option:ptx_version={target.ptx_version}"] if target.ptx_version else []
    return words, f"the source has {reads}: what it reads is not in the key" if reads else None


def _target_name(target: Target) -> str:
    if target.is_amd:
        return f"hip:{target.cpu}"
    number = re.fullmatch(r"sm_(\d+)a?", target.cpu or "")
    if number is None:
        raise RequestError(f"triton cannot aim at {target}; write sm_100 for sm_100a and its family")
    return f"cuda:{number[1]}"


def _metrics(outputs: Mapping[str, bytes], text: str) -> FrozenMap[Metric]:
    """Registers and spills of the binary; shared memory in bytes as it is asked for at launch."""
    values: dict[str, Metric] = {}
    if "cubin" in outputs:
        values.update(ptxas_info.metrics(text))
    for label in ("hsaco", "asm"):
        values.update(amd_info.of_output(outputs.get(label, b"")))
    values["shared"] = int(json.loads(outputs["json"]).get("shared") or 0)
    return FrozenMap(values)
