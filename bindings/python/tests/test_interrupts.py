# SPDX-License-Identifier: BSD-3-Clause
"""An exception, another thread, or a signal handler comes at each instruction of the module, or
at each third one without EACH_INSTRUCTION in the environment.

Opcode tracing counts the instructions of libfur/__init__.py and of the operation below; at number
n, for each such n, the trace function raises, or does something else.
"""
import dis
import os
import queue
import signal
import subprocess
import sys
import threading
import unittest
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, Optional

import libfur
from test_libfur import OPTIONS, HeapTest

WAIT = 60  # seconds; a thread that needs them hangs
FILES = (libfur.__file__, __file__)


# The interpreter delivers no signal here, and an exception here would spoil its stack of handled
# exceptions.
NEVER = {dis.opmap[name] for name in ("PUSH_EXC_INFO", "COPY", "POP_EXCEPT") if name in dis.opmap}


STRIDE = 1 if "EACH_INSTRUCTION" in os.environ else 3


class Interrupt(KeyboardInterrupt):
    pass


def put(m: Any) -> None:
    m["a"] = "new"


def remove(m: Any) -> None:
    del m["a"]


def get(m: Any) -> None:
    m.get("a")


def get_many(m: Any) -> None:
    m.get_many(["a", "b"])


def contains(m: Any) -> None:
    "a" in m


def update(m: Any) -> None:
    with m._heap.update():
        m["a"] = "new"
        m["b"] = "new"


def update_in_update(m: Any) -> None:
    with m._heap.update():
        m["a"] = "new"
        with m._heap.update():
            m["b"] = "new"


async def asynchronous(m: Any) -> None:
    async with m._heap.update():
        m["a"] = "new"
        m["b"] = "new"


def update_asynchronously(m: Any) -> None:
    try:
        asynchronous(m).send(None)
    except RuntimeError as error:  # after the end of the block: there is no loop to wait in
        assert "loop" in str(error), error


def failing_update(m: Any) -> None:
    with m._heap.update():
        m["a"] = "new"
        raise ZeroDivisionError


def read(m: Any) -> None:
    with m._heap.read():
        m.get("a")
        m.get("b")


def failing_read(m: Any) -> None:
    with m._heap.read():
        m.get("a")
        raise ZeroDivisionError


def iterate(m: Any) -> None:
    dict(m.items())


def pop(m: Any) -> None:
    m.pop("a")


def read_snapshot(m: Any) -> None:
    with m._heap.snapshot() as then:
        dict(then[m].items())


def refused_update(m: Any) -> None:
    """The begin itself fails."""
    with m._heap.other.read(), m._heap.update():
        raise AssertionError


OPERATIONS = (
    *(put, remove, get, get_many, contains, len, pop, iterate),
    *(update, update_in_update, update_asynchronously, failing_update, read, failing_read),
    read_snapshot,
)


class Tracer:
    """Calls act() at instruction number `at`, and, after an exception, again at `again` more."""

    def __init__(self, at: int, act: Callable[[], None], again: int = 0) -> None:
        self.at, self.act, self.again, self.count = at, act, again, 0
        self.operation: Optional[FrameType] = None

    def call(self, frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if name != FILES[0] and (name != FILES[1] or frame.f_code is Tracer.run.__code__):
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "opcode":
            self.count += 1
            if self.count == self.at and frame.f_code.co_code[frame.f_lasti] in NEVER:
                self.at += 1
            elif self.count == self.at:
                if self.again:
                    self.at, self.again = self.count + self.again, 0
                    # An exception ends the tracing; the next call or return goes on with it.
                    sys.setprofile(self.go_on)
                self.act()
                sys.settrace(None)
        return self.step

    def go_on(self, frame: Optional[FrameType], event: str, _: object) -> None:
        sys.setprofile(None)
        sys.settrace(self.call)
        while frame and frame.f_code is not Tracer.run.__code__:
            frame.f_trace = self.call(frame, event, None)
            frame = frame.f_back

    def run(self, operation: Callable[[Any], object], m: Any) -> Optional[BaseException]:
        sys.settrace(self.call)
        try:
            operation(m)
        except BaseException as error:
            return error
        finally:
            sys.settrace(None)
            sys.setprofile(None)
        return None

    @property
    def done(self) -> bool:
        """The operation has fewer instructions."""
        return self.count < self.at


def interrupt() -> None:
    raise Interrupt


class OtherThread:
    """Does what it is asked to do in a thread of its own."""

    def __init__(self) -> None:
        self.tasks: queue.Queue[Optional[Callable[[], object]]] = queue.Queue()
        self.results: queue.Queue[object] = queue.Queue()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self) -> None:
        while task := self.tasks.get():
            try:
                self.results.put(task())
            except BaseException as error:
                self.results.put(error)

    def start(self, task: Callable[[], object]) -> None:
        self.tasks.put(task)

    def result(self) -> Any:
        return self.results.get(timeout=WAIT)

    def do(self, task: Callable[[], object]) -> Any:
        self.start(task)
        return self.result()

    def stop(self) -> None:
        self.tasks.put(None)
        self.thread.join(WAIT)


