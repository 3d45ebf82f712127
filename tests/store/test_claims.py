"""Claims: one process at a key at a time, and nobody is held up by the dead, the hung, or a bad folder."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

import teeny_async
from teeny_async.store.claims import ClaimedKey, Claims, Holder

from .kit import Faults, digest

pytestmark = pytest.mark.anyio

ROOT = Path(teeny_async.__file__).parents[1]
HOLD = """
import sys
sys.path.insert(0, sys.argv[1])
from teeny_async.store.claims import Claims
held = Claims(sys.argv[2]).try_claim(sys.argv[3])
print(type(held).__name__, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    return tmp_path / "claims"


@pytest.fixture
def holder(meeting: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds key 1 until its input ends."""
    command = [sys.executable, "-c", HOLD, str(ROOT), str(meeting), digest(1)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ClaimedKey\n"
        yield process
        process.kill()


def files(meeting: Path) -> list[str]:
    """The keys that are held, as others see them."""
    return sorted(path.name for path in meeting.glob("*.claim"))


@pytest.fixture(params=["names", "no names"])
def names(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With second names for a file, and on a file system that has none."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    if request.param == "no names":
        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("names")
async def test_a_free_key_is_had_at_once_and_leaves_nothing(meeting: Path) -> None:
    claims = Claims(meeting)
    async with claims.claim(digest(1)) as claim:
        assert claim.how == "free"
        assert not claim.look_again
        assert len(files(meeting)) == 1
    assert files(meeting) == []
    claims.close()
    assert os.listdir(meeting) == []
    assert meeting.stat().st_mode & 0o777 == 0o700


async def test_claims_one_after_another_make_one_file(meeting: Path) -> None:
    claims = Claims(meeting)
    made = set()
    for number in range(5):
        async with claims.claim(digest(number)) as claim:
            assert claim.how == "free"
            [path] = meeting.glob("*.claim")
            made.add(path.stat().st_ino)
            assert isinstance(Claims(meeting).try_claim(digest(number)), Holder)
        async with Claims(meeting).claim(digest(number)) as claim:
            assert claim.how == "free"
    assert len(made) == 1


async def test_some_files_are_kept_and_not_as_many_as_there_were_claims(meeting: Path) -> None:
    claims = Claims(meeting)
    taken = [claims.try_claim(digest(number)) for number in range(100)]
    assert len(files(meeting)) == 100
    for claimed in taken:
        assert isinstance(claimed, ClaimedKey)
        claimed.release()
    assert files(meeting) == []
    assert 0 < len(os.listdir(meeting)) < 100
    claims.close()
    assert os.listdir(meeting) == []


async def test_a_name_that_cannot_be_removed_does_not_stay_locked(
    meeting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Claims(meeting).try_claim(digest(1))
    assert isinstance(taken, ClaimedKey)

    def refuse(path: object) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        taken.release()
    assert isinstance(Claims(meeting).try_claim(digest(1)), ClaimedKey)


@pytest.mark.usefixtures("names")
async def test_who_waits_is_told_who_has_it_and_gets_it_next(meeting: Path) -> None:
    claims, seen = Claims(meeting), list[Holder]()
    taken = Claims(meeting).try_claim(digest(1))
    assert isinstance(taken, ClaimedKey)
    told = anyio.Event()

    def on_wait(holder: Holder) -> None:
        seen.append(holder)
        told.set()

    async with anyio.create_task_group() as group:

        async def let_go() -> None:
            await told.wait()
            taken.release()

        group.start_soon(let_go)
        async with claims.claim(digest(1), on_wait=on_wait) as claim:
            assert (claim.how, claim.look_again) == ("waited", True)
            assert isinstance(Claims(meeting).try_claim(digest(1)), Holder)
    assert [holder.pid for holder in seen] == [os.getpid()]
    assert seen[0].since is not None
    assert files(meeting) == []


async def test_patience_ends_and_the_holder_keeps_it(meeting: Path, holder: subprocess.Popen[str]) -> None:
    async with Claims(meeting).claim(digest(1), patience=0.05) as claim:
        assert (claim.how, claim.look_again) == ("late", True)
        assert claim.holder is not None
        assert claim.holder.pid == holder.pid
    assert isinstance(Claims(meeting).try_claim(digest(1)), Holder)


async def test_a_killed_holder_costs_nothing(meeting: Path, holder: subprocess.Popen[str]) -> None:
    assert isinstance(Claims(meeting).try_claim(digest(1)), Holder)
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    async with Claims(meeting).claim(digest(1)) as claim:
        assert claim.how == "free"
    assert files(meeting) == []


async def test_a_killed_holders_file_is_swept_when_it_is_old(meeting: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    claims = Claims(meeting)
    assert claims.sweep() == 0
    [left] = meeting.glob("*.claim")
    os.utime(left, (time.time() - 100, time.time() - 100))
    assert claims.sweep() == 1  # its own name, which nobody reuses
    assert os.listdir(meeting) == [left.name]
    os.utime(left, (0, 0))
    taken = claims.try_claim(digest(2))
    assert isinstance(taken, ClaimedKey)
    for held in meeting.iterdir():
        os.utime(held, (0, 0))
    assert claims.sweep() == 1
    assert len(files(meeting)) == 1
    taken.release()
    claims.close()
    assert os.listdir(meeting) == []


async def test_other_keys_and_other_scopes_do_not_meet(meeting: Path, holder: subprocess.Popen[str]) -> None:
    for claims, key in ((Claims(meeting), digest(2)), (Claims(meeting, scope="another store"), digest(1))):
        async with claims.claim(key) as claim:
            assert claim.how == "free"


async def test_a_claim_ends_with_its_block_however_that_ends(meeting: Path) -> None:
    claims = Claims(meeting)
    with pytest.raises(KeyError):
        async with claims.claim(digest(1)):
            raise KeyError
    with anyio.CancelScope() as scope:
        async with claims.claim(digest(1)):
            scope.cancel()
            await anyio.sleep_forever()
    assert files(meeting) == []


async def test_who_is_cancelled_while_waiting_has_nothing(meeting: Path, holder: subprocess.Popen[str]) -> None:
    claims = Claims(meeting)
    with anyio.CancelScope() as scope:
        async with claims.claim(digest(1), on_wait=lambda holder: scope.cancel()):
            pytest.fail("it is held")
    holder.kill()
    holder.wait()
    taken = claims.try_claim(digest(1))
    assert isinstance(taken, ClaimedKey)
    taken.release()


@pytest.mark.parametrize("kind", ["link", "open to others", "file"])
async def test_a_folder_that_cannot_be_trusted_means_no_claims(meeting: Path, kind: str, faults: Faults) -> None:
    match kind:
        case "link":
            meeting.symlink_to(meeting.parent)
        case "file":
            meeting.write_text("")
        case _:
            meeting.mkdir()
            meeting.chmod(0o777)
    claims = Claims(meeting, on_fault=faults)
    for _ in range(2):
        async with claims.claim(digest(1)) as claim:
            assert (claim.how, claim.look_again) == ("none", False)
    assert faults.operations == ["claim"]


async def test_a_folder_that_somebody_cleans_is_made_again(meeting: Path) -> None:
    claims = Claims(meeting)
    async with claims.claim(digest(1)):
        for path in meeting.iterdir():
            path.unlink()
        meeting.rmdir()
    async with claims.claim(digest(1)) as claim:
        assert claim.how == "free"


async def test_who_holds_a_file_that_was_removed_holds_nothing_that_others_see(meeting: Path) -> None:
    """The race of lock files that come and go: a name is locked only by who has the file it leads to."""
    claims = Claims(meeting)
    first = claims.try_claim(digest(1))
    assert isinstance(first, ClaimedKey)
    [path] = meeting.glob("*.claim")
    path.unlink()
    second = claims.try_claim(digest(1))
    assert isinstance(second, ClaimedKey)
    assert isinstance(claims.try_claim(digest(1)), Holder)
    second.release()
    first.release()
    assert files(meeting) == []
