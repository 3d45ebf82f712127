"""What clang is asked and told, whether it is zig's or one from PATH."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from teeny_async.target import Target, host_triple
from teeny_async.toolchains.base import Host


def triple_of(triple: str) -> str:
    """Clang's spelling of a triple: it knows no riscv64gc."""
    return triple.replace("riscv64gc", "riscv64")


def cpu_flag(target: Target) -> str:
    return "-march" if target.is_nvidia or target.arch in ("x86_64", "i686") else "-mcpu"


def feature_args(target: Target) -> list[str]:
    return [word for feature in target.features for word in ("-Xclang", "-target-feature", "-Xclang", feature)]


async def cpus(host: Host, command: Sequence[str], triple: str) -> frozenset[str] | None:
    """The CPU names that are really taken for a triple.

    --print-supported-cpus promises names that are then refused; the complaint about a bad one does not.
    """
    argv = [*command, "-target", triple_of(triple), "-nogpulib", "-fsyntax-only"]
    probe = await host.run([*argv, "-Xclang", "-target-cpu", "-Xclang", "?", "-x", "c", "/dev/null"])
    listed = re.search(r"valid target CPU values are: (.*)", probe.text)
    if listed is None:
        return None
    names = frozenset(listed[1].split(", "))
    return frozenset(name for name in names if name.startswith("sm_")) if triple.startswith("nvptx") else names


async def native(host: Host, command: Sequence[str], target: Target) -> Target | None:
    """`target` for this machine's CPU and its features; None when clang does not know it, or it is another machine's."""
    if target.triple != host_triple():
        return None
    argv = [*command, "-target", triple_of(target.triple), f"{cpu_flag(target)}=native"]
    # Not remembered: the same file answers differently on another machine.
    probe = await host.run([*argv, "-x", "c", "-c", "/dev/null", "-###"], remember=False)
    cpu = re.search(r'"-target-cpu" "([^"]+)"', probe.text)
    if cpu is None:
        return None
    features = re.findall(r'"-target-feature" "([^"]+)"', probe.text)
    return replace(target, cpu=cpu[1], features=tuple({*features, *target.features}))
