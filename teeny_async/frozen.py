"""An immutable, hashable mapping for the fields of frozen dataclasses."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TypeVar

V = TypeVar("V")


class FrozenMap(Mapping[str, V]):
    """A read-only copy of a mapping with text keys, in the order given; equal whatever the order."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[str, V] | Iterable[tuple[str, V]] = ()) -> None:
        self._items: dict[str, V] = dict(items)
        self._hash: int | None = None

    @classmethod
    def of(cls, items: Mapping[str, V] | Iterable[tuple[str, V]]) -> FrozenMap[V]:
        """`items` itself when it is frozen already, so that nothing is copied twice."""
        return items if isinstance(items, FrozenMap) else cls(items)

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> ItemsView[str, V]:
        return self._items.items()  # the inherited one takes a call for each item

    def values(self) -> ValuesView[V]:
        return self._items.values()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenMap):
            return self._items == other._items
        return isinstance(other, Mapping) and self._items == dict(other)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self._items.items()))
        return self._hash

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type[FrozenMap[V]], tuple[dict[str, V]]]:
        return type(self), (self._items,)
