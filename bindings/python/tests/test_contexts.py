# SPDX-License-Identifier: BSD-3-Clause
"""Who may use an open block: tasks, generators, greenlets, threads and forks; and closing."""
import asyncio
import contextlib
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import unittest
import warnings
from collections.abc import Generator, Iterator
from typing import Any, Callable

import libfur
from test_interrupts import OtherThread, transaction_of
from test_libfur import OPTIONS, HeapTest

try:
    import greenlet  # type: ignore[import]
except ImportError:
    greenlet = None

WAIT = 60
NESTED, NOTX, BUSY, FORK = -12, -13, -8, -20


class Failed(Exception):
    pass


def read_copy(path: str) -> dict[str, str]:
    """In another process."""
    with libfur.Heap.open_copy(path) as heap:
        return dict(heap.ordered_map("m", text=True))


class ContextTest(HeapTest):
    def setUp(self) -> None:
        super().setUp()
        self.m = self.heap.ordered_map("m", text=True)
        self.other = OtherThread()
        self.addCleanup(self.other.stop)

    def expect(self, **contents: str) -> None:
        """In every thread, and after a kill as far as another process can see it."""
        self.assertEqual(transaction_of(self.heap), 0)
        self.assertEqual(dict(self.m), contents)
        self.assertEqual(self.other.do(lambda: dict(self.m)), contents)


# ---------------------------------------------------------- all interleavings of two of a kind
#
# An actor enters a block, writes twice, and ends it; between these steps another one runs.

STEPS = 4


class Actor:
    def __init__(self, m: Any, name: str, block: bool, fails: bool) -> None:
        self.m, self.name, self.fails = m, name, fails
        self.block = m._heap.update() if block else None
        self.result: object = None

    def step(self, n: int) -> None:
        if self.result is not None:
            return
        try:
            if n in (1, 2):
                self.m.get(self.name)
                self.m[f"{self.name}{n}"] = "1"
            elif self.block and n == 0:
                self.block.__enter__()
            elif self.block and self.fails:
                self.block.__exit__(Failed, Failed(), None)
            elif self.block:
                self.block.__exit__(None, None, None)
            if n == 3:
                self.result = Failed() if self.fails else "acknowledged"
        except libfur.Error as error:
            self.result = error


class Interleavings(ContextTest):
    def check(self, drive: Callable[[list[Actor], tuple[int, ...]], None]) -> None:
        """drive(actors, order): do the step of actor order[0], then of order[1], ..."""
        refused = 0
        orders = sorted(set(itertools.permutations([0] * STEPS + [1] * STEPS)))
        for order in orders:
            for block, fails in ((True, False), (True, True), (False, False)):
                with self.subTest(order=order, block=block, fails=fails):
                    self.m.clear()
                    actors = [Actor(self.m, "a", True, fails), Actor(self.m, "b", block, False)]
                    drive(actors, order)
                    expected: dict[str, str] = {}
                    for actor in actors:
                        if actor.result == "acknowledged":
                            expected |= {actor.name + "1": "1", actor.name + "2": "1"}
                        elif isinstance(actor.result, libfur.Error):
                            refused += 1
                            self.assertEqual(actor.result.code, NESTED, actor.result)
                            # A single assignment that came before stays.
                            if not actor.block and actor.name + "1" in self.m:
                                expected[actor.name + "1"] = "1"
                        else:
                            self.assertIsInstance(actor.result, Failed)
                    self.expect(**expected)
        self.assertGreater(refused, len(orders))

    def test_generators(self) -> None:
        def run(actor: Actor) -> Iterator[None]:
            for n in range(STEPS):
                actor.step(n)
                yield

        def drive(actors: list[Actor], order: tuple[int, ...]) -> None:
            generators = [run(actor) for actor in actors]
            for n in order:
                next(generators[n])

        self.check(drive)

    def test_tasks(self) -> None:
        async def drive(actors: list[Actor], order: tuple[int, ...]) -> None:
            turns = list(order)

            async def run(me: int) -> None:
                for n in range(STEPS):
                    while turns[0] != me:
                        await asyncio.sleep(0)
                    actors[me].step(n)
                    turns.pop(0)
                    await asyncio.sleep(0)

            await asyncio.gather(run(0), run(1))

        self.check(lambda actors, order: asyncio.run(drive(actors, (*order, -1))))

    @unittest.skipIf(greenlet is None, "greenlet is not installed")
    def test_greenlets(self) -> None:
        def run(actor: Actor) -> None:
            for n in range(STEPS):
                actor.step(n)
                greenlet.getcurrent().parent.switch()

        def drive(actors: list[Actor], order: tuple[int, ...]) -> None:
            both = [greenlet.greenlet(run) for _ in actors]
            for n in order:
                both[n].switch(actors[n])

        self.check(drive)

    def test_threads(self) -> None:
        """They wait for each other."""
        for fails in (False, True):
            self.m.clear()
            actors = [Actor(self.m, name, True, fails and name == "a") for name in "abcd"]
            start = threading.Barrier(len(actors))

            def run(actor: Actor) -> None:
                start.wait()
                for n in range(STEPS):
                    actor.step(n)

            threads = [threading.Thread(target=run, args=(actor,)) for actor in actors]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(WAIT)
            names = "bcd" if fails else "abcd"
            self.expect(**{name + n: "1" for name in names for n in "12"})


