# SPDX-License-Identifier: BSD-3-Clause
"""Sets against those of Python, removals by a predicate, walks by numbers, and several values."""
import asyncio
import collections.abc
import os
import random
from collections.abc import Callable
from typing import Any
import unittest

import libfur
from test_libfur import HeapTest


class Sets(HeapTest):
    def sets(self, **how) -> tuple[Any, Any]:
        return self.heap.hash_set("set", **how), self.heap.ordered_set("sorted", **how)

    def test_do_what_a_set_does(self) -> None:
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        models: list[set[str]] = [set(), set()]
        for step in range(600):
            for s, model in zip(self.sets(text=True), models):
                key = "key %d" % chance.randrange(40)
                some = {"key %d" % chance.randrange(40) for _ in range(10)}
                with self.subTest(seed=seed, step=step):
                    what = chance.randrange(9)
                    if what == 0:
                        self.assertEqual(key in s, key in model)
                        self.assertEqual(s.contains_many(some), [k in model for k in some])
                    elif what in (1, 2):
                        s.add(key)
                        model.add(key)
                    elif what == 3:
                        s.discard(key)
                        model.discard(key)
                    elif what == 4:
                        s |= some
                        model |= some
                    elif what == 5:
                        s -= some
                        model -= some
                    elif what == 6:
                        s ^= some
                        model ^= some
                    elif what == 7 and step % 10 == 0:
                        s &= some
                        model &= some
                    elif what == 8 and model:
                        popped = s.pop()
                        self.assertIn(popped, model)
                        if isinstance(s, libfur.OrderedSet):
                            self.assertEqual(popped, min(model))
                        model.remove(popped)
                    self.assertEqual(s, model)
                    self.assertEqual(len(s), len(model))
            if step % 200 == 100:
                self.reopen()
        for s, model in zip(self.sets(text=True), models):
            self.assertIsInstance(s, collections.abc.MutableSet)
            self.assertIsInstance(s, libfur.Set)
            self.assertEqual(s & {"key 1", "other"}, model & {"key 1", "other"})
            self.assertIs(type(s | {"other"}), set)
            self.assertTrue(s <= model | {"other"})
            s.clear()
            self.assertEqual(len(s), 0)
            self.assertRaises(KeyError, s.pop)
            self.assertRaises(KeyError, s.remove, "key 1")
            self.assertRaises(TypeError, s.add, b"key")
            self.assertNotIn(b"key", s)

    def test_are_maps_with_empty_values(self) -> None:
        for s, as_map in zip(self.sets(), (self.heap.hash_map, self.heap.ordered_map)):
            s |= {b"one", b"two"}
            m = as_map(s._map._name)
            self.assertEqual(dict(m), {b"one": b"", b"two": b""})
            del m[b"one"]
            self.assertEqual(set(s), {b"two"})
            with self.assertRaises(ValueError):
                self.heap.destroy(m._name)
                s.add(b"three")

    def test_order(self) -> None:
        s = self.heap.ordered_set("sorted", text=True)
        self.assertRaises(KeyError, s.first)
        for start in range(0, 2500, 500):
            s |= {f"{n:04}" for n in range(start, start + 500)}
        self.assertEqual((s.first(), s.last()), ("0000", "2499"))
        self.assertEqual(list(s.scan("0100", "0103")), ["0100", "0101", "0102"])
        self.assertEqual(list(reversed(s))[:2], ["2499", "2498"])
        self.assertEqual(s.remove_range("0100", "0200"), 100)
        self.assertEqual(s.remove_range_in_parts("0200"), 2300)
        self.assertEqual(list(s), [f"{n:04}" for n in range(100)])
        s.clear_in_parts()
        self.assertEqual(list(s), [])

    def test_an_update_is_all_or_nothing(self) -> None:
        for s in self.sets(text=True):
            s.add("a")

            def keys() -> collections.abc.Iterator[str]:
                yield "b"
                raise ZeroDivisionError

            with self.assertRaises(ZeroDivisionError):
                s |= keys()
            self.assertEqual(s, {"a"})

    def test_snapshots(self) -> None:
        for s in self.sets(text=True):
            s |= {"a", "b"}
            with self.heap.snapshot() as then:
                s -= {"a"}
                s.add("c")
                frozen = then[s]
                self.assertEqual(frozen, {"a", "b"})
                self.assertEqual(frozen.contains_many(["a", "c"]), [True, False])
                self.assertNotIsInstance(frozen, collections.abc.MutableSet)
                if isinstance(s, libfur.OrderedSet):
                    self.assertEqual((frozen.first(), frozen.last()), ("a", "b"))
                    self.assertEqual(list(frozen.scan("b")), ["b"])
                    self.assertRaises(TypeError, frozen.scan_from)
                else:
                    self.assertEqual(sorted(frozen.scan_from()[1]), ["a", "b"])
                with self.assertRaises(TypeError):
                    then[{"a"}]  # type: ignore
            self.assertEqual(s, {"b", "c"})

    def test_in_tasks(self) -> None:
        s = self.heap.hash_set("set", text=True)

        async def add(n: int) -> None:
            async with self.heap.update():
                s.add(str(n))

        async def main() -> None:
            await asyncio.gather(*(add(n) for n in range(20)))

        asyncio.run(main())
        self.assertEqual(s, {str(n) for n in range(20)})


def is_even(key: str, value: str) -> bool:
    return key == "key " + value and int(value) % 2 == 0


