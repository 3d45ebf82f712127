"""Cache keys: everything that can change an output, and nothing else.

A key is the SHA-256 of labelled, length-framed components:

    key  = sha256(magic, schema, frame*)        frame = label length, value length, label, value

Every component is framed with its label and both lengths, so no two different sets of components
have the same bytes. `SCHEMA` is bumped whenever the set or the meaning of a component changes: old
entries are then never found again, and never misread.

In a key: the toolchain's name and the fingerprint of its contents, argv with the scratch folder
abstracted (it is relative to it), the keyed environment, each input file's name and content, the
labels and names of the outputs. Not in it: paths of the tool or of the scratch folder, the neutral
environment, the kernel's name and id, timeouts, job counts.

Large inputs come in parts (a prelude shared by thousands of kernels, then the kernel); each part is
hashed by itself, and `PartDigests` remembers the digests of the parts that are seen again. All but the
inputs is the same for the thousands of kernels of a sweep: it comes first, and is hashed once for them all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from teeny_async.errors import RequestError

if TYPE_CHECKING:
    from hashlib import _Hash as HASH

    from teeny_async.action import Action, Input
    from teeny_async.toolchains.base import Toolchain

    Run = tuple[Action, Toolchain]

SCHEMA = 2
_MAGIC = b"teeny_async key\0"
_REMEMBER_ABOVE = 2048
"""Characters; hashing a shorter part costs less than remembering it."""
_REMEMBER = 256

Component = tuple[str, bytes]
Explain = Callable[[], Sequence[Component]]


def _no_components() -> Sequence[Component]:
    return ()


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Identity of an artifact. digest: 64 hexadecimal digits; schema: the version of the recipe."""

    digest: str
    schema: int = SCHEMA
    _components: Explain = field(default=_no_components, repr=False, compare=False)

    def explain(self) -> dict[str, str]:
        """The components by label: arguments and variables one by one, digests in hexadecimal."""
        return explained(self._components())

    def __str__(self) -> str:
        return self.digest


def diff(a: CacheKey, b: CacheKey) -> dict[str, tuple[str | None, str | None]]:
    """The components in which two keys differ: label -> (value in a, value in b), None for absent."""
    left, right = a.explain(), b.explain()
    labels = sorted({*left, *right})
    return {label: (left.get(label), right.get(label)) for label in labels if left.get(label) != right.get(label)}


