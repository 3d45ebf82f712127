"""`best.json`: the winners of a run with their artifacts, and `load_best`, which needs no compiler.

    <run>/best.json                    the winner of each kernel on each target
    <run>/artifacts/<digest>.<label>   its outputs, checked by their digest when they are read

    best = load_best("run")                        # for the device that this program runs on
    best = load_best("run", device="sm_90")
    module = load(best.artifact["cubin"])

A device gets the winner for its own architecture. Where there is none, a CUDA device may take one of the same
generation with a smaller number (NVIDIA: a cubin for 8.0 runs on 8.6), or the PTX of any smaller one. A CPU takes
what was compiled for "native" where it has the instruction sets of that machine, and what any CPU or one of an
x86-64 level within it runs; code for another CPU by name is loaded only when it is asked for.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teeny_async.errors import RequestError
from teeny_async.frozen import FrozenMap
from teeny_async.tuning.own_cpu import LEVELS, instruction_sets
from teeny_async.tuning.verdict import SCHEMA, Verdict

NAME = "best.json"
FOLDER = "artifacts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """A winner. resolved: the target with nothing left open. artifact: label -> bytes. verdict: how it was found."""

    kernel: str
    target: str
    resolved: str
    config: Mapping[str, Any]
    value: float
    objective: str
    artifact: Mapping[str, bytes]
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """What `write` is given. tied: configurations that are as good. outputs: label -> bytes."""

    verdict: Verdict
    resolved: str
    triple: str
    outputs: Mapping[str, bytes]
    tied: int = 0


def files(winners: Iterable[Winner]) -> dict[str, bytes]:
    """What to write into a run's folder: name -> content."""
    contents: dict[str, bytes] = {}
    entries = []
    for winner in winners:
        outputs = {}
        for label, data in winner.outputs.items():
            digest = hashlib.sha256(data).hexdigest()
            name = f"{FOLDER}/{digest[:24]}.{re.sub(r'[^a-z0-9]', '_', label)}"
            contents[name] = data
            outputs[label] = {"file": name, "sha256": digest, "bytes": len(data)}
        entries.append({**_entry(winner), "outputs": outputs})
    contents[NAME] = json.dumps({"schema": SCHEMA, "best": entries}, indent=1).encode() + b"\n"
    return contents


def _entry(winner: Winner) -> dict[str, Any]:
    verdict = winner.verdict
    return {
        "kernel": verdict.kernel,
        "target": verdict.target,
        "resolved": winner.resolved,
        "triple": winner.triple,
        "config": dict(verdict.config),
        "objective": verdict.objective,
        "estimate": verdict.estimate,
        "value": verdict.value,
        "unit": verdict.goal.unit,
        "tied": winner.tied,
        # Code for "native" needs what the machine has that it was compiled on.
        "needs": sorted(instruction_sets()) if verdict.target.startswith("native") else [],
        "verdict": verdict.to_dict(),
    }