class Contexts(ContextTest):
    def assertRefused(self, code: int, function: Callable[..., object], *args: Any) -> None:
        with self.assertRaises(libfur.Error) as caught:
            function(*args)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertNotIn("fur_", str(caught.exception))

    def test_two_tasks_of_a_loop(self) -> None:
        """Each kind of use by one task, while another one has a block open."""
        m, heap = self.m, self.heap
        m["k"] = "before"

        async def owner(block: Callable[[], Any], inside: asyncio.Event, go: asyncio.Event) -> None:
            async def helper() -> None:
                if block == heap.update:
                    m["k"] = "owner's"
                await asyncio.sleep(0)
                self.assertIn(m["k"], ("before", "owner's"))

            with block():
                await helper()
                inside.set()
                await go.wait()
                await helper()

        def enter(block: Callable[[], Any]) -> None:
            with block():
                pass

        uses: list[tuple[Any, ...]] = [
            *((m.get, "k"), (m.__setitem__, "k", "other's"), (m.__delitem__, "k"), (len, m)),
            (m.get_many, ["k"]),
            *((list, m), (m.pop, "k"), (m.clear,), (m.first,), (m.setdefault, "k", "v")),
            *((enter, heap.update), (enter, heap.read), (heap.hash_map, "h")),
            *((heap.remove_root, "m"), (heap.destroy, "m")),
        ]

        async def other(block: Callable[[], Any]) -> None:
            inside, go = asyncio.Event(), asyncio.Event()
            task = asyncio.ensure_future(owner(block, inside, go))
            await inside.wait()
            for use in uses:
                self.assertRefused(NESTED, *use)
            self.assertRefused(BUSY, heap.close)
            asyncio.get_running_loop().call_soon(self.assertRefused, NESTED, m.get, "k")
            await asyncio.sleep(0)
            go.set()
            await task

        asyncio.run(other(heap.read))
        self.expect(k="before")
        asyncio.run(other(heap.update))
        self.expect(k="owner's")

    def test_a_cancelled_task_rolls_back(self) -> None:
        async def owner() -> None:
            with self.heap.update():
                self.m["k"] = "v"
                await asyncio.sleep(WAIT)

        async def main() -> None:
            task = asyncio.ensure_future(owner())
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            self.m["later"] = "1"

        asyncio.run(main())
        self.expect(later="1")

    def test_helpers_lend_their_block(self) -> None:
        m, heap = self.m, self.heap

        @contextlib.contextmanager
        def transfer() -> Iterator[None]:
            with heap.update():
                m["from"] = "1"
                yield
                m["to"] = "1"

        with transfer():
            m["between"] = "1"
        with contextlib.ExitStack() as stack:
            stack.enter_context(heap.update())
            stack.enter_context(heap.read())
            m["stack"] = "1"
            self.assertEqual(sum(1 for _ in m), 4)
        block = heap.update()
        block.__enter__()
        m["by hand"] = "1"
        block.__exit__(None, None, None)
        self.assertRaises(RuntimeError, block.__exit__, None, None, None)

        @contextlib.asynccontextmanager
        async def asynchronous() -> Any:
            with heap.update():
                await asyncio.sleep(0)
                yield

        async def main() -> None:
            async with asynchronous():
                await asyncio.sleep(0)
                m["async"] = "1"
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(asynchronous())
                m["async stack"] = "1"

        asyncio.run(main())
        names = ("async", "async stack", "between", "by hand", "from", "stack", "to")
        self.expect(**{name: "1" for name in names})

    def test_a_block_is_entered_once(self) -> None:
        block = self.heap.update()
        with block:
            with self.assertRaises(RuntimeError), block:
                pass
            self.m["k"] = "v"
        with block:
            self.m["l"] = "v"
        self.expect(k="v", l="v")

    def test_ends_in_the_wrong_order(self) -> None:
        outer, inner = self.heap.update(), self.heap.update()
        outer.__enter__()
        inner.__enter__()
        self.m["k"] = "v"
        self.assertRefused(-16, outer.__exit__, None, None, None)
        self.assertRefused(NOTX, inner.__exit__, None, None, None)
        self.expect()

    def test_a_suspended_generator(self) -> None:
        m, heap = self.m, self.heap

        def generator(block: Callable[[], Any]) -> Generator[str, None, None]:
            with block():
                yield "".join(m)

        for block in (heap.update, heap.read):
            g = generator(block)
            next(g)
            self.assertRefused(NESTED, m.get, "k")
            self.assertRefused(NESTED, m.__setitem__, "k", "v")
            g.close()
            m["k"] = "v"
            # Another thread cannot end it; this one does, at its next use of the heap.
            g = generator(block)
            next(g)
            self.assertIsInstance(self.other.do(g.close), libfur.Error)
            self.assertEqual(m["k"], "v")
            self.expect(k="v")
            # One that is never closed ends with its last reference.
            g = generator(block)
            next(g)
            del g
            self.expect(k="v")
            # Also in a cycle of references, and in whatever thread finds that.
            keep: list[Any] = [generator(block)]
            keep.append(keep)
            next(keep[0])
            del keep
            hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
            self.other.do(gc.collect)
            sys.unraisablehook = hook
            self.assertEqual(m["k"], "v")
            self.expect(k="v")

    def test_a_threading_local_of_each_greenlet(self) -> None:
        """As gevent has it: what is open belongs to the thread all the same."""

        def generator() -> Generator[None, None, None]:
            with self.heap.update():
                self.m["k"] = "v"
                yield

        g = generator()
        next(g)
        local, self.heap._local = self.heap._local, libfur._Local()
        self.assertRefused(NESTED, self.m.get, "k")
        self.assertRefused(BUSY, self.heap.close)
        self.heap._local = local
        next(g, None)
        self.expect(k="v")

    def test_a_thread_ends_in_a_block(self) -> None:
        def generator() -> Iterator[None]:
            with self.heap.update():
                self.m["k"] = "v"
                yield

        for _ in range(3):
            g = generator()
            thread = threading.Thread(target=lambda: next(g))
            thread.start()
            thread.join(WAIT)
            self.m["l"] = "v"
            with self.assertRaises(libfur.Error):
                next(g)
            self.expect(l="v")

    def test_two_heaps(self) -> None:
        with libfur.Heap.create(self.path + ".2", **OPTIONS, max_threads=4) as two:
            n = two.hash_map("n", text=True)
            with self.heap.read():
                self.assertRefused(NESTED, n.__setitem__, "k", "v")
            n["k"] = "v"

    def test_lookups_do_not_fail_the_block_around_them(self) -> None:
        with self.heap.update():
            self.m["k"] = "v"
            self.assertRaises(KeyError, self.m.pop, "there is none")
            self.assertEqual(self.m.pop("there is none", 5), 5)
            self.assertEqual(self.m.popitem(), ("k", "v"))
            self.assertRaises(KeyError, self.m.popitem)
            self.assertRaises(KeyError, self.m.first)
            self.m["l"] = "v"
        self.expect(l="v")


