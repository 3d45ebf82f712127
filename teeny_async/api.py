"""The public edge: sessions with defaults from the environment, one-shot calls, synchronous ones."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Literal, TypedDict, Unpack

from teeny_async.caching import meeting_place, store_for
from teeny_async.errors import RequestError
from teeny_async.execution.machine import available_cpus, memory_left, memory_size
from teeny_async.execution.probe import MachineHost, ProbeMemory
from teeny_async.execution.runner import LocalRunner, Runner, RunnerElsewhere
from teeny_async.model import CompileRequest
from teeny_async.pipeline.retry import RetryPolicy
from teeny_async.pipeline.rules import Mode, Rules, Unkeyable
from teeny_async.pipeline.session import OnEvent, Session
from teeny_async.result import CompileResult
from teeny_async.settings import Settings
from teeny_async.store.base import Store
from teeny_async.sync import run_sync

DEFAULT_TIMEOUT = 600.0
"""Wall seconds of one compile where nothing else is said: nothing hangs for ever."""

SLOW_AFTER = 60.0
"""Seconds after which a compile is told of as slow, where nothing else is said."""

WAIT_FOR_OTHERS = 60.0
"""Seconds for which the result of another process is waited for, where nothing else is said."""

Backend = Literal["asyncio", "trio"]

_probes = ProbeMemory()


class CompilerOptions(TypedDict, total=False):
    """The keyword arguments of `Compiler`, for the calls that pass them on: a type checker knows them."""

    store: Store | str | os.PathLike[str] | None
    shared_caches: Sequence[str | os.PathLike[str]] | None
    remote: Store | str | None
    remote_read_only: bool | None
    jobs: int | None
    memory_limit: int | str | None
    retry: RetryPolicy | None
    timeout: float | None
    cpu_timeout: float | None
    adaptive_timeout: float | None
    slow_after: float | None
    failure_ttl: float | None
    retry_failed: bool
    wait_for_others: float | None
    on_event: OnEvent | None
    mode: Mode
    unkeyable: Unkeyable
    runner: Runner | None
    settings: Settings | None


class Compiler(Session):
    """A compile session.

        async with Compiler() as compiler:
            artifact = await compiler.compile(request)
            results = await compiler.compile_many(requests)

    store: a `Store`, or the folder of one; None is the user's own cache folder (TEENY_ASYNC_CACHE_DIR).
    shared_caches: folders that are looked into before that one, and never written to: a cache that was shipped;
        None is what TEENY_ASYNC_SHARED_CACHES lists.
    remote: a store that machines share, asked after `store` and written to in the background: a `RemoteStore`, or
        a URL for one (needs the extra `remote`); None is TEENY_ASYNC_REMOTE, unless `store` is a `Store`.
    remote_read_only: write nothing there; None is TEENY_ASYNC_REMOTE_READ_ONLY. Not for a `Store` as `remote`.
    jobs: compilers at a time; None is the CPUs this process may use.
    memory_limit: bytes that compilers may be expected to hold together ("2GiB", or a number); None is what
        the machine and its control groups leave. What each will hold is learned from those before it.
    retry: see `RetryPolicy`. timeout: wall seconds of a run, where the request sets none; None is no limit.
    cpu_timeout: the same in seconds of CPU, of a compiler and all its children (Linux).
    adaptive_timeout: a factor; a run may also take no longer than so many times what nine of ten compiles by
        its toolchain for its target took, in this and earlier sessions, once there are enough of them; never
        less than 10 s.
    slow_after: seconds after which a compile that still runs is told of, by an event; None: never.
    failure_ttl: seconds for which a refusal by the compiler is remembered; None is a week (a day for a crash
        that came twice), 0 is not at all. retry_failed: compile again what is remembered as failed.
    wait_for_others: seconds to wait for another process of this user that compiles the same into the same cache
        folder, before it is compiled here as well; None: as long as it takes, 0: not at all.
    on_event: called with each event of `teeny_async.events`, in the event loop; must not block.
    mode: "normal"; "cached_only": a miss is a failure that names the nearest entry, nothing is
        compiled, and the folder is neither written to nor locked; "refresh": compile and overwrite;
        "no_cache": neither read nor write the store.
    unkeyable: what to do with a request whose key would not cover all that the compiler reads (`__TIME__`, a flag
        that reads a file): "run" it each time, with the reason in `CompileResult.uncached`, or "refuse" it with
        RequestError before anything starts. What turns out only while it is compiled is never refused.
    runner: where compilers run; None is this machine, `DaskRunner` a cluster.
    settings: what to take for the environment; None is the process's own.

    Raises RequestError for a value that makes no sense. Opening it raises CacheError for a cache folder
    that must not be trusted.
    """

    def __init__(
        self,
        *,
        store: Store | str | os.PathLike[str] | None = None,
        shared_caches: Sequence[str | os.PathLike[str]] | None = None,
        remote: Store | str | None = None,
        remote_read_only: bool | None = None,
        jobs: int | None = None,
        memory_limit: int | str | None = None,
        retry: RetryPolicy | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
        cpu_timeout: float | None = None,
        adaptive_timeout: float | None = None,
        slow_after: float | None = SLOW_AFTER,
        failure_ttl: float | None = None,
        retry_failed: bool = False,
        wait_for_others: float | None = WAIT_FOR_OTHERS,
        on_event: OnEvent | None = None,
        mode: Mode = "normal",
        unkeyable: Unkeyable = "run",
        runner: Runner | None = None,
        settings: Settings | None = None,
    ) -> None:
        if mode not in ("normal", "cached_only", "refresh", "no_cache"):
            raise RequestError(f'mode is "normal", "cached_only", "refresh" or "no_cache", not {mode!r}')
        settings = settings or Settings.from_environ(os.environ)
        local = runner or LocalRunner(settings.scratch_dir)
        super().__init__(
            runner=local,
            host=local.host if isinstance(local, RunnerElsewhere) else MachineHost(settings.environ, local, _probes),
            store=store_for(store, shared_caches, mode, settings, remote=remote, remote_read_only=remote_read_only),
            rules=Rules(
                jobs=_jobs(jobs, runner),
                retry=retry or RetryPolicy(),
                mode=mode,
                timeout=timeout,
                cpu_timeout=cpu_timeout,
                adaptive_timeout=adaptive_timeout,
                slow_after=slow_after,
                memory_limit=None if memory_limit is None else memory_size(memory_limit),
                memory_left=memory_left if runner is None else None,
                failure_ttl=failure_ttl,
                retry_failed=retry_failed,
                wait_for_others=wait_for_others,
                unkeyable=unkeyable,
            ),
            on_event=on_event,
            runtime=meeting_place(settings),
        )

    async def __aenter__(self) -> Compiler:
        await super().__aenter__()
        return self


async def compile_many(
    requests: Iterable[CompileRequest], *, fail_fast: bool = False, **options: Unpack[CompilerOptions]
) -> list[CompileResult]:
    """Compile requests (a list, a `Sweep`, any iterable) and return their results in order.

    Failures are values: look at `result.ok`, or take `result.artifact`, which raises. fail_fast: raise the
    first failure instead and cancel the rest. `options` are those of `Compiler`.

    Raises RequestError, before any compiler starts, when a request cannot be compiled as it stands.
    """
    async with Compiler(**options) as compiler:
        return await compiler.compile_many(requests, fail_fast=fail_fast)


async def compile_one(request: CompileRequest, **options: Unpack[CompilerOptions]) -> CompileResult:
    """Compile one request: `compile_many` for one. `.artifact` raises the failure, if there is one."""
    async with Compiler(**options) as compiler:
        return await compiler.compile_result(request)


def compile_many_sync(
    requests: Iterable[CompileRequest],
    *,
    backend: Backend = "asyncio",
    fail_fast: bool = False,
    **options: Unpack[CompilerOptions],
) -> list[CompileResult]:
    """`compile_many` for code that is not async. It works in a notebook too, beside its running loop.

    backend: "asyncio" or "trio". Ctrl-C cancels the compiles and raises KeyboardInterrupt.
    """

    async def call() -> list[CompileResult]:
        return await compile_many(requests, fail_fast=fail_fast, **options)

    return run_sync(call, backend)


def compile_one_sync(
    request: CompileRequest, *, backend: Backend = "asyncio", **options: Unpack[CompilerOptions]
) -> CompileResult:
    """`compile_one` for code that is not async; see `compile_many_sync`."""

    async def call() -> CompileResult:
        return await compile_one(request, **options)

    return run_sync(call, backend)


def _jobs(jobs: int | None, runner: Runner | None) -> int:
    cpus = runner.jobs if isinstance(runner, RunnerElsewhere) else available_cpus()
    if jobs is None:
        return cpus
    if jobs < 1:
        raise RequestError(f"jobs is a number of compilers, 1 or more, not {jobs!r}")
    if jobs > cpus and not isinstance(runner, RunnerElsewhere):
        warnings.warn(f"jobs={jobs} is more than the {cpus} CPUs this process may use", stacklevel=3)
    return jobs
