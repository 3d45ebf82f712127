"""Compiles on two Dask workers: that they run there, by whose compiler, and what is left when they end early."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from teeny_async import (
    Compiler,
    CompileRequest,
    CompileResult,
    DaskRunner,
    Kernel,
    RequestError,
    Target,
    compile_one_sync,
)
from teeny_async.cluster import dask_runner
from teeny_async.events import Finished
from teeny_async.execution.digests import FileDigests
from teeny_async.failures import FailureKind
from teeny_async.store.memory import MemoryStore
from tests.cli.kit import wait_until
from tests.conftest import BACKENDS
from tests.execution.kit import processes_below
from tests.pipeline.kit import FAST, script

from .conftest import Cluster
from .kit import VERSION, Versioned

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

WHERE = "echo $PPID > out #"
"""The compiler's parent: the supervisor of its worker."""


def compiler(cluster: Cluster, **options: Any) -> Compiler:
    return Compiler(**{"runner": DaskRunner(cluster.client), "store": MemoryStore(), "retry": FAST, **options})


def outputs(results: Sequence[CompileResult]) -> list[bytes]:
    return [result.artifact.outputs["object"] for result in results]


def set_environ(values: dict[str, str | None]) -> None:
    """Run in a worker, whose agent has not begun or asks anew: what its drivers will see."""
    from teeny_async.cluster.worker import agent

    environ: dict[str, str] = agent()._host.environ  # type: ignore[assignment]
    for name, value in values.items():
        environ.pop(name, None)
        if value is not None:
            environ[name] = value


async def test_compiles_run_on_the_workers_and_come_back(cluster: Cluster) -> None:
    requests = [script(f"echo {number} > out") for number in range(100)]
    async with compiler(cluster) as session:
        assert outputs(await session.compile_many(requests)) == [b"%d\n" % number for number in range(100)]
        supervisors = set(outputs(await session.compile_many([script(f"{WHERE} {number}") for number in range(20)])))
        [refused] = await session.compile_many([script("echo 'k.sh:1: error: no' >&2; exit 1")])
        assert session.stats.runs == 121
    assert len(supervisors) == 2
    assert refused.failure is not None
    assert refused.failure.kind is FailureKind.DIAGNOSTIC


async def test_the_next_run_finds_its_results_in_the_remote(cluster: Cluster, tmp_path: Path) -> None:
    requests = [script(f"echo {number} > out") for number in range(10)]
    sources = []
    for _ in range(2):
        async with compiler(cluster, remote=f"file://{tmp_path}/shared") as session:
            sources.append({result.source for result in await session.compile_many(requests)})
    assert sources == [{"compiled"}, {"cached"}]


async def test_a_limit_holds_over_there(cluster: Cluster) -> None:
    async with compiler(cluster) as session:
        [result] = await session.compile_many([script("sleep 1000 & sleep 1000", timeout=0.3)])
    assert result.failure is not None
    assert result.failure.kind is FailureKind.TIMEOUT
    assert processes_below(cluster.scratch) == []


async def test_a_cancelled_sweep_leaves_no_compiler(cluster: Cluster, tmp_path: Path) -> None:
    requests = [script(f"touch {tmp_path}/{number}; sleep 1000 & sleep 1000") for number in range(40)]
    async with compiler(cluster) as session, anyio.create_task_group() as group:
        group.start_soon(session.compile_many, requests)
        with anyio.fail_after(30):
            while len(list(tmp_path.iterdir())) < 4:
                await anyio.sleep(0.01)
        assert len(processes_below(cluster.scratch)) >= 4
        group.cancel_scope.cancel()
    assert [line for line in processes_below(cluster.scratch) if "sleep" in line] == []
    async with compiler(cluster) as session:  # what was cancelled before it came there does not run later
        await session.compile_many([script(f"{WHERE} {number}") for number in range(8)])
    assert len(list(tmp_path.iterdir())) <= 8
    with anyio.fail_after(10):  # nor does Dask hold anything for us
        while cluster.client.futures:
            await anyio.sleep(0.01)


KILLED = """
import os, sys, anyio
from distributed import Client
from teeny_async import DaskRunner, compile_many
from teeny_async.store.memory import MemoryStore
from tests.pipeline.kit import script
with Client(sys.argv[1]) as client:
    requests = [script(f"touch {sys.argv[2]}/{number}; sleep 1000 & sleep 1000") for number in range(10)]
    anyio.run(lambda: compile_many(requests, runner=DaskRunner(client), store=MemoryStore()))
"""


def test_a_client_that_is_killed_leaves_no_compiler(cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, cluster.client.scheduler.address, str(tmp_path)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 4, "the compilers to start")
    process.kill()
    process.wait()
    wait_until(lambda: not processes_below(cluster.scratch), "the compilers to end")
    assert len(list(tmp_path.iterdir())) == 4  # what was still queued has not run either


async def test_five_hundred_compiles_outlive_a_worker(cluster: Cluster) -> None:
    pids = cluster.client.run(os.getpid)
    ended = 0

    def kill_one(event: object) -> None:
        nonlocal ended
        ended += isinstance(event, Finished)
        if isinstance(event, Finished) and ended == 250:
            os.kill(min(pids.values()), signal.SIGKILL)

    slow = ["sleep 0.05;" if 240 <= number < 270 else "" for number in range(500)]  # so that it has some under way
    requests = [script(f"{sleep} echo {number} > out") for number, sleep in enumerate(slow)]
    async with compiler(cluster, on_event=kill_one) as session:
        results = await session.compile_many(requests)
    assert outputs(results) == [b"%d\n" % number for number in range(500)]
    again = [result for result in results if len(result.attempts) > 1]
    assert 1 <= len(again) <= 6
    assert all(result.attempts[0].kind is FailureKind.INFRA for result in again)
    cluster.client.wait_for_workers(2, timeout=30)  # its nanny starts another one


