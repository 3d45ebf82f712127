"""The workers of a Dask cluster: who is there, which tools they have, and the jobs under way on each.

Everything here runs in the loop of the Dask client. Each job is a Dask task pinned to one worker, which is chosen
here: so a job runs where the tool is the one of its key, and when its worker is lost that is one failed attempt,
told to us at once, and not a task that Dask quietly runs again (a kernel that kills workers would take down four).
Dask starts the tasks, moves the bytes, and counts the threads.

Each second the list of workers is asked for. One that has gone fails its jobs as "lost"; a new one is asked for
the tools that are in use, and joins the team of each that is the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from teeny_async.action import Action
from teeny_async.cluster import worker
from teeny_async.cluster.teams import Team, largest_team, least_loaded
from teeny_async.cluster.worker import Refusal, Report
from teeny_async.errors import RequestError
from teeny_async.execution.runner import RunLimits
from teeny_async.result import Exit
from teeny_async.target import Target
from teeny_async.toolchains.base import Driver, Toolchain, ToolNotFound

if TYPE_CHECKING:
    from distributed import Client, Future as DaskFuture

LOOK_EVERY = 1.0
"""Seconds between two looks at who is there."""
_ANSWER_WITHIN = 20.0
"""Seconds that ending jobs on a worker may take; one that says nothing for so long is as good as lost."""
LOST = Report(Exit(code=None, stopped="lost"), {})

logger = logging.getLogger("teeny_async")


@dataclass(eq=False, slots=True)
class Member:
    """A worker. jobs: under way there, by name; doomed: those that are to be ended there."""

    address: str
    threads: int
    jobs: dict[str, asyncio.Task[Report]] = field(default_factory=dict)
    doomed: list[str] = field(default_factory=list)
    ending: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_lost: bool = False


class Fleet:
    """See the module. patience: seconds that a job or a question waits for a worker that can take it."""

    def __init__(self, client: Client, patience: float) -> None:
        self._client = client
        self._patience = patience
        self._members: dict[str, Member] = {}
        self._teams: dict[Driver, Team] = {}
        self._changing = asyncio.Lock()
        """Held while who is there, or who has what, is found out."""
        self._watching: asyncio.Task[None] | None = None
        self._users = 0

    async def join(self) -> None:
        """A session begins."""
        self._users += 1
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def leave(self) -> None:
        """A session has ended, and its jobs with it."""
        self._users -= 1
        if not self._users and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    # Who is there

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001  # the scheduler is away for a moment, or for good
                logger.debug("teeny_async: cannot ask the Dask scheduler for its workers: %s", error)

    async def _look(self) -> None:
        async with self._changing:
            threads: dict[str, int] = await self._client.nthreads()
            for address in self._members.keys() - threads.keys():
                self._lose(self._members.pop(address))
            new = {name: Member(name, count) for name, count in threads.items() if name not in self._members}
            for driver, team in self._teams.items() if new else ():
                answers = await self._ask(list(new), worker.find_tool, driver)
                same = {name for name, answer in answers.items() if answer == team.toolchain}
                self._teams[driver] = team._replace(
                    workers=team.workers | same, others=team.others | (new.keys() - same)
                )
            self._members.update(new)

    def _lose(self, member: Member) -> None:
        member.is_lost = True
        for job in member.jobs.values():
            job.cancel()

    async def _somebody(self) -> None:
        """Returns once there is a worker, or when it has taken too long."""
        deadline = asyncio.get_running_loop().time() + self._patience
        await self._look()
        while not self._members and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(LOOK_EVERY / 4)
            await self._look()

    async def _ask(self, workers: list[str], function: Any, *args: object) -> dict[str, Any]:
        """Answers by worker, an exception where it could not be asked; outside the queue of tasks."""
        answers: dict[str, Any] = await self._client.run(function, *args, workers=workers, on_error="return")
        return answers

    # What a driver asks

    async def find(self, driver: Driver) -> Toolchain:
        """The tool of the largest team. Raises ToolNotFound."""
        await self._somebody()
        async with self._changing:
            workers = list(self._members)
            if not workers:
                raise ToolNotFound(f"{driver.name}: the Dask cluster had no worker for {self._patience:g} s")
            team = largest_team(driver.name, await self._ask(workers, worker.find_tool, driver))
            self._teams[driver] = team
        if team.others:
            logger.warning(
                "teeny_async: %d of %d workers do not have %s (%s), and compile nothing with it",
                *(len(team.others), len(workers), team.toolchain.name, team.toolchain.version),
            )
        return team.toolchain

    async def cpus(self, driver: Driver, toolchain: Toolchain, triple: str) -> frozenset[str] | None:
        """What one of the team says: the tool is the same on all."""
        workers = sorted(self._team_of(toolchain.path))[:1]
        [answer] = (await self._ask(workers, worker.ask_cpus, driver, toolchain, triple)).values() or [None]
        if isinstance(answer, Refusal):
            raise RequestError(answer.text)
        return answer if isinstance(answer, frozenset) else None

    async def native(self, driver: Driver, toolchain: Toolchain, target: Target) -> Target:
        """What all of the team say. Raises RequestError when they differ."""
        workers = sorted(self._team_of(toolchain.path))
        answers = list((await self._ask(workers, worker.ask_native, driver, toolchain, target)).values())
        for answer in answers:
            if isinstance(answer, Refusal):
                raise RequestError(answer.text)
        if not answers or any(answer != answers[0] for answer in answers):
            raise RequestError("the cluster's workers have different CPUs, so that 'native' is none: name the CPU")
        assert isinstance(answers[0], Target)
        return answers[0]

    def _team_of(self, path: str) -> list[str]:
        """The workers whose tool at this path is the one that was found there."""
        teams = [team for team in self._teams.values() if team.toolchain.path == path]
        return [name for name in self._members if all(name in team.workers for team in teams)]

    # Jobs

    async def run(self, job: str, action: Action, chained: Mapping[str, bytes], limits: RunLimits) -> Report:
        """Run an action on a worker of the team. A cancelled call returns once nothing of it runs any more."""
        member = await self._member_for(action.executable)
        if member is None:
            return LOST
        future: DaskFuture[Report] = self._client.submit(
            *(worker.run_job, job, action, chained, limits),
            key=job,
            workers=[member.address],
            allow_other_workers=False,
            pure=False,
        )
        task = member.jobs[job] = asyncio.create_task(_answer(future))
        try:
            await asyncio.wait({task})
            if task.cancelled():
                await self._forget(future)
                return LOST
            return task.result()
        except asyncio.CancelledError:
            await self._end(member, job, future)
            raise
        finally:
            task.cancel()
            del member.jobs[job]
            future.release()

    async def _member_for(self, path: str) -> Member | None:
        """The least loaded one that has the tool; None when there is none for too long."""
        deadline = asyncio.get_running_loop().time() + self._patience
        while True:
            members = [self._members[name] for name in self._team_of(path)]
            chosen = least_loaded({member.address: (len(member.jobs), member.threads) for member in members})
            if chosen is not None:
                return self._members[chosen]
            if asyncio.get_running_loop().time() > deadline:
                return None
            await asyncio.sleep(LOOK_EVERY / 4)

    async def _forget(self, future: DaskFuture[Report]) -> None:
        """Have Dask drop the task: it would wait for a worker of the same address."""
        with contextlib.suppress(Exception):
            await self._client.cancel([future])

    async def _end(self, member: Member, job: str, future: DaskFuture[Report]) -> None:
        """End a job wherever it is: in the scheduler, on its way, or running. Many at once take one message."""
        await self._forget(future)
        member.doomed.append(job)
        async with member.ending:
            if job not in member.doomed or member.is_lost:
                return
            jobs, member.doomed = member.doomed, []
            with contextlib.suppress(Exception):  # what cannot be reached ends its compilers itself
                await asyncio.wait_for(self._ask([member.address], worker.cancel_jobs, jobs), _ANSWER_WITHIN)


async def _answer(future: DaskFuture[Report]) -> Report:
    """A task's result; LOST when Dask has given it up."""
    from distributed import KilledWorker

    try:
        report: Report = await future
    except (KilledWorker, OSError, CancelledError):  # OSError: a connection; CancelledError: Dask's own of a task
        return LOST
    return report