def transaction_of(heap: libfur.Heap) -> int:
    """What the library has open for the calling thread: 0 is nothing."""
    kind: int = libfur._lib.fur_thread_transaction(heap._me())
    return kind


class InterruptTest(HeapTest):
    def setUp(self) -> None:
        super().setUp()
        tracer = Tracer(1 << 30, interrupt)
        tracer.run(put, {})
        if tracer.count < 3:
            self.skipTest("this Python does not trace instructions (3.13.0)")
        self.other = OtherThread()
        self.addCleanup(self.other.stop)
        hook = sys.unraisablehook
        self.addCleanup(lambda: setattr(sys, "unraisablehook", hook))
        # An interrupt may come between the call of a coroutine and its first step.
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.filterwarnings("ignore", "coroutine .* was never awaited")
        # An exception may come inside the callback of a weak reference, or inside __del__().
        self.swallowed: list[object] = []
        sys.unraisablehook = lambda hook: self.swallowed.append(hook.exc_value)
        self.m = self.heap.hash_map("m", text=True)
        # Also done by the first operation of a thread, which the tests below want to be like all.
        self.m.update({"a": "old", "b": "old"})

    def check_after(self, what: str, kept: object) -> None:
        """`kept`: the exception, whose traceback stays alive."""
        m = self.m
        m["after"] = what
        self.assertEqual(transaction_of(self.heap), 0, what)

        def look() -> tuple[Any, ...]:
            m["from the other thread"] = what
            with self.heap.read():
                return m["after"], m.get("a"), m.get("b")

        after, a, b = self.other.do(look)
        self.assertEqual(after, what)
        if what.startswith(("update", "failing")):
            self.assertEqual(a, b, what)
            self.assertIn(a, ("old", "new"), what)
        self.assertEqual(m["from the other thread"], what)
        with self.heap.update():
            m["a"] = m["b"] = "old"


class Interrupts(InterruptTest):
    def test_at_each_instruction(self) -> None:
        for operation in OPERATIONS:
            n = 0
            while True:
                tracer = Tracer(n + STRIDE, interrupt)
                error = tracer.run(operation, self.m)
                n = tracer.at
                if tracer.done:
                    break
                swallowed, self.swallowed = self.swallowed, []
                raised: list[object] = [error] if error else swallowed
                self.assertIsInstance(raised[0], Interrupt, (operation.__name__, n))
                del raised, swallowed
                # Not only by the next operation: other threads wait for it.
                self.assertEqual(transaction_of(self.heap), 0, (operation.__name__, n))
                self.check_after(f"{operation.__name__} {n}", error)
            self.assertGreater(n, 30, operation.__name__)

    def test_again_in_the_cleanup(self) -> None:
        for operation in (
            *(update, failing_update, update_in_update, update_asynchronously, read),
        ):
            for again in (1, 2, 3, 5, 8, 13, 21, 34, 55):
                n = again % 7
                while True:
                    n += 7 * STRIDE
                    tracer = Tracer(n, interrupt, again)
                    error = tracer.run(operation, self.m)
                    if tracer.done and tracer.again:
                        break
                    self.check_after(f"{operation.__name__} {n} {again}", error)

    def test_in_a_begin_that_fails(self) -> None:
        with libfur.Heap.create(self.path + ".other", **OPTIONS) as other:
            self.heap.other = other  # type: ignore[attr-defined]
            n = 0
            while True:
                n += STRIDE
                tracer = Tracer(n, interrupt)
                error = tracer.run(refused_update, self.m)
                self.assertEqual(transaction_of(self.heap), 0, n)
                self.assertEqual(transaction_of(other), 0, n)
                self.check_after(f"refused_update {n}", error)
                if tracer.done:
                    break
            self.assertIsInstance(error, libfur.Error)

    def test_of_close_and_open(self) -> None:
        def close(m: Any) -> None:
            then = m._heap.snapshot()
            m._heap.close()
            del then

        def reopen(m: Any) -> None:
            with libfur.Heap.open(self.path) as heap:
                heap.hash_map("m", text=True)["opened"] = "1"

        for operation in (close, reopen):
            n = 0
            while True:
                n += STRIDE
                if operation is reopen:
                    self.heap.close()
                tracer = Tracer(n, interrupt)
                error = tracer.run(operation, self.m)
                # What an interrupted close() leaves is open or closed, and can be closed, also
                # while the exception is alive.  An interrupted open() leaves the heap closed, or
                # in the traceback.
                if operation is reopen:
                    error = None
                self.heap.close()
                self.heap = libfur.Heap.open(self.path)
                self.m = self.heap.hash_map("m", text=True)
                if tracer.done:
                    break
                self.check_after(f"close {n}", error)
                self.other.stop()
                self.other = OtherThread()

    def test_what_was_acknowledged_survives_a_kill(self) -> None:
        self.heap.close()
        for operation in (put, remove, update, failing_update, read, iterate, pop):
            child = subprocess.run(
                [sys.executable, __file__, self.path, operation.__name__],
                stdout=subprocess.PIPE,
                text=True,
                timeout=WAIT,
            )
            self.assertEqual(child.returncode, -signal.SIGKILL)
            acknowledged = child.stdout.split()
            self.assertGreater(len(acknowledged), 5)
            with libfur.Heap.open(self.path) as heap:
                m = heap.hash_map("m", text=True)
                self.assertEqual([n for n in acknowledged if m.pop(n, None) is None], [])