class Closing(ContextTest):
    def test_while_threads_use_it(self) -> None:
        """It is refused, or it succeeds at a moment at which no thread is inside."""
        for _ in range(20):
            m, heap, stop = self.m, self.heap, threading.Event()
            wrong: list[Exception] = []

            def work(n: int) -> None:
                try:
                    while not stop.is_set():
                        m[str(n)] = "1"
                        with heap.update():
                            m[str(n)] = m[str(n)] + "1"
                        list(m.items())
                except ValueError as error:
                    if "closed" not in str(error):
                        wrong.append(error)
                except Exception as error:
                    wrong.append(error)

            threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
            for thread in threads:
                thread.start()
            for _ in range(50):
                try:
                    heap.close()
                    break
                except libfur.Error as error:
                    self.assertEqual(error.code, BUSY, error)
            stop.set()
            for thread in threads:
                thread.join(WAIT)
            heap.close()
            self.assertEqual(wrong, [])
            self.heap = libfur.Heap.open(self.path)
            self.m = self.heap.ordered_map("m", text=True)

    def test_two_threads_close(self) -> None:
        for _ in range(30):
            barrier = threading.Barrier(2)

            def close() -> None:
                barrier.wait()
                while True:
                    try:
                        return self.heap.close()
                    except libfur.Error as error:
                        self.assertEqual(error.code, BUSY)

            self.other.start(close)
            close()
            self.assertIsNone(self.other.result())
            self.reopen()

    def test_after_a_thread_that_has_ended_in_a_block(self) -> None:
        """Thread.join() returns before the C library has ended the thread."""
        for _ in range(20):
            block = self.heap.update()

            def enter() -> None:
                block.__enter__()
                self.m["k"] = "v"

            thread = threading.Thread(target=enter)
            thread.start()
            thread.join(WAIT)
            self.reopen()
            self.m = self.heap.ordered_map("m", text=True)
            self.expect()

    def test_everything_is_refused_afterwards(self) -> None:
        m, heap = self.m, self.heap
        block = heap.update()
        heap.close()

        def enter() -> None:
            with block:
                pass

        uses: list[tuple[Any, ...]] = [
            *((m.get, "k"), (m.__setitem__, "k", "v"), (m.__delitem__, "k"), (len, m)),
            (m.get_many, ["k"]),
            *((m.clear,), (lambda: next(m.scan()),), (list, m), (m.__contains__, "k"), (m.first,)),
            *((heap.hash_map, "h"), (heap.remove_root, "m"), (heap.destroy, "m"), (enter,)),
            *((heap.grow, 1 << 20), (heap.backup, "x"), (lambda: heap.size,)),
        ]
        for do in (lambda use: use(), self.other.do):
            for function, *arguments in uses:
                try:
                    error = do(lambda: function(*arguments))
                except ValueError as raised:
                    error = raised
                self.assertIsInstance(error, ValueError, function)
                self.assertIn("closed", str(error))
        heap.close()

    def test_a_dropped_heap_is_closed(self) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.heap.close()
            heap = libfur.Heap.open(self.path)
            heap.ordered_map("m", text=True)["k"] = "v"
            del heap
            gc.collect()
            self.heap = libfur.Heap.open(self.path)
        self.assertEqual([w.category for w in caught], [ResourceWarning])
        self.m = self.heap.ordered_map("m", text=True)
        self.expect(k="v")


