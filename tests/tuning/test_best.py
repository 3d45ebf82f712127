"""Which winner a program gets for the device that it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teeny_async.frozen import FrozenMap
from teeny_async.tuning import Verdict, load_best
from teeny_async.tuning.best import Winner, choose, files
from teeny_async.tuning.own_cpu import LEVELS, instruction_sets


def entry(target: str, resolved: str = "", triple: str = "x86_64-unknown-linux-gnu", **more: Any) -> dict[str, Any]:
    return {"target": target, "resolved": resolved or target, "triple": triple, "outputs": {"object": {}}, **more}


def own(entries: list[dict[str, Any]], *sets: str) -> str | None:
    found = choose(entries, [], "x86_64", True, sets)
    return None if found is None else str(found["target"])


def test_a_cpu_gets_only_what_it_is_known_to_run() -> None:
    native = entry("native@x86_64-unknown-linux-gnu", "znver5", needs=["avx2", "avx512f"])
    v3, v2, plain = (entry(name) for name in ("x86-64-v3", "x86-64-v2", "x86-64"))
    assert own([plain, native], "avx2", "avx512f", "fma") == native["target"]
    assert own([plain, native], "avx2") == "x86-64"
    assert own([native], "avx2") is None
    assert own([plain, v2, v3], *LEVELS["x86-64-v3"]) == "x86-64-v3"
    assert own([plain, v3, v2], *LEVELS["x86-64-v2"]) == "x86-64-v2"
    assert own([entry("znver5"), entry("x86-64", triple="aarch64-unknown-linux-gnu")], "avx2") is None
    assert own([entry("default", "")]) == "default"


@pytest.mark.parametrize(
    ("have", "device", "fits"),
    [
        *(("sm_80", "sm_86", True), ("sm_86", "sm_80", False), ("sm_80", "sm_90", False), ("sm_90a", "sm_90", True)),
        *(("sm_100a", "sm_103", False), ("sm_100f", "sm_103", True), ("sm_100f", "sm_120", False)),
    ],
)
def test_a_cubin_runs_on_later_ones_of_its_generation(have: str, device: str, fits: bool) -> None:
    cubin = entry(have, triple="nvptx64-nvidia-cuda")
    assert choose([cubin], [device], "x86_64", False, ()) == (cubin if fits else None)


def test_instruction_sets_are_read(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu vme sse4_2 avx2 hypervisor avx512_bf16\n\nprocessor\t: 1\n")
    assert instruction_sets(info) == {"sse4_2", "avx2", "avx512_bf16"}
    assert instruction_sets(tmp_path / "none") == frozenset()


def test_one_of_several_kernels_is_named(tmp_path: Path) -> None:
    winners = []
    for kernel in ("a", "b"):
        verdict = Verdict(
            kernel=kernel, target="sm_90", config=FrozenMap({"N": 1}), objective="size", status="ok", value=1.0
        )
        winners.append(
            Winner(verdict=verdict, resolved="sm_90", triple="nvptx64-nvidia-cuda", outputs={"ptx": kernel.encode()})
        )
    (tmp_path / "artifacts").mkdir()
    for name, data in files(winners).items():
        (tmp_path / name).write_bytes(data)
    with pytest.raises(LookupError, match="several kernels: name one of a, b"):
        load_best(tmp_path, device="sm_90")
    assert load_best(tmp_path, device="sm_90", kernel="b").artifact["ptx"] == b"b"
