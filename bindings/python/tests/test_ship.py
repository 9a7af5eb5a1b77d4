# SPDX-License-Identifier: BSD-3-Clause
"""Heaps that are shipped: primaries and standbys in processes of their own, and a log in a file.

FUR_SHIP and FUR_COPY in the environment: those programs.
"""
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from typing import Any, Optional

import libfur

FUR_SHIP, FUR_COPY = os.environ.get("FUR_SHIP", ""), os.environ.get("FUR_COPY", "")
OPTIONS: dict[str, Any] = {"heap_bytes": 16 << 20, "log_bytes": 1 << 18, "max_threads": 8}
PATIENCE_S = 120
# Numbers keys 1, 2, ...; each number goes to standard output when the log has its update.
PRIMARY = """
import sys, libfur
heap = libfur.Heap.open(sys.argv[1], ack="replicated")
numbers = heap.ordered_map("numbers", text=True)
n = 0
while True:
    n += 1
    numbers[f"{n:09}"] = str(n)
    print(n, flush=True)
"""
# Answers lines of standard input.
STANDBY = """
import sys, time, libfur
path, node = sys.argv[1], int(sys.argv[2], 16)
heap = libfur.Heap.open(path)
said = []
follower = heap.follow(log=lambda level, message: said.append(message), patience_ms=60000)
for line in sys.stdin:
    command, *numbers = line.split()
    if command == "read":
        token = libfur.Token(*map(int, numbers))
        heap.wait_token(token, 60)
        print(heap.hash_map("stock", text=True).get("nuts"))
    elif command == "look":
        try:
            heap.wait_token(libfur.Token(*map(int, numbers)), 0)
            print("there")
        except libfur.Error as error:
            print(error.code.name)
    elif command == "state":
        # It has also caught up with a log that is still empty.
        while not ((state := follower.state()).caught_up_ns and state.heard_ns):
            time.sleep(0.01)
        assert state.own_node == node, state
        assert state.follows and not state.promoted and state.error == 0, state
        assert state.durts and state.term and state.frame, state
        assert state.unread is not None and state.heard_ns, state
        print(*heap.get_token(), state.lineage, state.durts)
    elif command == "update":
        try:
            heap.hash_map("stock", text=True)["nuts"] = "own"
        except libfur.Error as error:
            print(error.code.name)
    elif command == "promote":
        follower.take_over(int(numbers[0]) if numbers else follower.state().term)
        assert follower.state().promoted, follower.state()
        assert said, "nothing was logged"
        follower.stop()
        heap.close()
        heap = libfur.Heap.open(path)
        print(len(heap.ordered_map("numbers")))
    elif command == "write":
        stock = heap.hash_map("stock", text=True)
        while stock["nuts"] != "new":
            try:
                stock["nuts"] = "new"
            except libfur.Error as error:
                assert error.code == libfur.Code.EBEHIND, error
        print("written")
    elif command == "stale":
        try:
            follower.take_over(follower.state().term + 1)
        except libfur.Error as error:
            print(error.code.name)
    sys.stdout.flush()
heap.close()
assert repr(follower).endswith("ended>"), follower
"""


