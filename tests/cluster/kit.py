"""Toolchains for workers in other processes: they are imported there by name."""

from __future__ import annotations

from teeny_async import CompileRequest, RequestError, Target
from teeny_async.action import Action
from teeny_async.toolchains.base import Host, Toolchain, ToolNotFound
from tests.pipeline.kit import Shell

VERSION = "TEST_COMPILER_VERSION"


class Versioned(Shell):
    """A compiler whose contents the worker's environment names; none where it names none."""

    name = "versioned"

    async def find(self, host: Host) -> Toolchain:
        version = host.environ.get(VERSION)
        if version is None:
            raise ToolNotFound("versioned: not installed")
        return Toolchain(name=self.name, path="/bin/sh", version=version, fingerprint=version)

    async def cpus(self, host: Host, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        return frozenset({"small", "large"})

    async def native(self, host: Host, toolchain: Toolchain, target: Target) -> Target:
        if toolchain.version == "blind":
            raise RequestError("versioned cannot tell")
        return Target("large")

    def plan(self, request: CompileRequest, target: Target, toolchain: Toolchain) -> Action:
        return super().plan(request, target, toolchain)
