"""`Action`: one run of one tool, planned and not yet run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from teeny_async.frozen import FrozenMap


@dataclass(frozen=True, slots=True)
class Input:
    """A file to write before the run: its name in the scratch folder, its text in parts.

    A part that many actions share (a prelude) stays one object: it is neither copied nor hashed again.
    """

    name: str
    parts: Sequence[str] = field(repr=False)

    def data(self) -> bytes:
        """The file's content, UTF-8."""
        return "".join(self.parts).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a tool is to do, as pure data; it can be keyed, shown, and run anywhere.

    argv: relative to the scratch folder, so that it is the same on every machine; argv[0] is the
        tool's name, `executable` the file that is run.
    env: variables that can change the output; they are keyed.
    neutral: variables that cannot (PATH, LC_ALL, a log level); they are not keyed. HOME and TMPDIR
        are set by the runner, to folders in scratch.
    inputs: files to write first. chained: names of input files to be filled from the outputs of
        the stage before, name -> that stage's output label.
    outputs: label -> file name; `required` are those without which there is no success.
    expect: what the outputs are checked against, by name ("cpu", "ptx_version", "entry_point"); keyed.
    capture_limit: bytes kept of stdout and of stderr, each.
    depfile: name of a file, not an output, in which the tool says what it read; None when it can read
        nothing but `inputs`. What it lists completes the key (see `teeny_async.closure`).
    search: folders in which the tool looks for files, absolute, in order; for use with `depfile`.
    mirror: a folder whose entries are linked into scratch, for a tool that looks beside its source.
    warm: a program by which a Python interpreter, `executable`, gets ready to run actions such as this one; argv is
        its options, a script and its arguments. A runner may keep an interpreter that ran it and fork that, which
        comes to the same and spares the import. None: there is nothing to spare.
    uncacheable: why the key would not cover what the tool reads; None when it does.
    """

    argv: Sequence[str]
    executable: str
    env: Mapping[str, str] = field(default_factory=FrozenMap)
    neutral: Mapping[str, str] = field(default_factory=FrozenMap)
    inputs: Sequence[Input] = ()
    chained: Mapping[str, str] = field(default_factory=FrozenMap)
    outputs: Mapping[str, str] = field(default_factory=FrozenMap)
    required: Sequence[str] = ()
    expect: Mapping[str, str] = field(default_factory=FrozenMap)
    capture_limit: int = 1 << 20
    depfile: str | None = None
    search: Sequence[str] = ()
    mirror: str | None = None
    warm: str | None = field(default=None, repr=False)
    uncacheable: str | None = None