class PartDigests:
    """SHA-256 of what is seen again and again: source parts, and the components of a key that are no inputs."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._begun: dict[tuple[object, ...], HASH] = {}
        self._explained: dict[tuple[object, ...], dict[str, str]] = {}

    def of(self, part: str) -> bytes:
        """32 bytes. A repeated part is best passed as the same object: it is then not even compared."""
        if len(part) < _REMEMBER_ABOVE:
            return hashlib.sha256(part.encode()).digest()
        digest = self._known.get(part)
        if digest is None:
            digest = hashlib.sha256(part.encode()).digest()
            if len(self._known) >= _REMEMBER:
                self._known.clear()
            self._known[part] = digest
        return digest

    def begun(self, stages: Sequence[Run]) -> HASH:
        """The state of a key's hash after its fixed components; the caller's own copy."""
        name = _identities(stages)
        state = self._begun.get(name)
        if state is None:
            state = hashlib.sha256(_head() + _framed(_fixed(stages)))
            if len(self._begun) >= _REMEMBER:
                self._begun.clear()
            self._begun[name] = state
        return state.copy()

    def explained(self, stages: Sequence[Run], inputs: Sequence[Component]) -> dict[str, str]:
        """All components as a person reads them; see the function of this name. inputs: of the first action."""
        name = _identities(stages)
        fixed = self._explained.get(name)
        if fixed is None:
            if len(self._explained) >= _REMEMBER:
                self._explained.clear()
            fixed = self._explained[name] = explained(_fixed(stages))
        return {**fixed, **explained([*inputs, *_inputs(stages, self, first=1)])}


def _identities(stages: Sequence[Run]) -> tuple[object, ...]:
    return tuple([_identity(action, toolchain) for action, toolchain in stages])


def _identity(action: Action, toolchain: Toolchain) -> tuple[object, ...]:
    """What `_fixed` depends on: equal ones have the same fixed components."""
    return (
        toolchain.name,
        toolchain.fingerprint,
        tuple(action.argv),
        tuple(action.env.items()),
        tuple(action.outputs.items()),
        tuple(action.expect.items()),
    )


def components(stages: Sequence[Run], digests: PartDigests) -> list[Component]:
    """The labelled components of a chain of actions, each run by its toolchain."""
    return [*_fixed(stages), *_inputs(stages, digests)]


def _fixed(stages: Sequence[Run]) -> list[Component]:
    """The components that are not inputs. `_identity` must have all that they are made of."""
    found: list[Component] = []
    for number, (action, toolchain) in enumerate(stages):
        stage = _stage(number)
        found.append((stage + "toolchain", toolchain.name.encode()))
        found.append((stage + "fingerprint", toolchain.fingerprint.encode()))
        found.append((stage + "argv", joined(action.argv)))
        found.append((stage + "env", joined(_pairs(sorted(action.env.items())))))
        found.append((stage + "outputs", joined(_pairs(action.outputs.items()))))
        found.append((stage + "expect", joined(_pairs(sorted(action.expect.items())))))
    return found


def _inputs(stages: Sequence[Run], digests: PartDigests, first: int = 0) -> list[Component]:
    """The inputs of the stages from the first-th on."""
    return [
        _input(item, digests, _stage(number))
        for number, (action, _) in enumerate(stages[first:], first)
        for item in action.inputs
    ]


def _input(item: Input, digests: PartDigests, stage: str = "") -> Component:
    return f"{stage}input {item.name}", b"".join([digests.of(part) for part in item.parts])


def _stage(number: int) -> str:
    return f"stage{number}." if number else ""


def joined(words: Sequence[str]) -> bytes:
    """Words as one value, told apart by NUL bytes, which none of them can have: neither an argument nor an
    environment variable nor a file name has one. Raises RequestError where one does after all.
    """
    text = "\0".join(words)
    if text.count("\0") != max(0, len(words) - 1):
        raise RequestError("a NUL character cannot be part of a flag, a variable or a file name")
    # An empty list and a list of one empty word would look alike.
    return b"%d\0%s" % (len(words), text.encode("utf-8", "surrogateescape"))


def _pairs(items: Iterable[tuple[str, str]]) -> list[str]:
    return [word for pair in items for word in pair]


class KeyStart:
    """A key as far as it goes without the inputs of the first action, which alone differ among thousands of kernels.

    stages: of any one of them.
    """

    __slots__ = ("_begun", "_digests", "_tail")

    def __init__(self, stages: Sequence[Run], digests: PartDigests) -> None:
        self._digests = digests
        self._begun = digests.begun(stages)
        self._tail = _framed(_inputs(stages, digests, first=1))

    def inputs(self, inputs: Sequence[Input]) -> list[Component]:
        """The components that inputs of the first action are."""
        return [_input(item, self._digests) for item in inputs]

    def key(self, inputs: Sequence[Component], explain: Explain) -> CacheKey:
        """The key with these inputs of the first action. explain: makes the components again, when asked."""
        state = self._begun.copy()
        for label, value in inputs:
            state.update(_frame(label, value))
        if self._tail:
            state.update(self._tail)
        return CacheKey(state.hexdigest(), SCHEMA, explain)


def request_key(stages: Sequence[Run], digests: PartDigests, explain: Explain) -> CacheKey:
    """The key of what a chain of actions puts out."""
    start = KeyStart(stages, digests)
    return start.key(start.inputs(stages[0][0].inputs), explain)


def key_digest(parts: Sequence[Component]) -> str:
    """SHA-256 over the framed components, in hexadecimal."""
    return hashlib.sha256(_head() + _framed(parts)).hexdigest()


def _head() -> bytes:
    return _MAGIC + b"%d;" % SCHEMA


def _framed(parts: Sequence[Component]) -> bytes:
    return b"".join([_frame(label, value) for label, value in parts])


def _frame(label: str, value: bytes) -> bytes:
    name = label.encode()
    return b"%d:%d:%s%s" % (len(name), len(value), name, value)


def explained(found: Sequence[Component]) -> dict[str, str]:
    """Components as a person reads them: lists one word a line, texts as they are, digests in hexadecimal."""
    shown: dict[str, str] = {}
    for label, value in found:
        head, _, text = value.partition(b"\0")
        kind = re.sub(r"^stage\d+\.", "", label)
        if kind in ("argv", "env", "outputs", "expect") and head.isdigit():
            words = text.decode("utf-8", "replace").split("\0") if int(head) else []
            if kind == "argv":
                shown.update({f"{label}[{number}]": word for number, word in enumerate(words)})
            else:
                shown.update({f"{label}.{name}": word for name, word in zip(words[::2], words[1::2], strict=True)})
        elif kind.startswith("input "):
            digests = [value[at : at + 32].hex() for at in range(0, len(value), 32)]
            shown.update({f"{label}[{number}]": digest for number, digest in enumerate(digests)})
        else:
            shown[label] = _readable(value)
    return shown


def _readable(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value.hex()
    return text if text.isprintable() else value.hex()
