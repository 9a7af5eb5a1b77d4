# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the Python module: a map against a dict, threads, kills, and mistakes.

OPTIONS in the environment: the program of bindings/options.c.
"""
import ctypes
import gc
import logging
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
from collections.abc import Callable
from typing import Any

import libfur

OPTIONS = {"heap_bytes": 16 << 20, "log_bytes": 1 << 18, "pm": "emulated"}
# Updates number 1, 2, ...; each number goes to standard output when it is durable.
WRITER = """
import sys, libfur
heap = libfur.Heap.open_or_create(sys.argv[1], heap_bytes=16 << 20, log_bytes=1 << 18,
                                  pm="emulated")
done, mirror = heap.ordered_map("done"), heap.hash_map("mirror", text=True)
n = len(done)
while True:
    n += 1
    with heap.update():
        done[n.to_bytes(8, "big")] = b"x" * (n % 50)
        mirror[str(n)] = str(n * n)
    print(n, flush=True)
"""
READER = """
import sys, libfur
with libfur.Heap.open_copy(sys.argv[1]) as copy:
    values = copy.hash_map("hash", text=True)
    print(values["k"])
    try:
        values["k"] = "no"
    except libfur.Error:
        print("refused")
"""


class HeapTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "heap.fur")
        self.heap = libfur.Heap.create(self.path, **OPTIONS)
        self.addCleanup(lambda: self.heap.close())

    def reopen(self) -> None:
        self.heap.close()
        self.heap = libfur.Heap.open(self.path)

    def maps(self, **how):
        return self.heap.hash_map("hash", **how), self.heap.ordered_map("ordered", **how)


class Maps(HeapTest):
    def test_do_what_a_dict_does(self) -> None:
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        models: list[dict[bytes, bytes]] = [{}, {}]
        for step in range(1500):
            for m, model in zip(self.maps(), models):
                key = chance.choice([b"", b"k", b"\0", b"long " * 20]) + b"%d" % chance.randrange(
                    60
                )
                value = chance.randbytes(chance.choice([0, 5, 12, 13, 300, 1000]))
                with self.subTest(seed=seed, step=step):
                    what = chance.randrange(7)
                    if what < 3:
                        m[key] = model[key] = value
                    elif what == 3:
                        self.assertEqual(m.pop(key, None), model.pop(key, None))
                    elif what == 4:
                        self.assertEqual(m.setdefault(key, value), model.setdefault(key, value))
                    elif what == 5:
                        self.assertEqual(m.get(key), model.get(key))
                    else:
                        self.assertEqual(key in m, key in model)
            if step % 500 == 499:
                self.reopen()
                for m, model in zip(self.maps(), models):
                    self.assertEqual(dict(m.items()), model)
                    self.assertEqual(len(m), len(model))
                    self.assertEqual(sorted(m.values()), sorted(model.values()))
                    self.assertEqual(m, model)
        ordered = self.maps()[1]
        self.assertEqual(list(ordered), sorted(models[1]))
        self.assertEqual(list(reversed(ordered)), sorted(models[1], reverse=True))
        self.assertEqual(ordered.first(), min(models[1].items()))
        self.assertEqual(ordered.last(), max(models[1].items()))
        for m in self.maps():
            m.clear()
            self.assertEqual(dict(m), {})
            self.assertRaises(KeyError, m.popitem)
            self.assertRaises(KeyError, lambda: m[b"k"])
            self.assertRaises(KeyError, m.__delitem__, b"k")
        self.assertRaises(KeyError, ordered.first)

    def test_scans_of_many_transactions(self) -> None:
        ordered = self.heap.ordered_map("ordered")
        keys = [n.to_bytes(4, "big") for n in range(3500)]
        for n in range(0, len(keys), 500):
            ordered.update((key, key * 2) for key in keys[n : n + 500])
        self.assertEqual(list(ordered), keys)
        self.assertEqual(list(reversed(ordered)), keys[::-1])
        found = [key for key, _ in ordered.scan(keys[7], keys[2100])]
        self.assertEqual(found, keys[7:2100])
        self.assertEqual(list(ordered.scan(keys[-1] + b"\0")), [])
        # Entries come and go while a scan stands between two of its transactions.
        scan = ordered.scan()
        next(scan)
        for key in keys[1500:2000]:
            del ordered[key]
        ordered[keys[-1] + b"new"] = b""
        rest = [key for key, _ in scan]
        self.assertEqual(rest, keys[1:1500] + keys[2000:] + [keys[-1] + b"new"])

    def test_removes_ranges(self) -> None:
        ordered = self.heap.ordered_map("ordered")
        keys = [n.to_bytes(4, "big") for n in range(2000)]
        ordered.update((key, b"") for key in keys)
        self.assertEqual(ordered.remove_range(keys[5], keys[10]), 5)
        with self.heap.update():
            self.assertEqual(ordered.remove_range(stop=keys[3]), 3)
            self.assertRaises(libfur.Error, ordered.remove_range_in_parts)
        self.assertEqual(list(ordered), keys[3:5] + keys[10:])
        self.assertEqual(ordered.remove_range(keys[9], keys[9]), 0)
        self.assertEqual(ordered.remove_range_in_parts(keys[20], keys[1900]), 1880)
        self.assertEqual(ordered.remove_range_in_parts(keys[1990]), 10)
        self.assertEqual(list(ordered), keys[3:5] + keys[10:20] + keys[1900:1990])
        text = self.heap.ordered_map("text", text=True)
        text.update({"a": "1", "b": "2", "ä": "3"})
        self.assertEqual((text.remove_range("b"), dict(text)), (2, {"a": "1"}))
        self.assertRaises(TypeError, text.remove_range, b"a")
        self.assertEqual((ordered.remove_range(), len(ordered)), (102, 0))

    def test_text(self) -> None:
        for m in self.maps(text=True):
            m.update({"Zürich": "8001", "": "empty", "\udcff": "\udc80"})
            self.assertEqual(dict(m), {"Zürich": "8001", "": "empty", "\udcff": "\udc80"})
            for wrong in (b"bytes", 7, None):
                self.assertRaises(TypeError, m.__setitem__, "k", wrong)
                self.assertRaises(TypeError, m.__getitem__, wrong)
        plain = self.heap.hash_map("plain")
        self.assertRaisesRegex(TypeError, "text=True", plain.__setitem__, "k", b"v")
        self.assertRaisesRegex(TypeError, "int", plain.__setitem__, b"k", 5)
        plain[bytearray(b"k")] = memoryview(b"v")
        self.assertEqual(plain[b"k"], b"v")

    def test_what_cannot_be_a_key(self) -> None:
        for m in self.maps(text=True):
            m["k"] = "v"
            for wrong in (5, None, b"k", (), "\ud800", "k\udfff", "\udcc3\udca9"):
                self.assertNotIn(wrong, m)
            # The last one would become the bytes of another text.
            for wrong in ("\ud800", "k\udfff", "\udcc3\udca9"):
                self.assertIsNone(m.get(wrong))
                self.assertRaises(KeyError, m.__delitem__, wrong)
                self.assertRaisesRegex(ValueError, "surrogate", m.__setitem__, wrong, "v")
                self.assertRaisesRegex(ValueError, "surrogate", m.__setitem__, "k", wrong)
            m["a\0b"] = "\0"
            self.assertEqual(dict(m), {"k": "v", "a\0b": "\0"})
        plain = self.heap.hash_map("plain")
        self.assertNotIn("k", plain)
        self.assertNotIn(5, plain)

    def test_names_and_paths(self) -> None:
        heap = self.heap
        calls: list[Callable[..., object]]
        calls = [heap.hash_map, heap.ordered_map, heap.remove_root, heap.destroy]
        for call in calls:
            self.assertRaisesRegex(ValueError, "NUL", call, "users\0admin")
            self.assertRaisesRegex(ValueError, "surrogate", call, "\ud800")
            self.assertRaisesRegex(TypeError, "bytes", call, b"users")
        one = libfur.Heap
        calls = [one.create, one.open, one.open_or_create, one.open_copy, heap.backup]
        for call in calls:
            self.assertRaisesRegex(ValueError, "NUL", call, self.path + ".new\0suffix")
            self.assertRaisesRegex(ValueError, "NUL", call, os.fsencode(self.path) + b".new\0")
            self.assertRaises(TypeError, call, 7)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["heap.fur"])
        odd = os.fsencode(self.path) + b"\xff"
        heap.backup(odd)
        heap.backup(pathlib.Path(self.path + ".path"))
        self.assertTrue(os.path.exists(odd))

    def test_numbers_that_c_would_cut_off(self) -> None:
        for wrong in (-1, 1 << 64, "1", 1.5, None):
            self.assertRaisesRegex(ValueError, "size", self.heap.grow, wrong)
            for name in ("heap_bytes", "max_bytes", "max_threads", "file_mode", "async_ms"):
                with self.assertRaisesRegex(ValueError, name):
                    libfur.Heap.create(self.path + ".new", **{name: wrong})
        self.assertRaises(ValueError, libfur.Heap.create, self.path, max_threads=(1 << 32) + 8)

    def test_options_of_an_open(self) -> None:
        told: list[tuple[int, str]] = []

        def log(level: int, message: str) -> None:
            told.append((level, message))
            raise ValueError("which goes nowhere")

        path, where = self.path + ".new", 0x500000000000
        with unittest.mock.patch("sys.unraisablehook") as unraisable:
            heap = libfur.Heap.create(path, address=where, async_ms=1, log=log, **OPTIONS)
            told_at_open = len(told)
            heap.close()
        self.assertTrue(unraisable.called)
        self.assertGreater(told_at_open, 0)
        self.assertTrue(any("software" in message for _, message in told), told)
        self.assertTrue({level for level, _ in told} <= {logging.INFO, logging.WARNING}, told)
        self.assertEqual(libfur._logs, {})
        heap = libfur.Heap.open(path, log=lambda level, message: told.append((level, message)))
        with open(path, "rb") as file:
            self.assertIn(where.to_bytes(8, "little"), file.read(4096))
        del told[:]
        with self.assertWarns(ResourceWarning):
            del heap
            gc.collect()
        self.assertEqual(libfur._logs, {})
        self.assertRaisesRegex(TypeError, "a function", libfur.Heap.open, path, log="here")
        self.assertRaises(libfur.Error, libfur.Heap.create, path, log=log)  # it exists
        self.assertEqual(libfur._logs, {})

    def test_destroy(self) -> None:
        one, other = self.maps(text=True)
        again = self.heap.hash_map("hash", text=True)
        for round in range(300):  # more than fits without it
            for n in range(30):
                one[str(n)] = "v" * 5000
            self.assertTrue(self.heap.destroy("hash"))
            self.assertFalse(self.heap.destroy("hash"))
            for dead in (one, again):
                self.assertRaisesRegex(ValueError, "destroyed", dead.__setitem__, "k", "v")
                self.assertRaisesRegex(ValueError, "destroyed", dead.get, "k")
                self.assertRaisesRegex(ValueError, "destroyed", len, dead)
            one, again = self.heap.ordered_map("hash", text=True), one
            self.assertEqual(len(one), 0)
            one["k"] = "v"
            self.assertTrue(self.heap.destroy("hash"))
            one = self.heap.hash_map("hash", text=True)
        other["k"] = "v"
        self.assertTrue(self.heap.remove_root("ordered"))
        self.assertEqual(dict(other), {"k": "v"})

    def test_a_map_that_no_log_has_room_to_clear(self) -> None:
        many = 20000
        for name, m in zip(("hash", "ordered"), self.maps()):
            for start in range(0, many, 500):
                with self.heap.update():
                    m.update((b"%d" % n, b"x" * 20) for n in range(start, start + 500))
            removals = [m.clear, lambda: self.heap.destroy(name)]
            if isinstance(m, libfur.OrderedMap):
                removals.append(m.remove_range)
            for remove in removals:
                with self.assertRaisesRegex(libfur.Error, "log.*(clear|range)_in_parts") as caught:
                    remove()
                self.assertEqual((caught.exception.code, len(m)), (-15, many))
            with self.heap.update(), self.assertRaises(libfur.Error):
                m.clear_in_parts()
            m.clear_in_parts()
            self.assertEqual((len(m), list(m)), (0, []))
            m[b"k"] = b"v"

    def test_messages_speak_of_this_module(self) -> None:
        for message, expected in (
            ("fur_grow: is too small", "Heap.grow: is too small"),
            (
                "set fur_options.max_bytes, or fur-resize (fur_close)",
                "set max_bytes, or fur-resize (Heap.close)",
            ),
            (
                "/tmp/fur_grow/fur_close.fur: fur_grow.fur",
                "/tmp/fur_grow/fur_close.fur: fur_grow.fur",
            ),
            (
                "a thread has it open: end it, then close; fur_thread_abandon() ends one that was "
                "left by return or longjmp",
                "a thread has it open: end it, then close",
            ),
            ("end that first, or join it with fur_join_update()", "end that first"),
            (
                "for: unregister one, or let the heap have more",
                "for: end one, or let the heap have more",
            ),
        ):
            self.assertEqual(libfur._in_python(message), expected)

    def test_a_name_keeps_its_kind(self) -> None:
        self.maps()
        with self.assertRaisesRegex(libfur.Error, "'hash'") as caught:
            self.heap.ordered_map("hash")
        self.assertEqual(caught.exception.code, -1)
        self.assertTrue(self.heap.remove_root("hash"))
        self.assertFalse(self.heap.remove_root("hash"))
        self.assertEqual(len(self.heap.ordered_map("hash")), 0)


class ManyKeys(HeapTest):
    """get_many()"""

    SIZES = (0, 1, 12, 13, 255, 256, 257, 1000, 100_000)  # of values
    of: Any  # makes keys and values of the map
    names: list[Any]

    def check(self, m, model) -> None:
        """0, 1, 17 and 200 keys, some of them twice, and some that are not there."""
        all_keys = self.names + self.names[:20] + [self.of("none"), self.of("")]
        for keys in ([], all_keys[1:2], all_keys[:1], all_keys[-17:], all_keys[-200:]):
            self.assertEqual(m.get_many(keys), [model.get(key) for key in keys])
            self.assertEqual(m.get_many(iter(keys)), [m.get(key) for key in keys])

    def both_kinds(self):
        """Maps of bytes, and of text."""
        kinds: list[tuple[bool, Any]] = [(False, str.encode), (True, str)]
        for text, self.of in kinds:
            self.names = [self.of(f"key {n}") for n in range(190)]
            for m in self.maps(text=text):
                yield m
                m.clear()

    def test_are_found_as_one_by_one(self) -> None:
        for m in self.both_kinds():
            names, sizes = self.names, self.SIZES
            old = {name: self.of("o" * sizes[n % 9]) for n, name in enumerate(names) if n % 4}
            new = {name: self.of("n" * sizes[-n % 9]) for n, name in enumerate(names) if n % 3}
            old[self.of("")] = self.of("of the empty key")
            self.check(m, {})
            for name, value in old.items():
                m[name] = value
            self.check(m, old)
            with self.heap.snapshot() as then:
                frozen = then[m]
                m.clear()
                for name, value in new.items():
                    m[name] = value
                self.check(frozen, old)
                self.check(m, new)
                with self.heap.read():
                    self.check(m, new)
                with self.assertRaises(ZeroDivisionError), self.heap.update():
                    changed = new | {name: self.of("u" * 300) for name in names[:40]}
                    m.update((name, changed[name]) for name in names[:40])
                    del m[names[50]], changed[names[50]]
                    self.check(m, changed)
                    raise ZeroDivisionError
                self.check(m, new)
                self.assertEqual(frozen.get_many(frozen), list(frozen.values()))

    def test_change_while_they_are_read(self) -> None:
        for m in self.both_kinds():
            small, large, larger = (self.of("v" * size) for size in (100, 1000, 5000))
            keys = [self.of(name) for name in ("small", "grows", "shrinks", "goes", "large")]
            m.update(zip(keys, [small, *[large] * 4]))
            changes = [{keys[1]: larger, keys[2]: small, keys[3]: None}, {keys[4]: small}]
            counts = []

            def get_many(lookups: object, count: int) -> int:
                found = type(m)._get_many(m, lookups, count)
                counts.append(count)
                for key, value in changes.pop(0).items() if changes else ():
                    if value is None:
                        del m[key]
                    else:
                        m[key] = value
                return found

            m._get_many = get_many
            # Each value is as it was at some time meanwhile.
            self.assertEqual(m.get_many(keys), [small, larger, small, None, large])
            self.assertEqual(counts, [5, 4, 1])
            del m._get_many

    def test_mistakes(self) -> None:
        for m in self.both_kinds():
            key = self.of("key")
            m[key] = key
            with self.heap.snapshot() as then:
                frozen = then[m]
                for reads in (m, frozen):
                    for wrong in (5, None, (), b"key" if self.of is str else "key"):
                        with self.assertRaises(TypeError) as expected:
                            reads.get(wrong)
                        with self.assertRaises(TypeError) as caught:
                            reads.get_many([key, wrong])
                        self.assertEqual(str(caught.exception), str(expected.exception))
                    self.assertRaisesRegex(TypeError, "iterable", reads.get_many, 5)
                    if self.of is str:
                        there = ["\ud800", "key", "k\udfff", "\udcc3\udca9"]
                        self.assertEqual(reads.get_many(there), [None, "key", None, None])
                with self.heap.read():
                    self.assertEqual(m.get_many([key]), [key])
                    with self.assertRaises(libfur.Error) as refused:
                        frozen.get_many([key])
                    self.assertEqual(refused.exception.code, libfur.Code.ENESTED)
            for keys in (), (key,):
                self.assertRaisesRegex(ValueError, "ended", frozen.get_many, keys)
        m = self.heap.hash_map("new")
        self.heap.destroy("new")
        other = self.maps()[0]
        for keys in (), (b"key",):
            self.assertRaisesRegex(ValueError, "destroyed", m.get_many, keys)
        self.heap.close()
        for keys in (), (b"key",):
            self.assertRaisesRegex(ValueError, "closed", other.get_many, keys)


class Transactions(HeapTest):
    def test_an_update_is_all_or_nothing(self) -> None:
        one, two = self.maps(text=True)
        one["a"] = "1"
        with self.assertRaises(ZeroDivisionError), self.heap.update():
            one["a"] = "2"
            two["b"] = "2"
            self.assertEqual((one["a"], dict(two)), ("2", {"b": "2"}))
            with self.heap.read():
                self.assertEqual(one["a"], "2")
            raise ZeroDivisionError
        self.assertEqual((dict(one), dict(two)), ({"a": "1"}, {}))
        with self.heap.update(), self.heap.update():
            one["a"] = "3"
            two["b"] = "3"
        self.reopen()
        one, two = self.maps(text=True)
        self.assertEqual((dict(one), dict(two)), ({"a": "3"}, {"b": "3"}))

    def test_an_inner_exception_is_the_end_of_the_outer_update(self) -> None:
        one, _ = self.maps(text=True)
        with self.assertRaises(libfur.Error), self.heap.update():
            one["a"] = "1"
            try:
                with self.heap.update():
                    raise KeyError
            except KeyError:
                pass
        self.assertEqual(dict(one), {})

    def test_a_store_while_reading_is_an_error(self) -> None:
        one, _ = self.maps(text=True)
        with self.heap.read():
            with self.assertRaises(libfur.Error):
                one["a"] = "1"
            with self.heap.read():
                self.assertEqual(dict(one), {})
        one["a"] = "1"

    def test_a_full_heap_and_a_full_log(self) -> None:
        one, two = self.maps()
        one[b"k"] = b"v"
        with self.assertRaises(libfur.Error) as caught, self.heap.update():
            for n in range(10_000):
                one[b"%d" % n] = bytes(10)
        self.assertEqual(caught.exception.code, -15, caught.exception)
        self.assertEqual(dict(one), {b"k": b"v"})
        with self.assertRaises(libfur.Error) as caught:
            for n in range(100_000):
                two[b"%d" % n] = bytes(10_000)
        self.assertEqual(caught.exception.code, -10, caught.exception)
        self.assertGreater(len(two), 100)
        self.assertEqual(dict(one), {b"k": b"v"})

    def test_threads(self) -> None:
        accounts = self.heap.hash_map("accounts", text=True)
        names = [f"account number {n}" for n in range(10)]
        accounts.update({name: "100" for name in names})
        wrong: list[object] = []

        def transfer(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(150):
                source, target = chance.sample(names, 2)
                with self.heap.update():
                    accounts[source] = str(int(accounts[source]) - 5)
                    accounts[target] = str(int(accounts[target]) + 5)

        def audit() -> None:
            for _ in range(150):
                total = sum(map(int, accounts.values()))
                if total != 1000:
                    wrong.append(total)

        threads = [threading.Thread(target=transfer, args=(n,)) for n in range(3)]
        threads += [threading.Thread(target=audit)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(sum(map(int, accounts.values())), 1000)


class Snapshots(HeapTest):
    def small(self) -> None:
        """A heap that can save little."""
        self.heap.close()
        os.unlink(self.path)
        self.heap = libfur.Heap.create(self.path, snapshot_bytes=1, **OPTIONS)

    def test_show_what_there_was(self) -> None:
        seed = random.randrange(1 << 30)
        chance = random.Random(seed)
        one, two = self.maps()
        kept: list[tuple[libfur.Snapshot, dict[bytes, bytes], dict[bytes, bytes]]] = []
        for step in range(60):
            with self.heap.update():
                for m in (one, two):
                    for _ in range(10):
                        key = b"key %d" % chance.randrange(200)
                        if chance.randrange(3):
                            m[key] = chance.randbytes(chance.choice([0, 12, 13, 300, 1000]))
                        else:
                            m.pop(key, None)
            if step % 5 == 0:
                kept.append((self.heap.snapshot(), dict(one), dict(two)))
            if len(kept) > 4:
                kept.pop(chance.randrange(5))[0].close()
            for then, *models in kept:
                for m, model in zip((one, two), models):
                    with self.subTest(seed=seed, step=step):
                        frozen = then[m]
                        self.assertEqual(frozen, model)
                        self.assertEqual(dict(frozen.items()), model)
                        self.assertEqual(sorted(frozen.values()), sorted(model.values()))
                        self.assertEqual(len(frozen), len(model))
                        key = b"key %d" % chance.randrange(200)
                        self.assertEqual(
                            (key in frozen, frozen.get(key)), (key in model, model.get(key))
                        )
                ordered, model = then[two], models[1]
                self.assertEqual(list(ordered), sorted(model))
                self.assertEqual(list(reversed(ordered)), sorted(model, reverse=True))
                self.assertEqual(ordered.first(), min(model.items()))
                self.assertEqual(ordered.last(), max(model.items()))
                found = [key for key, _ in ordered.scan(b"key 3", b"key 7")]
                self.assertEqual(found, sorted(k for k in model if b"key 3" <= k < b"key 7"))
        one.clear()
        two.clear()
        with self.heap.snapshot() as then:
            self.assertEqual((dict(then[one]), list(then[two])), ({}, []))
            self.assertRaises(KeyError, then[two].first)
            self.assertRaises(KeyError, lambda: then[one][b"k"])

    def test_iteration_beside_updates(self) -> None:
        one, two = self.maps(text=True)
        there = {
            f"{n:05}": "v" * (n % 90) + "w" * (70_000 if n % 800 == 9 else 0) for n in range(3000)
        }
        for start in range(0, 3000, 500):
            part = {key: there[key] for key in list(there)[start : start + 500]}
            for m in (one, two):
                with self.heap.update():
                    m.update({key: value for key, value in part.items() if len(value) < 100})
                m.update({key: value for key, value in part.items() if len(value) >= 100})
        stop = threading.Event()

        def change() -> None:
            n = 0
            while not stop.is_set():
                two[f"{n % 3000:05}"] = one[f"{n % 3000:05}"] = "new"
                n += 1

        thread = threading.Thread(target=change)
        with self.heap.snapshot() as then:
            thread.start()
            try:
                for m in (one, two):
                    frozen, found = then[m], {}
                    for key, value in frozen.items():
                        found[key] = value
                        del m[key]  # also by this thread, which has no transaction open
                    self.assertEqual(found, there)
                    self.assertEqual(frozen, there)
            finally:
                stop.set()
                thread.join()
            self.assertEqual(list(then[two]), list(there))

    def test_too_old(self) -> None:
        self.small()
        two = self.maps()[1]
        keys = [b"%05d" % n for n in range(3000)]
        for key in keys:
            two[key] = b"old" * 30
        then = self.heap.snapshot()
        frozen = then[two]
        walk = frozen.items().__iter__()
        self.assertEqual(next(walk), (keys[0], b"old" * 30))
        for key in keys:
            two[key] = b"new" * 30
        with self.assertRaisesRegex(libfur.Error, "snapshot_bytes") as caught:
            for _, value in walk:
                self.assertEqual(value, b"old" * 30)
        self.assertEqual(caught.exception.code, libfur.Code.ETOOOLD)
        self.assertNotIn("fur_", str(caught.exception))
        calls: list[Callable[[], object]]
        calls = [lambda: then[two], lambda: len(frozen), lambda: frozen[b"k"], frozen.first]
        calls += [lambda: frozen.get_many([b"k"])]
        for call in calls:
            with self.assertRaises(libfur.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, libfur.Code.ETOOOLD)
        with self.heap.snapshot() as now:
            self.assertEqual(then._heap, now._heap)
            self.assertEqual(len(now[two]), 3000)
        then.close()

    def test_maps_that_come_and_go(self) -> None:
        one, two = self.maps(text=True)
        one["k"] = "old"
        before = self.heap.snapshot()
        self.heap.destroy("hash")
        new = self.heap.hash_map("new", text=True)  # perhaps where the other one was
        new["k"] = "new"
        self.assertEqual(dict(before[one]), {"k": "old"})
        self.assertRaisesRegex(KeyError, "new", before.__getitem__, new)
        with self.heap.snapshot() as after:
            self.assertEqual(dict(after[new]), {"k": "new"})
            self.assertRaisesRegex(KeyError, "hash", after.__getitem__, one)
        self.assertRaises(TypeError, before.__getitem__, "hash")
        with libfur.Heap.create(self.path + ".other", **OPTIONS) as other:
            self.assertRaisesRegex(ValueError, "heap", before.__getitem__, other.hash_map("hash"))
        before.close()

    def test_end(self) -> None:
        two = self.maps(text=True)[1]
        two["k"] = "v"
        many = [self.heap.snapshot() for _ in range(64)]
        with self.assertRaisesRegex(libfur.Error, "64") as caught:
            self.heap.snapshot()
        self.assertEqual(caught.exception.code, libfur.Code.EBUSY)
        many.pop()  # nothing refers to it any more
        many.append(self.heap.snapshot())
        with self.heap.update():
            many.pop()
            two["k"] = "w"
        frozen = many[0][two]
        many[0].close()
        many[0].close()
        self.assertRaisesRegex(ValueError, "ended", many[0].__getitem__, two)
        self.assertRaisesRegex(ValueError, "ended", frozen.get, "k")
        self.assertIn("ended", repr(frozen))
        many[0] = self.heap.snapshot()
        many.append(self.heap.snapshot())
        # Not inside a block.
        for block in (self.heap.update, self.heap.read):
            with block():
                for call in (self.heap.snapshot, many[1].close, lambda: many[1][two]):
                    with self.assertRaises(libfur.Error) as caught:
                        call()
                    self.assertEqual(caught.exception.code, libfur.Code.ENESTED)
        frozen = many[1][two]
        self.assertEqual(frozen["k"], "v")
        self.assertRaisesRegex(TypeError, "pickled", pickle.dumps, frozen)
        self.heap.close()
        self.assertRaisesRegex(ValueError, "closed", frozen.get, "k")
        self.assertRaisesRegex(ValueError, "closed", self.heap.snapshot)
        many[1].close()
        self.reopen()
        self.assertEqual(self.maps(text=True)[1]["k"], "w")

    def test_a_transaction_on_another_heap(self) -> None:
        two = self.maps(text=True)[1]
        with libfur.Heap.create(self.path + ".other", **OPTIONS) as other:
            then = self.heap.snapshot()
            with other.read():
                then.close()  # ends later
                self.assertRaisesRegex(ValueError, "ended", then.__getitem__, two)
                with self.assertRaisesRegex(libfur.Error, "another heap") as caught:
                    self.heap.close()
                self.assertEqual(caught.exception.code, libfur.Code.ENESTED)
            two["k"] = "v"
            self.assertEqual(self.heap._dropped, {})
        self.reopen()

    def test_close_while_another_thread_reads(self) -> None:
        one = self.maps()[0]
        for n in range(2000):
            one[b"%d" % n] = b"v"
        results: list[object] = []
        for _ in range(20):
            then = self.heap.snapshot()
            begun = threading.Event()

            def read() -> None:
                try:
                    while True:
                        results.append(sum(1 for _ in then[one]))
                        begun.set()
                except ValueError as error:
                    results.append(str(error))

            thread = threading.Thread(target=read)
            thread.start()
            begun.wait()
            while True:
                try:
                    then.close()
                    break
                except libfur.Error as error:
                    self.assertEqual(error.code, libfur.Code.EBUSY, error)
            thread.join()
            self.assertIn("ended", str(results.pop()))
        self.assertEqual(set(results), {2000})

    def test_a_child_of_fork_has_none(self) -> None:
        one = self.maps(text=True)[0]
        one["k"] = "v"
        then = self.heap.snapshot()
        child = os.fork()
        if child == 0:
            try:
                then[one]
            except libfur.Error as error:
                then.close()
                del then
                os._exit(7 if error.code == libfur.Code.EFORK else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        one["k"] = "w"
        self.assertEqual(then[one]["k"], "v")
        then.close()


class Heaps(HeapTest):
    def test_mistakes(self) -> None:
        there_is_none = self.path + ".none"
        with self.assertRaisesRegex(libfur.Error, "none") as caught:
            libfur.Heap.open(there_is_none)
        self.assertEqual(caught.exception.code, -3)
        with self.assertRaisesRegex(libfur.Error, "heap.fur"):
            libfur.Heap.create(self.path)
        self.assertRaisesRegex(TypeError, "heap_bytes", libfur.Heap.create, "x", heap_size=1)
        self.assertRaisesRegex(ValueError, "heap_bytes", libfur.Heap.create, "x", heap_bytes=-1)
        self.assertRaisesRegex(ValueError, "sync", libfur.Heap.create, "x", pm="disk")
        one, _ = self.maps()
        self.heap.close()
        self.heap.close()
        self.assertIn("closed", repr(self.heap))
        self.assertRaisesRegex(ValueError, "closed", one.get, b"k")

    def test_backup_growth_and_a_copy_to_read(self) -> None:
        self.heap.close()
        os.unlink(self.path)
        self.heap = libfur.Heap.create(self.path, max_bytes=64 << 20, **OPTIONS)
        one = self.heap.hash_map("hash", text=True)
        one["k"] = "before"
        self.heap.backup(self.path + ".copy")
        one["k"] = "after"
        self.heap.grow(32 << 20)
        self.assertEqual(self.heap.size, 32 << 20)
        # Another process: a copy has the addresses of its heap.
        reader = subprocess.run(
            [sys.executable, "-c", READER, self.path], stdout=subprocess.PIPE, text=True
        )
        self.assertEqual(reader.stdout, "after\nrefused\n")
        self.heap.close()
        with libfur.Heap.open(self.path + ".copy") as copy:
            self.assertEqual(copy.hash_map("hash", text=True)["k"], "before")

    def test_every_printed_update_survives_a_kill(self) -> None:
        self.heap.close()
        os.unlink(self.path)
        for _ in range(4):
            with subprocess.Popen(
                [sys.executable, "-c", WRITER, self.path], stdout=subprocess.PIPE, text=True
            ) as writer:
                assert writer.stdout
                last = ""
                for _ in range(random.randrange(20, 200)):
                    last = writer.stdout.readline()
                writer.send_signal(signal.SIGKILL)
                for line in writer.stdout:
                    last = line if line.endswith("\n") else last
            with libfur.Heap.open(self.path) as heap:
                done, mirror = heap.ordered_map("done"), heap.hash_map("mirror", text=True)
                numbers = [int.from_bytes(key, "big") for key in done]
                self.assertGreaterEqual(len(numbers), int(last))
                self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
                self.assertEqual(dict(mirror), {str(n): str(n * n) for n in numbers})

    def test_the_options_are_those_of_c(self) -> None:
        text = subprocess.run(
            [os.environ["OPTIONS"]], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        there = {name: int(value) for name, value in map(str.split, text.splitlines())}
        here = {name: getattr(libfur._Options, name).offset for name, _ in libfur._Options._fields_}
        here["sizeof"] = ctypes.sizeof(libfur._Options)
        here["info.heap_bytes"] = libfur._Info.heap_bytes.offset
        here["iterator"] = ctypes.sizeof(libfur._Iterator)
        here["ticket"] = ctypes.sizeof(libfur._Ticket)
        here["lookup"] = libfur._LOOKUP.size
        for name, structure in {
            "follow": libfur._ship.CFollowOptions,
            "state": libfur._ship.CFollowState,
        }.items():
            here[name] = ctypes.sizeof(structure)
            for member, *_ in structure._fields_:
                here[f"{name}.{member}"] = getattr(structure, member).offset
        here["token"] = ctypes.sizeof(libfur._ship.CToken)
        here["token.durts"] = libfur._ship.CToken.durts.offset
        # Machines that libfur knows have the lowest byte of a number first.
        lookup = libfur._LOOKUP.pack(*range(1, 7))
        for number, name in enumerate(("key", "key_bytes", "value", "room", "bytes", "found"), 1):
            here["lookup." + name] = lookup.index(number)
        for name in (*("HTM_NONE", "OPEN_OR_CREATE"),):
            here["FUR_" + name] = getattr(libfur, "_" + name)
        for code in libfur.Code:
            here["FUR_" + code.name] = code
        here["FUR_PM_SYNC"] = libfur._NAMED["pm"]["sync"]
        here["FUR_ACK_REPLICATED"] = libfur._NAMED["ack"]["replicated"]
        here["FUR_LOG_WARNING"], here["FUR_LOG_ERROR"] = range(1, len(libfur._LEVELS))
        # Python has no hardware transactions, and so one isolation.
        for of_rust in ("FUR_HTM_POWER", "FUR_SNAPSHOT"):
            del there[of_rust]
        here["FUR_MAP_BEHIND"] = libfur._BEHIND
        here["FUR_MAP_BEFORE"] = libfur._BEFORE
        self.assertEqual(here, there)


if __name__ == "__main__":
    unittest.main()
