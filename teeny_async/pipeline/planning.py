"""From a request to a plan: which tools, which actions, which key.

`Planner.plan` is synchronous and pure over what the planner has learned so far: the toolchains found,
the CPUs each knows, what "native" is. Where something is still to be learned it raises `Unlearned`,
`learn` finds it out (this may run a probe), and the plan is made again; so after the first request of a
kind no request waits for anything.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import anyio

from teeny_async.action import Action, Input
from teeny_async.errors import RequestError
from teeny_async.execution.probe import file_identity
from teeny_async.keys import CacheKey, Component, Explain, KeyStart, PartDigests, components
from teeny_async.model import CompileRequest
from teeny_async.target import Target, unknown_cpu
from teeny_async.toolchains import elsewhere
from teeny_async.toolchains.base import Driver, Host, Toolchain, ToolNotFound
from teeny_async.toolchains.elsewhere import Elsewhere
from teeny_async.toolchains.registry import candidates, driver_named, finisher_named

_KEPT_PLANS = 1024
"""Plans of the requests booked last that are kept until they are flown: a stream's, or a batch's of that size. Some
have 2 KB, beside the texts of their inputs."""

_KEPT_PATTERNS = 256


class Stage(NamedTuple):
    """One action of a plan and who runs and judges it."""

    driver: Driver
    toolchain: Toolchain
    action: Action


class Booking(NamedTuple):
    """What a request needs until its compile starts. The plan itself, which holds the kernel's text, is
    made again then, unless it was made just before: a hundred thousand waiting requests must not hold a hundred
    thousand texts.

    uncacheable: why the result must not be kept; None when it may. reads_files: the key is complete only
    together with what the compiler reads (see `teeny_async.closure`). target: resolved. toolchains: of each
    stage; one tuple for all requests that have the same.
    """

    key: CacheKey
    uncacheable: str | None
    reads_files: bool
    target: Target
    toolchains: tuple[Toolchain, ...]


class _Pattern(NamedTuple):
    """What requests have in common that differ in their kernels' texts alone: everything but the first inputs."""

    stages: tuple[Stage, ...]
    target: Target
    toolchains: tuple[Toolchain, ...]
    start: KeyStart

    def drawn(self, inputs: Sequence[Input]) -> _Drawn:
        return _Drawn(self, inputs, self.start.inputs(inputs))


class _Drawn(NamedTuple):
    """A request as its pattern and its own inputs; the action is put together when it is to run, which no hit needs.

    parts: of the key, which the inputs are.
    """

    pattern: _Pattern
    inputs: Sequence[Input]
    parts: Sequence[Component]

    def booking(self, explain: Explain) -> Booking:
        pattern = self.pattern
        action = pattern.stages[0].action
        key = pattern.start.key(self.parts, explain)
        return Booking(key, action.uncacheable, action.depfile is not None, pattern.target, pattern.toolchains)

    def stages(self) -> Sequence[Stage]:
        first, *others = self.pattern.stages
        return (first._replace(action=replace(first.action, inputs=self.inputs)), *others)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is needed to compile a request. target: resolved; never None, never "native". parts: of the key, which
    the inputs of the first stage are."""

    stages: Sequence[Stage]
    target: Target
    booking: Booking
    digests: PartDigests = field(repr=False, compare=False)
    parts: Sequence[Component] = field(repr=False, compare=False)

    def explain(self) -> dict[str, str]:
        """As the key's `explain`, which has to plan again."""
        return self.digests.explained(_runs(self.stages), self.parts)


class Unlearned(Exception):
    """The planner has not looked for a tool, or not asked it about a target (None: only the tool)."""

    def __init__(self, driver: Driver, target: Target | None) -> None:
        super().__init__(driver.name)
        self.driver = driver
        self.target = target


