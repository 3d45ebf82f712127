"""`Runner`: turns an `Action` into an `Exit`. The local one runs it under a supervisor."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from teeny_async.action import Action
from teeny_async.execution.supervisor.wire import Limits
from teeny_async.execution.tasks import ServiceGroup
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit, Stop, Usage

if TYPE_CHECKING:
    from teeny_async.execution.process import Supervised

OUTPUT_LIMIT = 1 << 30
"""Bytes of one output file; a larger one is treated as missing."""
GRACE = 2.0
"""Seconds from SIGTERM to SIGKILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What a run may take; None is no limit.

    wall: seconds from the start of the process. cpu: seconds of CPU, of its whole tree; it is looked at a few
    times a second, and on Linux only. grace: seconds from SIGTERM to SIGKILL.
    memory: bytes that it is expected to hold; no limit. grown: called in the event loop with what it holds,
    when a look finds more than that.
    """

    wall: float | None = None
    cpu: float | None = None
    grace: float = GRACE
    memory: int | None = None
    grown: Callable[[int], None] | None = None


class Runner(Protocol):
    """Where actions run. Used as an async context manager; leaving it ends all it runs."""

    async def run(self, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Exit:
        """Run an action to its end; `chained` are its inputs that come from an earlier stage.

        What goes wrong is in the Exit. A cancelled call returns once nothing of it runs any more.
        """

    async def __aenter__(self) -> Runner: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class RunnerElsewhere(Runner, Protocol):
    """A runner of other machines. host: what finds tools there; jobs: how many actions it takes at a time."""

    host: Any
    jobs: int


class LocalRunner:
    """Runs actions on this machine. The supervisor starts with the first action, so a run of hits needs none.

    scratch_dir: where the scratch folders go, an existing folder for temporary files.
    """

    def __init__(self, scratch_dir: str) -> None:
        self._scratch_dir = scratch_dir
        self._group: ServiceGroup | None = None
        self._supervised: Supervised | None = None

    async def __aenter__(self) -> LocalRunner:
        self._group = await ServiceGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        if self._supervised is not None:
            await self._supervised.close()
            self._supervised = None
        group, self._group = self._group, None
        await group.__aexit__(kind, error, trace)

    async def run(self, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Exit:
        from teeny_async.execution.process import Job, SupervisorLost  # what is cached needs no process, and no 15 ms

        job = Job(
            executable=action.executable,
            argv=action.argv,
            env=[*action.neutral.items(), *action.env.items()],
            inputs=[*((item.name, item.data()) for item in action.inputs), *chained.items()],
            mirror=action.mirror,
            outputs=(*action.outputs.values(), *([action.depfile] if action.depfile else [])),
            limits=Limits(
                wall=limits.wall or 0,
                cpu=limits.cpu or 0,
                grace=limits.grace,
                capture=action.capture_limit,
                output=OUTPUT_LIMIT,
                memory=limits.memory or 0,
            ),
            warm=action.warm,
            grown=limits.grown,
        )
        try:
            supervised = self._supervisor()
        except OSError as error:
            # Told apart from the same errors of the spawn, which say that the tool is missing.
            misleading = error.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC)
            return Exit(code=None, errno=errno.EIO if misleading else error.errno)
        try:
            reply = await supervised.run(job)
        except SupervisorLost:
            return Exit(code=None, stopped="lost")
        facts = reply.facts
        present = {label: data for label, data in zip(action.outputs, reply.outputs, strict=False) if data is not None}
        return Exit(
            code=None if facts.status == -1 else os.waitstatus_to_exitcode(facts.status),
            stopped=_STOPS[facts.stopped],
            stdout=reply.stdout,
            stderr=reply.stderr,
            dropped=facts.dropped,
            outputs=FrozenMap(present),
            depfile=reply.outputs[-1] if action.depfile and reply.outputs else None,
            errno=facts.errno or None,
            survivors=facts.survivors,
            scratch_full=bool(facts.scratch_full),
            unreaped=bool(facts.unreaped),
            usage=Usage(
                cpu_user=facts.cpu_user,
                cpu_system=facts.cpu_system,
                max_rss=facts.max_rss,
                peak=facts.peak,
                wall=facts.wall,
            ),
        )

    def _supervisor(self) -> Supervised:
        from teeny_async.execution.process import Supervised

        assert self._group is not None, "use the runner as an async context manager"
        if self._supervised is not None and self._supervised.lost:
            self._group.start(self._supervised.close)
            self._supervised = None
        if self._supervised is None:
            self._supervised = Supervised.start(self._scratch_dir, self._group)
        return self._supervised


_STOPS: tuple[Stop | None, ...] = (None, "timeout", "cpu_timeout", "cancelled")
"""By `Facts.stopped`, in the order of the supervisor's numbers."""