class OthersBetweenInstructions(InterruptTest):
    def test_another_thread_closes_the_heap(self) -> None:
        refused = 0
        for operation in (put, get, update, read, iterate):
            n = 0
            while True:
                n += 3 * STRIDE if operation in (read, iterate) else STRIDE
                closing: list[Optional[BaseException]] = []

                def close() -> None:
                    # With pauses, because this is not the thread that is traced.
                    closing.append(self.other.do(self.heap.close))

                tracer = Tracer(n, close)
                error = tracer.run(operation, self.m)
                if tracer.done:
                    break
                if closing[0] is None:
                    if error:
                        self.assertIsInstance(error, ValueError, (operation.__name__, n))
                        self.assertIn("closed", str(error))
                    self.heap = libfur.Heap.open(self.path)
                    self.m = self.heap.hash_map("m", text=True)
                    if operation is not put:
                        self.m.get("a")
                else:
                    refused += 1
                    self.assertIsInstance(closing[0], libfur.Error)
                    self.assertIsNone(error, (operation.__name__, n))
        self.assertGreater(refused, 100 // STRIDE)

    def test_another_thread_writes(self) -> None:
        m = self.m
        for operation in (put, get, update, read):
            n = 0
            while True:
                n += STRIDE
                value = f"{operation.__name__} {n}"

                def write() -> None:
                    self.other.start(lambda: m.__setitem__("other", value))
                    # If a block is open, the other thread may have to wait for its end.
                    if self.heap._opened() is None:
                        results.append(self.other.result())

                results: list[object] = []
                tracer = Tracer(n, write)
                error = tracer.run(operation, m)
                if tracer.done:
                    break
                if not results:
                    results.append(self.other.result())
                self.assertEqual((error, results), (None, [None]), value)
                self.assertEqual(m["other"], value)

    def test_a_signal_handler_writes(self) -> None:
        m = self.m
        for operation in (put, get, len, iterate, update, read):
            n = 0
            while True:
                n += STRIDE
                value, refused = f"{operation.__name__} {n}", []

                def handle() -> None:
                    try:
                        m["handler"] = value
                    except libfur.Error as error:
                        refused.append(error)

                tracer = Tracer(n, handle)
                error = tracer.run(operation, m)
                if tracer.done:
                    break
                self.assertIsNone(error, value)
                self.assertEqual(transaction_of(self.heap), 0, value)
                if not refused:
                    self.assertEqual(self.other.do(lambda: m["handler"]), value)


def acknowledge(path: str, name: str) -> None:
    """Interrupt the operation here and there; write what follows; be killed."""
    heap = libfur.Heap.open(path)
    m = heap.hash_map("m", text=True)
    for n in range(1, 1000, 37):
        m.update({"a": "old", "b": "old"})
        Tracer(n, interrupt).run(globals()[name], m)
        m[str(n)] = "1"
        print(n, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        acknowledge(*sys.argv[1:])
    else:
        unittest.main()
