# SPDX-License-Identifier: BSD-3-Clause
"""Tasks that await durability: the event loop runs on, and one wait serves many tasks."""
import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
import unittest
import warnings
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from unittest import mock

import libfur
from test_libfur import HeapTest

NESTED, ABORTED, FORK, IO = -12, -16, -20, -17


class Medium:
    """fur_sync as it is, but each call waits for permission."""

    def __init__(self) -> None:
        self.calls = 0
        self.threads: set[int] = set()
        self.may_go = threading.Event()
        self.result = 0
        self._sync = libfur._lib.fur_sync

    def fur_sync(self, heap: Any) -> int:
        self.calls += 1
        self.threads.add(threading.get_ident())
        self.may_go.wait(60)
        return int(self.result or self._sync(heap))


@contextlib.contextmanager
def slow_medium() -> Iterator[Medium]:
    medium = Medium()
    with mock.patch.object(libfur._lib, "fur_sync", medium.fur_sync):
        yield medium
        medium.may_go.set()


class Tasks(HeapTest):
    def setUp(self) -> None:
        super().setUp()
        self.m = self.heap.ordered_map("m", text=True)

    async def put(self, key: str, value: str = "v") -> None:
        async with self.heap.update():
            self.m[key] = value

    async def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), end)
            await asyncio.sleep(0.001)

    def run_with(self, main: Callable[[Medium], Awaitable[None]]) -> None:
        async def with_medium() -> None:
            with slow_medium() as medium:
                await main(medium)

        asyncio.run(with_medium())

    def test_the_loop_runs_while_tasks_wait(self) -> None:
        async def main(medium: Medium) -> None:
            tasks = [asyncio.ensure_future(self.put(f"{n:03}")) for n in range(100)]
            await self.until(lambda: len(self.m) == 100)
            await asyncio.sleep(0.05)
            self.assertFalse(any(task.done() for task in tasks))
            medium.may_go.set()
            await asyncio.gather(*tasks)
            # One wait had begun with the first tasks; one more serves all others.
            self.assertLessEqual(medium.calls, 3)
            self.assertEqual(len(medium.threads), 1)
            self.assertNotIn(threading.get_ident(), medium.threads)

        self.run_with(main)
        self.assertEqual(len(self.m), 100)

    def test_a_wait_that_has_begun_does_not_serve_later_updates(self) -> None:
        async def main(medium: Medium) -> None:
            one = asyncio.ensure_future(self.put("one"))
            await self.until(lambda: medium.calls == 1)
            two = asyncio.ensure_future(self.put("two"))
            await self.until(lambda: "two" in self.m)
            medium.may_go.set()
            await asyncio.gather(one, two)
            self.assertEqual(medium.calls, 2)

        self.run_with(main)

    def test_reads_and_explicit_waits(self) -> None:
        async def main(medium: Medium) -> None:
            with self.heap.update(wait=False):
                self.m["k"] = "v"
            with self.heap.read(wait=False):
                self.assertEqual(self.m["k"], "v")

            async def read() -> str:
                async with self.heap.read():
                    return self.m["k"]

            tasks = [asyncio.ensure_future(f) for f in (read(), self.heap.durable())]
            await self.until(lambda: medium.calls)
            self.assertFalse(any(task.done() for task in tasks))
            medium.may_go.set()
            self.assertEqual((await asyncio.gather(*tasks))[0], "v")

        self.run_with(main)
        self.heap.sync()

    def test_a_block_without_a_wait_does_not_wait(self) -> None:
        ends = []
        for name in ("fur_commit", "fur_end_ro"):
            end = getattr(libfur._lib, name)

            def note(tx: Any, ticket: Any, end: Any = end) -> Any:
                ends.append(ticket is not None)
                return end(tx, ticket)

            patch = mock.patch.object(libfur._lib, name, note)
            patch.start()
            self.addCleanup(patch.stop)
        for block in (self.heap.update, self.heap.read):
            with block(wait=False):
                with block():  # the outer one waits, or does not
                    pass
            with block():
                with block(wait=False):
                    pass
        self.assertEqual(ends, [True, False, True, False])

    def test_an_exception_rolls_back_and_nothing_waits(self) -> None:
        async def main(medium: Medium) -> None:
            with self.assertRaises(ZeroDivisionError):
                async with self.heap.update():
                    self.m["k"] = "v"
                    1 / 0
            with self.assertRaises(libfur.Error) as caught:
                async with self.heap.update():
                    with contextlib.suppress(ZeroDivisionError):
                        async with self.heap.update():
                            1 / 0
            self.assertEqual(caught.exception.code, ABORTED)
            self.assertEqual(medium.calls, 0)

        self.run_with(main)
        self.assertEqual(dict(self.m), {})

    def test_inner_blocks_do_not_wait(self) -> None:
        async def main(medium: Medium) -> None:
            with self.heap.update():
                await self.put("inner")
            self.assertEqual(medium.calls, 0)
            async with contextlib.AsyncExitStack() as stack:
                await stack.enter_async_context(self.heap.update())
                await self.put("also inner")
                self.assertEqual(medium.calls, 0)
                medium.may_go.set()
            self.assertEqual(medium.calls, 1)

        self.run_with(main)
        self.assertEqual(sorted(self.m), ["also inner", "inner"])

    def test_another_task_is_refused_inside_the_block_and_not_after_it(self) -> None:
        async def main(medium: Medium) -> None:
            inside, go = asyncio.Event(), asyncio.Event()

            async def owner() -> None:
                async with self.heap.update():
                    self.m["owner"] = "1"
                    inside.set()
                    await go.wait()

            task = asyncio.ensure_future(owner())
            await inside.wait()
            for use in (lambda: self.put("other"), self.heap.durable):
                with self.assertRaises(libfur.Error) as caught:
                    await use()
                self.assertEqual(caught.exception.code, NESTED)
                self.assertIn("await", str(caught.exception))
            go.set()
            await self.until(lambda: medium.calls)
            self.assertFalse(task.done())  # it waits, and its block has ended
            with self.heap.update():
                self.m["other"] = "1"
            medium.may_go.set()
            await task

        self.run_with(main)
        self.assertEqual(dict(self.m), {"owner": "1", "other": "1"})

    def test_waiting_inside_a_block_is_refused(self) -> None:
        async def main() -> None:
            with self.heap.update():
                for wait in (self.heap.durable, self.sync):
                    with self.assertRaises(libfur.Error) as caught:
                        await wait()
                    self.assertEqual(caught.exception.code, NESTED)
                self.m["k"] = "v"

        asyncio.run(main())
        self.assertEqual(dict(self.m), {"k": "v"})

    async def sync(self) -> None:
        self.heap.sync()

    def test_cancellation_keeps_the_update(self) -> None:
        async def main(medium: Medium) -> None:
            task = asyncio.ensure_future(self.put("k"))
            await self.until(lambda: medium.calls)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            medium.may_go.set()
            await self.put("l")

        self.run_with(main)
        self.assertEqual(sorted(self.m), ["k", "l"])

    def test_close_completes_those_who_wait(self) -> None:
        async def main(medium: Medium) -> None:
            tasks = [asyncio.ensure_future(self.put(key)) for key in "abc"]
            await self.until(lambda: medium.calls)
            threading.Timer(0.05, medium.may_go.set).start()
            self.heap.close()
            await asyncio.gather(*tasks)
            with self.assertRaisesRegex(ValueError, "closed"):
                await self.heap.durable()

        self.run_with(main)
        self.heap = libfur.Heap.open(self.path)
        self.assertEqual(sorted(self.heap.ordered_map("m", text=True)), ["a", "b", "c"])

    def test_each_task_has_the_error_of_the_medium(self) -> None:
        async def main(medium: Medium) -> None:
            medium.result = IO
            medium.may_go.set()
            results = await asyncio.gather(
                *(self.put(str(n)) for n in range(3)), return_exceptions=True
            )
            self.assertEqual([type(r) for r in results], [libfur.Error] * 3)
            self.assertEqual(len(set(map(id, results))), 3)
            medium.result = 0
            await self.put("good")

        self.run_with(main)

    def test_two_loops(self) -> None:
        """In two threads, and then a third loop after them."""

        def work(name: str) -> None:
            async def main() -> None:
                for n in range(50):
                    await asyncio.gather(*(self.put(f"{name}{n}.{k}") for k in range(3)))

            asyncio.run(main())

        threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        work("c")
        self.assertEqual(len(self.m), 3 * 150)

    def test_the_waiting_thread_ends_and_keeps_no_heap(self) -> None:
        with mock.patch.object(libfur, "_IDLE", 0.01):
            asyncio.run(self.put("k"))
            waiter = self.heap._waiter
            end = time.monotonic() + 60
            while waiter._thread is not None and time.monotonic() < end:
                time.sleep(0.001)
            self.assertIsNone(waiter._thread)
        asyncio.run(self.put("l"))  # and there is a new one
        self.heap.close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.heap = libfur.Heap.open(self.path)
            self.m = self.heap.ordered_map("m", text=True)
            asyncio.run(self.put("m"))
            self.m = self.heap = None  # type: ignore
            gc.collect()
            self.heap = libfur.Heap.open(self.path)
        self.assertEqual([w.category for w in caught], [ResourceWarning])
        self.assertEqual(sorted(self.heap.ordered_map("m", text=True)), ["k", "l", "m"])

    def test_a_child_of_fork(self) -> None:
        async def main() -> None:
            await self.put("k")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of fork beside threads
                child = os.fork()
            if child == 0:
                status = 1
                try:
                    await self.heap.durable()
                except libfur.Error as error:
                    if error.code == FORK:
                        self.heap.close()
                        status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            await self.put("l")

        asyncio.run(main())

    @unittest.skipIf(sys.version_info < (3, 11), "no TaskGroup")
    def test_a_task_group(self) -> None:
        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                for n in range(20):
                    group.create_task(self.put(str(n)))

        asyncio.run(main())
        self.assertEqual(len(self.m), 20)


if __name__ == "__main__":
    unittest.main()
