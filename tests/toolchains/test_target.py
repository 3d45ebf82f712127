"""How targets are named, and which names are refused."""

from __future__ import annotations

import pickle
import runpy
from pathlib import Path
from typing import Any

import pytest

from teeny_async import CompileRequest, Kernel, RequestError, Target
from teeny_async.target import AMD_TRIPLE, NVIDIA_TRIPLE, host_triple, nearest
from teeny_async.target_aliases import ALIASES
from teeny_async.target_names import AARCH64, AMDGCN, PTX_MINIMUM, PTX_VERSIONS, RISCV64, X86_64

ARM = "aarch64-unknown-linux-gnu"
X86 = "x86_64-unknown-linux-gnu"
FORMS: dict[str, tuple[str | None, str, int | None, tuple[str, ...]]] = {
    "sm_90": ("sm_90", NVIDIA_TRIPLE, None, ()),
    "sm-90": ("sm_90", NVIDIA_TRIPLE, None, ()),
    "sm90": ("sm_90", NVIDIA_TRIPLE, None, ()),
    "90": ("sm_90", NVIDIA_TRIPLE, None, ()),
    " sm_90\n": ("sm_90", NVIDIA_TRIPLE, None, ()),
    "sm_90a": ("sm_90a", NVIDIA_TRIPLE, None, ()),
    "90a": ("sm_90a", NVIDIA_TRIPLE, None, ()),
    "sm_100f": ("sm_100f", NVIDIA_TRIPLE, None, ()),
    "120": ("sm_120", NVIDIA_TRIPLE, None, ()),
    "sm_120+ptx87": ("sm_120", NVIDIA_TRIPLE, 87, ()),
    "75+ptx63": ("sm_75", NVIDIA_TRIPLE, 63, ()),
    "90@nvptx64-nvidia-cuda": ("sm_90", NVIDIA_TRIPLE, None, ()),
    "default@nvptx64-nvidia-cuda": (None, NVIDIA_TRIPLE, None, ()),
    "default+ptx86@nvptx64-nvidia-cuda": (None, NVIDIA_TRIPLE, 86, ()),
    "gfx942": ("gfx942", AMD_TRIPLE, None, ()),
    "gfx90a": ("gfx90a", AMD_TRIPLE, None, ()),
    "gfx9-4-generic": ("gfx9-4-generic", AMD_TRIPLE, None, ()),
    "gfx1999": ("gfx1999", AMD_TRIPLE, None, ()),
    "znver4": ("znver4", X86, None, ()),
    "x86-64-v3": ("x86-64-v3", X86, None, ()),
    "znver4+avx512f": ("znver4", X86, None, ("+avx512f",)),
    "znver4+-avx512f+fma": ("znver4", X86, None, ("+fma", "-avx512f")),
    "neoverse-v2": ("neoverse-v2", ARM, None, ()),
    "neoverse-v2+sve2": ("neoverse-v2", ARM, None, ("+sve2",)),
    "sifive-x280": ("sifive-x280", "riscv64gc-unknown-linux-gnu", None, ()),
    "generic@aarch64-unknown-linux-gnu": ("generic", ARM, None, ()),
    "znver4@x86_64-linux-musl": ("znver4", "x86_64-linux-musl", None, ()),
    "apple-m1@aarch64-apple-macosx11.0": ("apple-m1", "aarch64-apple-macosx11.0", None, ()),
    "native": ("native", host_triple(), None, ()),
    "native-gpu": ("native", NVIDIA_TRIPLE, None, ()),
    "native@amdgcn-amd-amdhsa": ("native", AMD_TRIPLE, None, ()),
    "h100": ("sm_90", NVIDIA_TRIPLE, None, ()),
    "RTX5090+ptx87": ("sm_120", NVIDIA_TRIPLE, 87, ()),
    "mi300x": ("gfx942", AMD_TRIPLE, None, ()),
    "zen4+avx512f": ("znver4", X86, None, ("+avx512f",)),
    "graviton4": ("neoverse-v2", ARM, None, ()),
    "genoa@x86_64-linux-musl": ("znver4", "x86_64-linux-musl", None, ()),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form(name: str) -> None:
    target = Target.parse(name)
    assert (target.cpu, target.triple, target.ptx_version, target.features) == FORMS[name]


@pytest.mark.parametrize("name", [name for name in FORMS if name != "native"])
def test_a_name_reads_back(name: str) -> None:
    target = Target.parse(name)
    assert Target.parse(str(target)) == target


@pytest.mark.parametrize("name", ["sm_90", "sm_120+ptx87", "gfx942", "znver4+fma+-avx512f", f"generic@{ARM}"])
def test_short_names(name: str) -> None:
    assert str(Target.parse(name)) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sm_9", "did you mean sm_90"),
        ("znver9", "did you mean znver5, znver4, znver3"),
        ("neoverse-v9", "did you mean neoverse-v3, neoverse-v2, neoverse-v1"),
        ("gfx", "unknown target CPU 'gfx'"),
        ("qqq", "write cpu@triple to name the architecture yourself"),
        ("", "unknown target CPU ''"),
        ("generic", f"exists for every architecture: write generic@TRIPLE, as in generic@{host_triple()}"),
        ("default", "write default@TRIPLE"),
        ("@nvptx64-nvidia-cuda", "write CPU"),
        ("sm_90+", "write a name with its sign"),
        ("sm_90+a,+b", "write a name with its sign"),
        ("sm_90@nvptx64-nvidia-cuda+ptx86", "write CPU"),
        ("generic@../x", "write CPU"),
        ("znver4+ptx86", "only an NVIDIA target has a PTX version"),
        ("gfx942+ptx86", "only an NVIDIA target has a PTX version"),
        ("sm_90+ptx79", "PTX version 79 does not exist .* nearest: 77, 78, 80"),
        ("sm_120+ptx86", "sm_120 needs PTX version 87 or above; 86 cannot name it"),
        ("sm_90+ptx77", "sm_90 needs PTX version 78"),
    ],
)
def test_refused_names(name: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Target.parse(name)


@pytest.mark.parametrize(("cpu", "minimum"), PTX_MINIMUM.items())
def test_lowest_ptx_version(cpu: str, minimum: int) -> None:
    assert Target(cpu, ptx_version=minimum).ptx_version == minimum
    below = max(version for version in PTX_VERSIONS if version < minimum)
    with pytest.raises(RequestError, match=f"{cpu} needs PTX version {minimum}"):
        Target(cpu, ptx_version=below)


def test_a_ptx_version_of_the_future_is_taken() -> None:
    assert Target("sm_90", ptx_version=99).ptx_version == 99


@pytest.mark.parametrize("features", [("avx",), ("+",), ("",), ("+a b",), "+avx"])
def test_features_are_names_with_signs(features: Any) -> None:
    with pytest.raises(RequestError):
        Target("znver4", X86, features=features)


def test_features_have_no_order() -> None:
    assert Target("znver4", X86, features=["+b", "+a"]) == Target("znver4", X86, features=("+a", "+b"))


def test_kinds() -> None:
    nvidia, amd, cpu = Target.parse("sm_90a"), Target.parse("gfx942"), Target.parse("znver4")
    assert (nvidia.is_nvidia, nvidia.is_gpu, nvidia.arch, nvidia.base_cpu) == (True, True, "nvptx64", "sm_90")
    assert (amd.is_amd, amd.is_gpu, amd.arch, amd.base_cpu) == (True, True, "amdgcn", "gfx942")
    assert (cpu.is_gpu, cpu.arch, cpu.base_cpu) == (False, "x86_64", "znver4")


def test_with_ptx_version() -> None:
    assert Target.parse("sm_90").with_ptx_version(86) == Target.parse("sm_90+ptx86")
    assert Target.parse("sm_90+ptx86").with_ptx_version(None) == Target.parse("sm_90+ptx86")
    assert Target.parse("znver4").with_ptx_version(86) == Target.parse("znver4")
    with pytest.raises(RequestError):
        Target.parse("sm_120").with_ptx_version(86)


def test_a_request_takes_a_name() -> None:
    kernel = Kernel(name="k", source="", language="c")
    request = CompileRequest(kernel, "sm_90+ptx86")  # type: ignore[arg-type]  # the field is typed as what it becomes
    assert request.target == Target("sm_90", ptx_version=86)
    assert pickle.loads(pickle.dumps(request)) == request


def test_nearest_is_ordered_and_bounded() -> None:
    assert nearest("sm_91", PTX_MINIMUM) == ["sm_90", "sm_90a", "sm_89"]
    assert nearest("sm_70", PTX_MINIMUM)[0] == "sm_75"
    assert nearest("sm_119f", PTX_MINIMUM)[0] == "sm_120"
    assert len(nearest("sm_91", PTX_MINIMUM, count=2)) == 2
    assert nearest("qqq", PTX_MINIMUM) == []


def test_several_architectures_in_one() -> None:
    fat = Target.parse("sm_80+compute90+sm_90a+sm_80")
    assert fat == Target("sm_80", also=("sm_90a", "compute_90"))
    assert str(fat) == "sm_80+compute_90+sm_90a"
    assert Target.parse(str(fat)) == fat
    for text in ("znver4+sm_90", "default+sm_90@nvptx64-nvidia-cuda"):
        with pytest.raises(RequestError, match=r"write sm_80\+sm_90 or"):
            Target.parse(text)
    with pytest.raises(RequestError, match="'gfx942' cannot be added"):
        Target("sm_80", also=("gfx942",))
    with pytest.raises(RequestError, match="not one string"):
        Target("sm_80", also="sm_90")


def test_an_alias_is_no_name_of_a_compilers_and_leads_to_one() -> None:
    compilers = {*PTX_MINIMUM, *AMDGCN, *X86_64, *AARCH64, *RISCV64}
    assert not compilers & {*ALIASES}
    assert {*ALIASES.values()} - compilers == {"sm_70"}, "too old for CUDA 13, but not for LLVM"
    assert all(alias == alias.lower() for alias in ALIASES)
    with pytest.raises(RequestError, match="did you mean mi300x"):
        Target.parse("mi300")


def test_the_compilers_that_are_here_have_all_the_names() -> None:
    """A later one may have more, which `scripts/refresh_targets.py` then adds."""
    script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "refresh_targets.py"))
    lists = {"x86_64-linux-gnu": X86_64, "aarch64-linux-gnu": AARCH64, "riscv64-linux-gnu": RISCV64, AMD_TRIPLE: AMDGCN}
    assert {triple: ours - script["names"](triple) for triple, ours in lists.items()} == {key: set() for key in lists}
    minimum = script["ptx_minimum"]()
    assert {cpu: minimum.get(cpu) for cpu in PTX_MINIMUM} == PTX_MINIMUM
    assert {*PTX_VERSIONS} <= {*script["ptx_versions"]()}