class Removals(HeapTest):
    def filled(self, entries: int) -> Any:
        for m in self.maps(text=True):
            for start in range(0, entries, 500):
                with self.heap.update():
                    for n in range(start, min(start + 500, entries)):
                        m[f"key {n}"] = str(n)
            yield m

    def test_by_a_predicate(self) -> None:
        for m in self.filled(2500):
            expected = {k: v for k, v in m.items() if not is_even(k, v)}
            with self.heap.snapshot() as then:
                self.assertEqual(m.remove_if(is_even), 1250)
                self.assertEqual(dict(m), expected)
                self.assertEqual(len(then[m]), 2500)
            self.assertEqual(m.remove_if(is_even), 0)
            m["key 2"] = "2"
            with self.heap.update():
                self.assertEqual(m.remove_if(is_even), 1)
                m["key 4"] = "4"
            self.assertEqual(m.remove_if_in_parts(is_even), 1)
            self.assertEqual(dict(m), expected)

    def test_an_exception_removes_nothing(self) -> None:
        def fails(key: str, value: str) -> bool:
            if value == "7":
                raise ZeroDivisionError
            return True

        for m in self.filled(20):
            for remove in m.remove_if, m.remove_if_in_parts:
                with self.assertRaises(ZeroDivisionError):
                    remove(fails)
                self.assertEqual(len(m), 20)

    def test_that_no_log_has_room_for(self) -> None:
        self.heap.close()
        os.remove(self.path)
        self.heap = libfur.Heap.create(
            self.path, heap_bytes=16 << 20, log_bytes=1 << 14, pm="emulated"
        )
        for m in self.maps(text=True):
            for n in range(1500):
                m[f"key {n} of more than twelve characters"] = str(n)
            with self.assertRaisesRegex(libfur.Error, "remove_if_in_parts") as caught:
                m.remove_if(lambda key, value: int(value) >= 10)
            self.assertEqual(caught.exception.code, libfur.Code.ETOOBIG)
            self.assertEqual(len(m), 1500)
            self.assertEqual(m.remove_if_in_parts(lambda key, value: int(value) >= 10), 1490)
            self.assertEqual(sorted(map(int, m.values())), list(range(10)))
            with self.assertRaises(libfur.Error) as caught, self.heap.read():
                m.remove_if_in_parts(is_even)
            self.assertEqual(caught.exception.code, libfur.Code.ENESTED)

    def test_of_sets(self) -> None:
        for s in self.heap.hash_set("set", text=True), self.heap.ordered_set("sorted", text=True):
            s |= {str(n) for n in range(100)}
            self.assertEqual(s.remove_if(lambda key: int(key) >= 50), 50)
            self.assertEqual(s.remove_if_in_parts(lambda key: int(key) >= 20), 30)
            self.assertEqual(s, {str(n) for n in range(20)})


def walk(scan: Callable[..., Any], most: int, between: Callable[[], object] = int) -> list[Any]:
    seen, place = scan(most=most)[::-1]
    while place:
        between()
        place, entries = scan(place, most)
        seen += entries
    return seen


class Scans(HeapTest):
    def test_pass_each_entry_once_if_nothing_changes(self) -> None:
        m = self.heap.hash_map("hash", text=True)
        s = self.heap.hash_set("set", text=True)
        self.assertEqual(m.scan_from(), (0, []))
        for start in range(0, 1000, 100):
            with self.heap.update():
                for n in range(start, start + 100):
                    m[f"key {n}"] = str(n) * (n % 7)
                    s.add(str(n))
        m["large"] = "v" * 200_000
        for most in 0, 1, 100, 1 << 40:
            for entries in walk(m.scan_from, most), walk(s.scan_from, most):
                self.assertEqual(len(entries), len(set(entries)))
            self.assertEqual(dict(walk(m.scan_from, most)), dict(m))
            self.assertEqual(set(walk(s.scan_from, most)), set(s))
        with self.heap.snapshot() as then:
            m.clear()
            with self.heap.update():
                m["new"] = "1"
                self.assertEqual(m.scan_from(), (0, [("new", "1")]))
            self.assertEqual(dict(walk(then[m].scan_from, 50)), dict(then[m]))
        self.assertRaisesRegex(ValueError, "ended", then.__getitem__, m)

    def test_see_what_is_there_all_the_time(self) -> None:
        m = self.heap.hash_map("hash", text=True)
        m.update({f"key {n}": "" for n in range(300)})
        seen: list[Any] = []
        place, n = 0, 300
        while place or not seen:
            place, entries = self.heap.hash_map("hash", text=True).scan_from(place, 10)
            seen += entries
            m.update({f"key {n}": "" for n in range(n, n + 30)})
            for old in range(300, n):
                m.pop(f"key {old}", None)
            n += 30
            if n == 450:
                self.reopen()  # another process goes on from the number
                m = self.heap.hash_map("hash", text=True)
        self.assertLessEqual({f"key {n}" for n in range(300)}, {key for key, _ in seen})

    def test_mistakes(self) -> None:
        m, ordered = self.maps(text=True)
        m["a"] = "1"
        self.assertEqual(m.scan_from((1 << 64) - 1)[0], 0)
        for place in -1, 1 << 64, "5", None:
            self.assertRaisesRegex(ValueError, "a place must be", m.scan_from, place)
        self.assertRaisesRegex(ValueError, "entries must be", m.scan_from, 0, -1)
        self.assertRaisesRegex(TypeError, "last key", ordered.scan_from)
        self.heap.destroy("hash")
        self.assertRaisesRegex(ValueError, "destroyed", m.scan_from)
        self.heap.close()
        self.assertRaisesRegex(ValueError, "closed", m.scan_from)


if __name__ == "__main__":
    unittest.main()