def load_best(path: str | Path, device: str | None = None, kernel: str | None = None) -> Best:
    """The winner for a device, with its artifact. path: a run's folder, or its best.json.

    device: "sm_90", "gfx942", "znver4", a target as it was tuned for; None is what this program runs on: the
    first CUDA device if there is one that a winner is for, else this CPU: then only a winner that is known to run on
    it is taken. kernel: which one, where the run had several.

    Raises RequestError for a file that is none of ours or was changed, LookupError when no winner fits the device
    (it lists those there are).
    """
    path = Path(path)
    path = path / NAME if path.is_dir() else path
    entries = [entry for entry in read_entries(path) if kernel in (None, entry["kernel"])]
    kernels = dict.fromkeys(entry["kernel"] for entry in entries)
    if len(kernels) > 1:
        raise LookupError(f"{path} has several kernels: name one of {', '.join(kernels)}")
    entry = choose(
        entries,
        [device] if device is not None else own_devices(),
        platform.machine(),
        device is None,
        instruction_sets(),
    )
    if entry is None:
        known = ", ".join(f"{entry['kernel']} for {entry['target']}" for entry in entries) or "nothing"
        raise LookupError(f"{path}: no winner for {device or 'this machine'}; it has {known}")
    outputs = {label: _content(path.parent / output["file"], output) for label, output in entry["outputs"].items()}
    return Best(
        kernel=entry["kernel"],
        target=entry["target"],
        resolved=entry["resolved"],
        config=FrozenMap(entry["config"]),
        value=entry["value"],
        objective=entry["objective"],
        artifact=FrozenMap(outputs),
        verdict=Verdict.from_dict(entry["verdict"]),
    )


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The winners in a best.json, as plain data. Raises RequestError."""
    try:
        data = json.loads(path.read_bytes())
        if data["schema"] > SCHEMA:
            raise RequestError(f"{path} is of version {data['schema']}; this teeny_async reads up to {SCHEMA}")
        return list(data["best"])
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise RequestError(f"{path} is no best.json of a tuning run") from None


def choose(
    entries: Iterable[dict[str, Any]], devices: Iterable[str], machine: str, own: bool, sets: Collection[str]
) -> dict[str, Any] | None:
    """The entry for the first of `devices` that has one. own: this machine's CPU, with its instruction sets, will do
    as well: with code for "native" first, and then for the largest of the CPUs that are known to be within it."""
    entries = list(entries)
    for device in devices:
        exact = [entry for entry in entries if device in _names(entry)]
        near = [entry for entry in entries if _runs_on(entry, device)]
        for found in (exact, sorted(near, key=lambda entry: -_sm(_cpu(entry["resolved"])))):
            if found:
                return found[0]
    if own:
        local = [entry for entry in entries if _arch(entry) == machine and _is_within(entry, sets)]
        local.sort(key=lambda entry: (not entry["target"].startswith("native"), -len(_needs(entry) or ())))
        return local[0] if local else None
    return None


def _names(entry: Mapping[str, Any]) -> tuple[str, ...]:
    target, resolved = entry["target"], entry["resolved"]
    return target, target.partition("@")[0], resolved, _cpu(resolved)


def own_devices() -> list[str]:
    """`sm_...` of the first CUDA device, by the driver itself; empty where there is none."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return []
    for value, attribute in ((major, 75), (minor, 76)):  # COMPUTE_CAPABILITY_MAJOR, _MINOR
        if cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return []
    return [f"sm_{major.value}{minor.value}"]


def _is_within(entry: Mapping[str, Any], sets: Collection[str]) -> bool:
    needs = _needs(entry)
    return needs is not None and set(needs) <= set(sets)


def _needs(entry: Mapping[str, Any]) -> Sequence[str] | None:
    """Instruction sets that a CPU must have for it; None where nobody knows."""
    if entry["target"].startswith("native"):
        needs: Sequence[str] | None = entry.get("needs", ())
        return needs
    name = _cpu(entry["resolved"])
    return LEVELS.get("generic" if entry["target"] == "default" else name)


def _runs_on(entry: Mapping[str, Any], device: str) -> bool:
    have, want = _cpu(entry["resolved"]), _sm(device)
    if not want or not _sm(have) or _sm(have) > want:
        return False
    if have.endswith("a"):
        return _sm(have) == want
    return ("ptx" in entry["outputs"] and not have.endswith("f")) or _sm(have) // 10 == want // 10


def _sm(name: str) -> int:
    match = re.fullmatch(r"sm_(\d+)[af]?", name)
    return int(match[1]) if match else 0


def _cpu(target: str) -> str:
    return target.partition("@")[0].partition("+")[0]


def _arch(entry: Mapping[str, Any]) -> str:
    return str(entry["triple"]).partition("-")[0]


def _content(path: Path, output: Mapping[str, Any]) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}") from None
    if hashlib.sha256(data).hexdigest() != output["sha256"]:
        raise RequestError(f"{path} was changed since the run wrote it")
    return data