class Planner:
    """Plans requests for one session. on_found is told of each toolchain when it is found."""

    def __init__(self, host: Host | Elsewhere, on_found: Callable[[Toolchain], None]) -> None:
        self._host = host
        self._on_found = on_found
        self._toolchains: dict[Driver, Toolchain | str] = {}
        self._identities: dict[str, list[int]] = {}
        self._targets: dict[tuple[Driver, Target], Target | str] = {}
        self._teams: dict[tuple[Driver, str | None], tuple[Toolchain, ...]] = {}
        self._digests = PartDigests()
        self._patterns: dict[Hashable, _Pattern] = {}
        self._kept: dict[int, tuple[CompileRequest, _Drawn, Booking]] = {}
        self._learning: anyio.Lock | None = None

    async def prepare(self, request: CompileRequest) -> Plan:
        """A plan for a request, learning what is missing. Raises RequestError and ToolNotFound."""
        while True:
            try:
                return self.plan(request)
            except Unlearned as missing:
                await self.learn(missing)

    async def toolchain(self, driver: Driver) -> Toolchain:
        """The toolchain of a driver. Raises ToolNotFound."""
        if driver not in self._toolchains:
            await self.learn(Unlearned(driver, None))
        return self._known_toolchain(driver)

    async def learn(self, missing: Unlearned) -> None:
        """Find out what a plan was missing; callers that miss the same wait for one answer."""
        if self._learning is None:
            self._learning = anyio.Lock()
        driver, target = missing.driver, missing.target
        async with self._learning:
            if driver not in self._toolchains:
                self._toolchains[driver] = await self._find(driver)
            elif target is not None and (driver, target) not in self._targets:
                self._targets[driver, target] = await self._resolve(driver, target)

    def are_current(self, toolchains: Sequence[Toolchain]) -> bool:
        """Whether their executables are what they were when they were found: a system call for each."""
        return all(self._identities.get(tool.path) == file_identity(tool.path) for tool in toolchains)

    def forget_changed(self) -> None:
        """Forget the toolchains whose executables have changed, and all that they said; they are found anew."""
        changed = {
            driver
            for driver, tool in self._toolchains.items()
            if isinstance(tool, Toolchain) and not self.are_current([tool])
        }
        if changed:
            self._teams.clear()
            self._patterns.clear()
            self._kept.clear()
            self._toolchains = {driver: tool for driver, tool in self._toolchains.items() if driver not in changed}
            self._targets = {known: target for known, target in self._targets.items() if known[0] not in changed}

    async def _find(self, driver: Driver) -> Toolchain | str:
        try:
            found = await elsewhere.find(self._host, driver)
        except ToolNotFound as error:
            return str(error)
        self._identities[found.path] = file_identity(found.path)
        self._on_found(found)
        return found

    async def _resolve(self, driver: Driver, target: Target) -> Target | str:
        """The target as the compiler knows it, or what is wrong with it."""
        toolchain = self._known_toolchain(driver)
        try:
            if target.cpu == "native":
                return await elsewhere.native(self._host, driver, toolchain, target)
            if target.also and not driver.fat:
                raise RequestError(f"toolchain {driver.name} compiles for one processor at a time, not for {target}")
            if target.cpu is not None:
                known = await elsewhere.cpus(self._host, driver, toolchain, target.triple)
                for cpu in (target.cpu, *target.also):
                    if known is not None and cpu not in known:
                        raise unknown_cpu(cpu, known, f"{driver.name} ({target.triple})")
        except RequestError as error:
            return str(error)
        return target

    def book(self, request: CompileRequest) -> Booking:
        """As `plan`, for a request that may be flown soon."""
        drawn = self._drawn(request)
        booking = drawn.booking(_Again(self, request))
        if len(self._kept) >= _KEPT_PLANS:
            del self._kept[next(iter(self._kept))]
        self._kept[id(request)] = (request, drawn, booking)  # which keeps it alive, so that the id is its own
        return booking

    async def take(self, request: CompileRequest) -> Plan:
        """The plan of a request that was booked; made anew where it is no longer kept. Raises as `prepare` does."""
        kept = self._kept.pop(id(request), None)
        if kept is None:
            return await self.prepare(request)
        _, drawn, booking = kept
        return Plan(drawn.stages(), booking.target, booking, self._digests, drawn.parts)

    def plan(self, request: CompileRequest) -> Plan:
        """The plan by the first toolchain that is installed and takes the request.

        Raises RequestError (the first one's, when none takes it), ToolNotFound, Unlearned.
        """
        drawn = self._drawn(request)
        booking = drawn.booking(_Again(self, request))
        return Plan(drawn.stages(), booking.target, booking, self._digests, drawn.parts)

    def _drawn(self, request: CompileRequest) -> _Drawn:
        refused: RequestError | None = None
        missing: list[str] = []
        for driver in self._drivers(request):
            try:
                return self._draw(driver, request)
            except RequestError as error:
                refused = refused or error
            except ToolNotFound as error:
                missing.append(str(error))
        if refused is not None:
            raise refused
        raise ToolNotFound("; ".join(missing))

    def _drivers(self, request: CompileRequest) -> Sequence[Driver]:
        language = request.kernel.language
        if isinstance(request.toolchain, Driver):
            return (_that_takes(request.toolchain, request),)
        if request.toolchain == "auto":
            found: Sequence[Driver] = [driver for driver in candidates(language) if driver.offers(request)]
            if not found:
                raise RequestError(
                    f"kernel {request.kernel.name!r}: no toolchain compiles {language}; name one of yours"
                )
            return found
        return (_that_takes(driver_named(request.toolchain, language), request),)

    def _draw(self, driver: Driver, request: CompileRequest) -> _Drawn:
        toolchain = self._known_toolchain(driver)
        asked = request.target or driver.default_target(request.kernel)
        draft = driver.draft(request, toolchain) if driver.shares_plans else None
        if draft is None:
            pattern = self._new_pattern(driver, request, toolchain, asked)
            return pattern.drawn(pattern.stages[0].action.inputs)
        kernel = request.kernel
        # All that a driver may look at beside the text; the level as a text too, since True is no 1.
        level = (request.opt_level, str(request.opt_level))
        asks = (asked, request.emit, level, request.flags, request.log_level)
        name = (driver, asks, kernel.language, kernel.entry_point, kernel.include_dirs, draft.rest)
        known = self._patterns.get(name)
        if known is not None:
            return known.drawn(draft.inputs)
        if len(self._patterns) >= _KEPT_PATTERNS:
            self._patterns.clear()
        pattern = self._patterns[name] = self._new_pattern(driver, request, toolchain, asked)
        return pattern.drawn(draft.inputs)

    def _new_pattern(self, driver: Driver, request: CompileRequest, toolchain: Toolchain, asked: Target) -> _Pattern:
        target = self._known_target(driver, asked)
        action = driver.plan(request, target, toolchain)
        stages = [Stage(driver, toolchain, action)]
        second = driver.finish(request, target) if request.emit not in action.outputs else None
        if second:
            finisher = finisher_named(second)
            tool = self._known_toolchain(finisher)
            stages.append(Stage(finisher, tool, finisher.plan(request, target, tool)))
        tools = self._teams.get((driver, second))
        if tools is None:
            tools = self._teams[driver, second] = tuple(stage.toolchain for stage in stages)
        return _Pattern(tuple(stages), target, tools, KeyStart(_runs(stages), self._digests))

    def _known_toolchain(self, driver: Driver) -> Toolchain:
        known = self._toolchains.get(driver)
        if known is None:
            raise Unlearned(driver, None)
        if isinstance(known, str):
            raise ToolNotFound(known)
        return known

    def _known_target(self, driver: Driver, target: Target) -> Target:
        known = self._targets.get((driver, target))
        if known is None:
            raise Unlearned(driver, target)
        if isinstance(known, str):
            raise RequestError(known)
        return known


class _Again:
    """Makes the components of a request's key again. One object, where a partial of a method would be four: that
    counts when a hundred thousand of them wait."""

    __slots__ = ("_planner", "_request")

    def __init__(self, planner: Planner, request: CompileRequest) -> None:
        self._planner = planner
        self._request = request

    def __call__(self) -> Sequence[Component]:
        plan = self._planner.plan(self._request)
        return components(_runs(plan.stages), plan.digests)


def _runs(stages: Sequence[Stage]) -> list[tuple[Action, Toolchain]]:
    return [(stage.action, stage.toolchain) for stage in stages]


def _that_takes(driver: Driver, request: CompileRequest) -> Driver:
    """The driver, if it takes the request's language; else RequestError."""
    language = request.kernel.language
    if language not in driver.languages:
        takes = ", ".join(sorted(driver.languages)) or "no kernels by itself"
        raise RequestError(f"kernel {request.kernel.name!r}: toolchain {driver.name} takes {takes}, not {language}")
    return driver
