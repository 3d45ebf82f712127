"""Finding and identifying tools on this machine, and remembering the answers.

A compiler is identified by the contents of its files. Hashing a few hundred megabytes for every session
would cost more than a warm sweep, so the digest of a file is remembered by what the kernel says of it:
device, inode, size, and the times of its last change (mtime, which a tool may set, and ctime, which it
cannot). The memory lives in the process, and in the store as a note, so that it outlasts both.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from teeny_async.action import Action
from teeny_async.execution.runner import RunLimits, Runner
from teeny_async.frozen import FrozenMap
from teeny_async.result import Exit
from teeny_async.store.base import Store
from teeny_async.toolchains.base import BASE_ENV, ToolNotFound

_PROBE_TIMEOUT = 30.0
_NOTE = "probes-1"
_WRAPPER = re.compile(rb'\A#![^\n]*\n(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*exec[ \t]+"?(/[^\s"$]+)"?[ \t]+"\$@"\s*\Z')
_WRAPPER_SIZE = 4096

Identity = list[int]


class ProbeMemory:
    """What probing found out, keyed by the identity of the files it depends on; plain JSON data.

    One object may serve every session of a process.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[Identity, str]] = {}
        self.answers: dict[str, tuple[Identity, dict[str, Any]]] = {}
        self.changed = False

    def load(self, text: str | None) -> None:
        """Add what an earlier process noted; anything malformed is left out."""
        try:
            noted = json.loads(text) if text else {}
            files = {path: (list(identity), _hex(digest)) for path, (identity, digest) in noted["files"].items()}
            answers = {name: (list(identity), _noted(answer)) for name, (identity, answer) in noted["answers"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        self.files = files | self.files
        self.answers = answers | self.answers

    def dump(self) -> str:
        return json.dumps({"files": self.files, "answers": self.answers})


class MachineHost:
    """The machine as drivers ask about it. `environ` is the environment of the user's process."""

    def __init__(self, environ: Mapping[str, str], runner: Runner, memory: ProbeMemory) -> None:
        self.environ = environ
        self._runner = runner
        self._memory = memory

    async def recall(self, store: Store) -> None:
        """Take up what was noted in the store."""
        self._memory.load(await store.get_note(_NOTE))

    async def note(self, store: Store) -> None:
        """Leave a note in the store when there is anything new."""
        if self._memory.changed:
            self._memory.changed = False
            await store.put_note(_NOTE, self._memory.dump())

    def which(self, name: str) -> str | None:
        found = shutil.which(name, path=self.environ.get("PATH", os.defpath))
        return follow_wrapper(os.path.abspath(found)) if found else None

    def package_file(self, package: str, *names: str) -> str | None:
        for folder in sys.path:
            for name in names:
                path = os.path.join(folder or ".", package, name)
                if os.path.isfile(path):
                    return os.path.realpath(path)
        return None

    async def run(self, argv: Sequence[str], env: Mapping[str, str] | None = None, *, remember: bool = True) -> Exit:
        name = json.dumps([list(argv), sorted((env or {}).items())])
        # What a script answers depends on what it runs in turn, which its own file does not tell.
        identity = [] if is_script(argv[0]) else file_identity(argv[0])
        known = self._memory.answers.get(name)
        if remember and identity and known is not None and known[0] == identity:
            return _answer_from(known[1])
        folders = os.pathsep.join(dict.fromkeys((os.path.dirname(argv[0]), *os.defpath.split(os.pathsep))))
        action = Action(
            argv=argv,
            executable=argv[0],
            neutral=FrozenMap({**BASE_ENV, "PATH": self.environ.get("PATH", folders)}),
            env=FrozenMap(env or {}),
        )
        exit = await self._runner.run(action, {}, RunLimits(wall=_PROBE_TIMEOUT))
        if remember and exit.code is not None and exit.code >= 0 and exit.stopped is None and identity:
            answer = {
                "code": exit.code,
                "stdout": exit.stdout.decode("latin-1"),
                "stderr": exit.stderr.decode("latin-1"),
            }
            self._memory.answers[name] = (identity, answer)
            self._memory.changed = True
        return exit

    async def fingerprint(self, name: str, version: str, files: Mapping[str, Path]) -> str:
        state = hashlib.sha256()
        for part in (name, version):
            state.update(b"%d:%s" % (len(part.encode()), part.encode()))
        for label in sorted(files):
            try:
                digest = await self._digest(_real_path(files[label]))
            except OSError as error:
                raise ToolNotFound(f"{name}: cannot read {files[label]}: {error.strerror}") from None
            state.update(b"%d:%s%s" % (len(label.encode()), label.encode(), bytes.fromhex(digest)))
        return state.hexdigest()

    async def _digest(self, path: str) -> str:
        identity = file_identity(path)
        known = self._memory.files.get(path)
        if known is not None and known[0] == identity:
            return known[1]
        digest = await anyio.to_thread.run_sync(partial(digest_file, path))
        # A file that changed while it was read has no digest worth remembering.
        if identity == file_identity(path):
            self._memory.files[path] = (identity, digest)
            self._memory.changed = True
        return digest


def file_identity(path: str) -> Identity:
    """What tells one state of a file from another without reading it; empty when it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def is_script(path: str) -> bool:
    """Whether a program is run by an interpreter."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def digest_file(path: str) -> str:
    """SHA-256 of a file's content, in hexadecimal. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def follow_wrapper(path: str) -> str:
    """The program behind links to it and behind a shell script that does nothing but `exec` it.

    Such a script stays the same when the compiler behind it changes; its own content identifies nothing.
    Links are not followed where the name decides what runs (rustup's shims).
    """
    for _ in range(4):
        try:
            if os.path.getsize(path) > _WRAPPER_SIZE:
                return path
            with open(path, "rb") as file:
                behind = _WRAPPER.match(file.read(_WRAPPER_SIZE))
        except OSError:
            return path
        if behind is None or not os.access(behind[1], os.X_OK):
            return path
        path = os.fsdecode(behind[1])
    return path


def _real_path(path: Path) -> str:
    return os.path.realpath(path)


def _hex(digest: str) -> str:
    """A digest as it may be noted; raises ValueError for anything else."""
    if len(bytes.fromhex(digest)) != hashlib.sha256().digest_size:
        raise ValueError(digest)
    return digest


def _noted(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as it may be noted; raises ValueError, KeyError or TypeError for anything else."""
    _answer_from(answer)
    return dict(answer)


def _answer_from(noted: Mapping[str, Any]) -> Exit:
    return Exit(
        code=int(noted["code"]), stdout=noted["stdout"].encode("latin-1"), stderr=noted["stderr"].encode("latin-1")
    )