async def test_workers_with_different_compilers_share_no_key(cluster: Cluster) -> None:
    first, second = cluster.client.run(os.getpid)
    store = MemoryStore()
    request = CompileRequest(Kernel(name="k", source=WHERE, language="c"), Target("small"), toolchain=Versioned())
    found: list[CompileResult] = []
    for versions in (("1", None), ("2", "2"), (None, "1")):
        for worker, version in zip((first, second), versions, strict=True):
            cluster.client.run(set_environ, {VERSION: version}, workers=[worker])
        async with compiler(cluster, store=store) as session:
            found.append(await session.compile_result(request))
            many = await session.compile_many([*(_other(request, number) for number in range(10))])
            assert len(set(outputs(many))) == (2 if versions == ("2", "2") else 1)
    assert [result.source for result in found] == ["compiled", "compiled", "cached"]
    assert found[0].key != found[1].key
    assert found[0].key == found[2].key


def _other(request: CompileRequest, number: int) -> CompileRequest:
    # They differ in each session, so that none is cached.
    kernel = Kernel(name=f"k{number}", source=f"{WHERE} {number} {time.monotonic_ns()}", language="c")
    return CompileRequest(kernel, request.target, toolchain=request.toolchain)


async def test_targets_are_those_of_the_workers(cluster: Cluster) -> None:
    cluster.client.run(set_environ, {VERSION: "1"})
    request = CompileRequest(Kernel(name="k", source=WHERE, language="c"), Target("native"), toolchain=Versioned())
    async with compiler(cluster) as session:
        assert (await session.plan(request)).target == Target("large")
        with pytest.raises(RequestError, match="smal"):
            await session.plan(CompileRequest(request.kernel, Target("smal"), toolchain=Versioned()))
    cluster.client.run(set_environ, {VERSION: "blind"})
    async with compiler(cluster) as session:
        with pytest.raises(RequestError, match="cannot tell"):
            await session.plan(request)
    cluster.client.run(set_environ, {VERSION: None})
    async with compiler(cluster) as session:
        result = await session.compile_result(request)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.TOOL_MISSING
    assert "on 2 workers" in result.failure.message


@pytest.mark.parametrize("anyio_backend", BACKENDS[:1])  # what happens, happens in the client's loop
async def test_one_who_comes_later_works_along(cluster: Cluster) -> None:
    cluster.client.cluster.scale(1)
    with anyio.fail_after(30):
        while len(await anyio.to_thread.run_sync(cluster.client.nthreads)) > 1:
            await anyio.sleep(0.02)
    async with compiler(cluster) as session:
        await session.compile_many([script("echo 1 > out")])
        cluster.client.cluster.scale(2)
        supervisors: set[bytes] = set()
        with anyio.fail_after(30):
            while len(supervisors) < 2:
                supervisors |= set(outputs(await session.compile_many([_new(number) for number in range(8)])))
    assert len(supervisors) == 2


def _new(number: int) -> CompileRequest:
    return script(f"sleep 0.02; {WHERE} {number} {time.monotonic_ns()}")


@pytest.mark.parametrize("anyio_backend", BACKENDS[:2])  # it lives in the loop of its session, which is no trio
async def test_an_asynchronous_client_does_too(cluster: Cluster) -> None:
    from distributed import Client

    client: Any = await Client(cluster.client.scheduler.address, asynchronous=True, set_as_default=False)
    async with Compiler(runner=DaskRunner(client), store=MemoryStore()) as session:
        assert outputs(await session.compile_many([script(f"echo {n} > out") for n in range(9)]))[8] == b"8\n"
    await client.close()


def test_without_workers_a_compile_fails_and_says_so(cluster: Cluster) -> None:
    cluster.client.cluster.scale(0)
    while cluster.client.nthreads():
        time.sleep(0.02)
    runner = DaskRunner(cluster.client, patience=0.1)
    result = compile_one_sync(script("echo 1 > out"), runner=runner, store=MemoryStore())
    assert result.failure is not None
    assert "no worker for 0.1 s" in result.failure.message
    cluster.client.cluster.scale(2)
    cluster.client.wait_for_workers(2, timeout=30)


def test_files_that_are_not_the_same_here_are_noticed(tmp_path: Path) -> None:
    import hashlib

    header = tmp_path / "header.h"
    header.write_text("1")
    there = {str(header): hashlib.sha256(b"1").hexdigest()}
    digests = FileDigests()
    assert dask_runner.same_here(digests, there)
    assert not dask_runner.same_here(digests, {**there, str(tmp_path / "only-there.h"): "00"})
    assert not dask_runner.same_here(digests, {str(header): None})
    header.write_text("2")
    assert not dask_runner.same_here(digests, there)


async def test_what_makes_no_sense_is_refused(cluster: Cluster) -> None:
    from distributed import Client

    with pytest.raises(RequestError, match="jobs"):
        DaskRunner(cluster.client, jobs=0)
    client = Client(cluster.client.scheduler.address, set_as_default=False)
    runner = DaskRunner(client)
    client.close()
    with pytest.raises(RequestError, match="not connected"):
        DaskRunner(client)
    assert runner.jobs == 6