class Processes(ContextTest):
    def in_child(self, body: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            status = 99
            try:
                body()
                status = 0
            except libfur.Error as error:
                status = -error.code
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_fork(self) -> None:
        m, heap = self.m, self.heap
        m["k"] = "v"
        self.other.do(lambda: m.get("k"))
        uses: list[Callable[[], object]] = [
            *(lambda: m.get("k"), lambda: m.__setitem__("k", "child"), lambda: len(m)),
            *(lambda: heap.update().__enter__(), lambda: heap.hash_map("h")),
        ]
        for use in uses:
            self.assertEqual(self.in_child(use), -FORK)
        self.assertEqual(self.in_child(heap.close), 0)
        with heap.update():
            m["k"] = "w"
            for use in uses[:3]:
                self.assertEqual(self.in_child(use), -FORK)
            self.assertEqual(self.in_child(heap.close), 0)
        self.expect(k="w")

        def end_block() -> None:
            with heap.update():
                m["k"] = "x"
                # The child also leaves the block: os.fork() returns twice.
                pid = os.fork()
                if pid:
                    os.waitpid(pid, 0)
                    self.pid = pid
            if not self.pid:
                os._exit(0)

        self.pid = 0
        parent = os.getpid()
        try:
            end_block()
        except libfur.Error as error:
            if os.getpid() != parent:
                os._exit(0 if error.code == FORK else 1)
            raise
        self.expect(k="x")

    def test_multiprocessing(self) -> None:
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()

        def work() -> None:
            try:
                self.m["k"] = "child"
            except libfur.Error as error:
                results.put(error)

        with self.heap.update():
            self.m["k"] = "v"
            process = context.Process(target=work)
            process.start()
            error = results.get()
            process.join(WAIT)
        self.assertEqual(process.exitcode, 0)
        self.assertEqual(error.code, FORK)
        self.expect(k="v")

    def test_a_spawned_process_reads_a_copy(self) -> None:
        self.m["k"] = "v"
        context = multiprocessing.get_context("spawn")
        for one in (self.heap, self.m):
            with self.assertRaisesRegex(TypeError, "open_copy"):
                pickle.dumps(one)
        with context.Pool(1) as pool:
            self.assertEqual(pool.apply(read_copy, (self.path,)), {"k": "v"})
            with self.assertRaises(libfur.Error) as caught:
                pool.apply(libfur.Heap.open, (self.path,))
        self.assertEqual(caught.exception.code, BUSY)
        self.expect(k="v")

    def test_errors_can_be_pickled(self) -> None:
        error = libfur.Error(-3, "no such file")
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((copy.code, str(copy)), (-3, "no such file"))

    def exit_with(self, *program: str) -> dict[str, str]:
        self.heap.close()
        script = "\n".join(
            (
                "import sys, threading, time, libfur",
                "heap = libfur.Heap.open(sys.argv[1])",
                "m = heap.ordered_map('m', text=True)",
                "m['acknowledged'] = '1'",
                *program,
            )
        )
        child = subprocess.run(
            [sys.executable, "-c", script, self.path], stderr=subprocess.PIPE, timeout=WAIT
        )
        self.assertEqual((child.returncode, child.stderr.decode()), (0, ""))
        self.heap = libfur.Heap.open(self.path)
        self.m = self.heap.ordered_map("m", text=True)
        return dict(self.m)

    def test_exit_of_the_interpreter(self) -> None:
        only = {"acknowledged": "1"}
        self.assertEqual(self.exit_with(), only)
        self.assertEqual(self.exit_with("with heap.update(): m['k'] = 'v'; sys.exit()"), only)
        generator = (
            "def generator():",
            "    with heap.update():",
            "        m['k'] = 'v'",
            "        yield",
            "g = generator()",
        )
        self.assertEqual(self.exit_with(*generator, "next(g)"), only)
        self.assertEqual(
            self.exit_with(
                *generator,
                "def sleep():",
                "    next(g)",
                "    entered.set()",
                "    time.sleep(1000)",
                "entered = threading.Event()",
                "threading.Thread(target=sleep, daemon=True).start()",
                "entered.wait()",
            ),
            only,
        )
        self.assertEqual(
            self.exit_with(
                *generator,
                "next(g)",
                # It waits for the update.
                "threading.Thread(target=lambda: m.get('k'), daemon=True).start()",
                "time.sleep(0.1)",
            ),
            only,
        )

    def test_a_kill_in_a_block(self) -> None:
        self.heap.close()
        script = (
            "import os, sys, libfur; heap = libfur.Heap.open(sys.argv[1])\n"
            "m = heap.ordered_map('m', text=True); m['acknowledged'] = '1'\n"
            "with heap.update(): m['k'] = 'v'; os.kill(os.getpid(), 9)\n"
        )
        child = subprocess.run([sys.executable, "-c", script, self.path], timeout=WAIT)
        self.assertEqual(child.returncode, -signal.SIGKILL)
        self.heap = libfur.Heap.open(self.path)
        self.m = self.heap.ordered_map("m", text=True)
        self.expect(acknowledged="1")


if __name__ == "__main__":
    unittest.main()
