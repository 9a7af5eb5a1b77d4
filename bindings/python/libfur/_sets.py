# SPDX-License-Identifier: BSD-3-Clause
"""Sets in a heap: maps whose values are empty."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSet
from collections.abc import Set as AbstractSet
from typing import Any, Generic, Optional, TypeVar

T = TypeVar("T")  # bytes or str


class _Keys(AbstractSet[T], Generic[T]):
    """What can be read of a set, live or as of a snapshot."""

    def __init__(self, map: Any) -> None:
        """For Heap and Snapshot.  `map`: a Map, or a SnapshotMap."""
        self._map = map

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> set[Any]:
        """What `|`, `&`, `-` and `^` return."""
        return set(it)

    def __contains__(self, key: object) -> bool:
        return key in self._map

    def __iter__(self) -> Iterator[T]:
        return iter(self._map)

    def __len__(self) -> int:
        return len(self._map)

    def contains_many(self, keys: Iterable[T]) -> list[bool]:
        """For each key: is it in the set?  One call of the library, as Map.get_many(), which says
        what it raises."""
        return [value is not None for value in self._map.get_many(keys)]

    def scan_from(self, place: int = 0, most: int = 1000) -> tuple[int, list[T]]:
        """Some keys from a place on, and the place to go on from: see Map.scan_from()."""
        place, entries = self._map.scan_from(place, most)
        return place, [key for key, _ in entries]

    def __repr__(self) -> str:
        return f"<libfur.{type(self).__name__} {self._map._name!r} of {self._map._heap.path!r}>"

    def __reduce__(self) -> Any:
        return self._map.__reduce__()


class _OrderedKeys(_Keys[T]):
    """Likewise, of one whose keys are in the order of their bytes."""

    def scan(self, start: Optional[T] = None, stop: Optional[T] = None) -> Iterator[T]:
        """The keys that are not before `start`, and before `stop`, in order: see
        OrderedMap.scan()."""
        for key, _ in self._map.scan(start, stop):
            yield key

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._map)

    def first(self) -> T:
        """The smallest key.  Raises KeyError if the set is empty."""
        key: T = self._map.first()[0]
        return key

    def last(self) -> T:
        """The largest key.  Raises KeyError if the set is empty."""
        key: T = self._map.last()[0]
        return key


class Set(_Keys[T], MutableSet[T]):
    """A set in a heap, of bytes or str, as Heap.hash_set() and Heap.ordered_set() return it.

    In the heap it is a map whose values are empty: hash_map() of its name, C and Rust find it as
    such.  Each operation is one transaction, as those of a Map are; `|`, `&`, `-` and `^` return a
    set of Python.
    """

    def add(self, key: T) -> None:
        """Add the key, unless it is there."""
        self._map[key] = "" if self._map._text else b""

    def discard(self, key: T) -> None:
        """Remove the key, if it is there."""
        try:
            del self._map[key]
        except KeyError:
            pass

    def pop(self) -> T:
        """Remove and return some key, of an OrderedSet the smallest.  Raises KeyError if there is
        none."""
        key: T = self._map.popitem()[0]
        return key

    def clear(self) -> None:
        """Remove all keys, in one update: see Map.clear()."""
        self._map.clear()

    def clear_in_parts(self) -> None:
        """Remove all keys of a set of any size: see Map.clear_in_parts()."""
        self._map.clear_in_parts()

    def remove_if(self, predicate: Callable[[T], object]) -> int:
        """Remove the keys for which predicate(key) is true: see Map.remove_if()."""
        removed: int = self._map.remove_if(lambda key, _: predicate(key))
        return removed

    def remove_if_in_parts(self, predicate: Callable[[T], object]) -> int:
        """Likewise, in several updates: see Map.remove_if_in_parts()."""
        removed: int = self._map.remove_if_in_parts(lambda key, _: predicate(key))
        return removed

    # Each of these is one update.

    def __ior__(self, other: AbstractSet[T]) -> Any:  # type: ignore[override,misc]
        with self._map._heap.update():
            return super().__ior__(other)

    def __iand__(self, other: AbstractSet[Any]) -> Any:
        with self._map._heap.update():
            return super().__iand__(other)

    def __ixor__(self, other: AbstractSet[T]) -> Any:  # type: ignore[override,misc]
        with self._map._heap.update():
            return super().__ixor__(other)

    def __isub__(self, other: AbstractSet[Any]) -> Any:
        with self._map._heap.update():
            return super().__isub__(other)


class OrderedSet(_OrderedKeys[T], Set[T]):
    """A set whose keys are in the order of their bytes."""

    def remove_range(self, start: Optional[T] = None, stop: Optional[T] = None) -> int:
        """Remove the keys that are not before `start`, and before `stop`: see
        OrderedMap.remove_range()."""
        removed: int = self._map.remove_range(start, stop)
        return removed

    def remove_range_in_parts(self, start: Optional[T] = None, stop: Optional[T] = None) -> int:
        """Likewise, in several updates: see OrderedMap.remove_range_in_parts()."""
        removed: int = self._map.remove_range_in_parts(start, stop)
        return removed


class SnapshotSet(_Keys[T]):
    """A set as it was at a Snapshot: snapshot[set] returns it."""


class SnapshotOrderedSet(_OrderedKeys[T], SnapshotSet[T]):
    """Likewise, with its keys in the order of their bytes."""
