"""Asking a driver about its tool, here or where the compilers run.

A driver looks around with a `Host`, in synchronous calls. When the compilers run on other machines the driver
itself goes there and looks around on the spot; the answers come back. `Elsewhere` stands for those machines.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from teeny_async.target import Target
from teeny_async.toolchains.base import Driver, Host, Toolchain


@runtime_checkable
class Elsewhere(Protocol):
    """Other machines, as a planner sees them. Each method is the driver's own, run there; it raises the same."""

    async def find(self, driver: Driver) -> Toolchain: ...

    async def cpus(self, driver: Driver, toolchain: Toolchain, triple: str) -> frozenset[str] | None: ...

    async def native(self, driver: Driver, toolchain: Toolchain, target: Target) -> Target: ...


async def find(place: Host | Elsewhere, driver: Driver) -> Toolchain:
    """`Driver.find`, where the compilers run."""
    return await (place.find(driver) if isinstance(place, Elsewhere) else driver.find(place))


async def cpus(place: Host | Elsewhere, driver: Driver, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
    """`Driver.cpus`, where the compilers run."""
    if isinstance(place, Elsewhere):
        return await place.cpus(driver, toolchain, triple)
    return await driver.cpus(place, toolchain, triple)


async def native(place: Host | Elsewhere, driver: Driver, toolchain: Toolchain, target: Target) -> Target:
    """`Driver.native`, where the compilers run."""
    if isinstance(place, Elsewhere):
        return await place.native(driver, toolchain, target)
    return await driver.native(place, toolchain, target)