def run(*args: str) -> str:
    done = subprocess.run(
        args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


class Process:
    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def ask(self, line: str = "") -> str:
        assert self.process.stdin and self.process.stdout
        if line:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def end(self, how: Optional[signal.Signals] = None) -> str:
        """By that signal, or by the end of its input.  Returns what it still prints."""
        if how:
            os.killpg(self.process.pid, how)
        said: str = self.process.communicate(timeout=PATIENCE_S)[0]
        return said


@unittest.skipUnless(FUR_SHIP and FUR_COPY, "FUR_SHIP and FUR_COPY name no programs")
class Shipped(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "heap")
        with libfur.Heap.create(self.path, **OPTIONS) as heap:
            heap.hash_map("stock", text=True)["nuts"] = "0"
            heap.ordered_map("numbers")
        run(FUR_SHIP, "--init", self.path, "--log", "file:" + self.path + "-log", "--quiet")

    def ship(self, path: str = "") -> Process:
        shipper = Process(FUR_SHIP, path or self.path, "--beat", "20", "--quiet")
        self.addCleanup(self.end, shipper)
        return shipper

    def end(self, process: Process) -> None:
        if process.process.returncode is None:
            process.end(signal.SIGKILL)

    def python(self, program: str, *args: str) -> Process:
        process = Process(sys.executable, "-c", program, *args)
        self.addCleanup(self.end, process)
        return process

    def copy(self) -> tuple[str, str]:
        path = self.path + "-standby"
        found = re.search(
            "standby, node ([0-9a-f]{16})", run(FUR_COPY, "--for-standby", self.path, path)
        )
        assert found
        return path, found[1]

    def test_a_standby_reads_what_its_program_has_written(self) -> None:
        self.ship()
        with libfur.Heap.open(self.path, ack="replicated") as heap:
            stock = heap.hash_map("stock", text=True)
            path, node = self.copy()
            standby = self.python(STANDBY, path, node)
            for n in range(1, 50):
                stock["nuts"] = str(n)
                token = heap.get_token()
                self.assertEqual(standby.ask(f"read {token.lineage} {token.durts}"), str(n))
                self.assertEqual(standby.ask(f"look {token.lineage} {token.durts}"), "there")
            lineage, durts, *shown = map(int, standby.ask("state").split())
            self.assertEqual([lineage, durts], [token.lineage, token.durts])
            self.assertEqual(shown, [token.lineage, token.durts])
            self.assertEqual(standby.ask(f"look {lineage} {durts + 1000}"), "EBEHIND")
            self.assertEqual(standby.ask("update"), "EREADONLY")
            self.assertEqual(standby.ask("stale"), "EFENCED")
            heap.wait_token(token, 60)
            with heap.update():
                self.refuses(libfur.Code.ENESTED, heap.get_token)
                self.refuses(libfur.Code.ENESTED, heap.wait_token, token, 0)
                self.refuses(libfur.Code.ENESTED, heap.follow)
            self.refuses(libfur.Code.EINVAL, heap.follow)  # it is the primary
            self.assertEqual(standby.end(), "")
            self.assertEqual(standby.process.returncode, 0)

    def test_a_standby_takes_over(self) -> None:
        shipper = self.ship()
        path, node = self.copy()
        primary = self.python(PRIMARY, self.path)
        standby = self.python(STANDBY, path, node)
        for _ in range(100):
            primary.ask()
        lineage, durts, *_ = map(int, standby.ask("state").split())
        shipper.end(signal.SIGKILL)
        said = primary.end(signal.SIGKILL).rpartition("\n")[0].rpartition("\n")[2]
        # The update that was under way may be there.
        self.assertGreaterEqual(int(standby.ask("promote")), max(100, int(said or 0)))
        self.assertIn("primary", run(FUR_SHIP, "--status", path).split("\n")[0])
        self.ship(path)
        self.assertEqual(standby.ask("write"), "written")
        self.assertEqual(standby.ask(f"read {lineage} {durts}"), "new")
        self.assertEqual(standby.ask(f"look {lineage} {durts + (1 << 40)}"), "ELOST")
        standby.end()
        self.assertEqual(standby.process.returncode, 0)

    def test_a_token_is_not_there_before_the_log_has_it(self) -> None:
        with libfur.Heap.open(self.path) as heap:
            stock = heap.hash_map("stock", text=True)
            self.refuses(libfur.Code.EBEHIND, heap.get_token)  # no fur-ship has worked
            shipper = self.ship()
            with self.assertRaises(ValueError):
                heap.wait_token(libfur.Token(1, 1), -1)
            while "nuts" in stock:
                try:
                    del stock["nuts"]
                except libfur.Error as error:
                    self.assertEqual(error.code, libfur.Code.EBEHIND)
            token = heap.get_token()
            heap.wait_token(token, PATIENCE_S)
            os.kill(shipper.process.pid, signal.SIGSTOP)
            stock["nuts"] = "1"
            later = heap.get_token()
            self.assertNotEqual(later, token)
            self.refuses(libfur.Code.EBEHIND, heap.wait_token, later, 0.3)
            # A signal handler ends a wait.
            before = signal.signal(signal.SIGALRM, self.interrupt)
            self.addCleanup(signal.signal, signal.SIGALRM, before)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            self.assertRaises(KeyboardInterrupt, heap.wait_token, later, PATIENCE_S)
            os.kill(shipper.process.pid, signal.SIGCONT)
            heap.wait_token(later, PATIENCE_S)

    def test_a_follower_in_this_process(self) -> None:
        self.ship()
        with libfur.Heap.open(self.path, ack="replicated") as heap:
            heap.hash_map("stock", text=True)["nuts"] = "1"
            token = heap.get_token()
            path, _ = self.copy()
        heap = libfur.Heap.open(path)
        self.addCleanup(heap.close)
        self.refuses(libfur.Code.EINVAL, heap.wait_token, token, 0)  # it does not follow
        with heap.follow(["no.such=1"]) as follower:
            end = time.monotonic() + PATIENCE_S
            while follower.state().follows:
                self.assertLess(time.monotonic(), end)
            self.assertEqual(follower.state().error, libfur.Code.EINVAL)
            self.assertIn("no.such=1", follower.state().message)
            self.assertIsNone(follower.state().unread)
        with self.assertRaises(TypeError):
            heap.follow("a=b")
        with self.assertRaises(ValueError):
            heap.follow(["a"])
        with self.assertRaises(TypeError):
            heap.follow(log=3)  # type: ignore[arg-type]
        with heap.follow() as follower:
            self.refuses(libfur.Code.EINVAL, heap.follow)
            with self.assertRaises(ValueError):
                follower.take_over(-1)
            with self.assertRaises(TypeError):
                pickle.dumps(follower)
            heap.wait_token(token, PATIENCE_S)
            self.assertEqual(heap.hash_map("stock", text=True)["nuts"], "1")
        self.assertRaises(ValueError, follower.state)
        self.assertRaises(ValueError, follower.take_over)
        follower.stop()
        # close() ends the follower.
        follower = heap.follow()
        heap.close()
        self.assertRaises(ValueError, follower.state)
        follower.stop()

    def test_a_follower_stops_while_other_threads_look(self) -> None:
        """stop() refuses as long as one is inside."""
        path, _ = self.copy()
        heap = libfur.Heap.open(path)
        self.addCleanup(heap.close)
        follower = heap.follow(log=logging.getLogger("libfur").log)
        ends = threading.Event()
        states: list[libfur.FollowState] = []

        def look() -> None:
            while not ends.is_set():
                try:
                    states.append(follower.state())
                except ValueError:
                    break

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        while not states:
            time.sleep(0.01)
        while True:
            try:
                follower.stop()
                break
            except libfur.Error as error:
                self.assertEqual(error.code, libfur.Code.EBUSY)
        for thread in threads:
            thread.join()
        ends.set()
        self.assertFalse(states[-1].promoted)

    def test_a_heap_that_nothing_refers_to(self) -> None:
        path, _ = self.copy()
        program = (
            "import gc, sys, libfur\n"
            "def f():\n"
            "    libfur.Heap.open(sys.argv[1]).follow(log=print)\n"
            "f()\n"
            "gc.collect()\n"
            "assert not libfur._logs, libfur._logs\n"
            "libfur.Heap.open(sys.argv[1]).close()\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "default", "-c", program, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("ResourceWarning", done.stdout)

    def test_a_child_of_fork_has_no_follower(self) -> None:
        path, _ = self.copy()
        with libfur.Heap.open(path) as heap, heap.follow() as follower:
            child = os.fork()
            if child == 0:
                try:
                    follower.state()
                except libfur.Error as error:
                    follower.stop()
                    heap.close()
                    os._exit(7 if error.code == libfur.Code.EFORK else 1)
                os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
            self.assertEqual(follower.state().error, 0)

    def interrupt(self, *_: object) -> None:
        raise KeyboardInterrupt

    def refuses(self, code: libfur.Code, function: Any, *args: Any) -> None:
        with self.assertRaises(libfur.Error) as raised:
            function(*args)
        self.assertEqual(raised.exception.code, code, raised.exception)


class Tokens(unittest.TestCase):
    def test_are_two_numbers_without_an_order(self) -> None:
        token = libfur.Token(3, 1 << 63)
        self.assertEqual(pickle.loads(pickle.dumps(token)), token)
        self.assertEqual(libfur.Token(*token), token)
        self.assertNotEqual(libfur.Token(3, 4), token)
        with self.assertRaises(TypeError):
            token < libfur.Token(3, 4)
        with self.assertRaises(TypeError):
            max(token, libfur.Token(3, 4))
        with self.assertRaises(TypeError):
            token >= token

    def test_of_a_heap_that_is_not_shipped(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with libfur.Heap.create(os.path.join(folder, "heap"), **OPTIONS) as heap:
                functions: list[Callable[[], object]] = [heap.get_token, heap.follow]
                functions.append(lambda: heap.wait_token(libfur.Token(1, 1), 0))
                for function in functions:
                    with self.assertRaises(libfur.Error) as raised:
                        function()
                    self.assertEqual(raised.exception.code, libfur.Code.EINVAL)
                with self.assertRaises(ValueError):
                    heap.wait_token(libfur.Token(1, 1 << 64), 0)


if __name__ == "__main__":
    unittest.main()
