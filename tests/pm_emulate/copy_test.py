#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""fur-copy beside a program that works on the heap: each copy is sound, has every update that was
acknowledged before, and a state that the heap once had; also with a replayer alongside; and when
fur-copy or the program is killed.

    copy_test.py FUR_COPY VICTIM FUR_CHECK FUR_REPLAYER
"""
import atexit
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

fur_copy, victim, fur_check, fur_replayer = sys.argv[1:]
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, check=False)


class Work:
    """A program that updates a heap until it is killed."""

    def __init__(self, place, domain):
        self.heap, self.acks = f"{place}/heap", f"{place}/acks"
        self.copy, self.before, self.after = (f"{place}/{name}" for name in ("copy", "a", "b"))
        self.place = place
        for name in os.listdir(place):
            os.unlink(f"{place}/{name}")
        arguments = ["--heap", self.heap, "--acks", self.acks, "--updates", "100000000"]
        self.process = subprocess.Popen(
            [victim, "run", *arguments], env=dict(os.environ, FUR_PM=domain)
        )
        atexit.register(self.kill)  # a failed test must not leave it running
        self.wait_for_progress()

    def progress(self):
        """What has been acknowledged, as bytes that change with it."""
        try:
            with open(self.acks, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def wait_for_progress(self):
        at = self.progress()
        while not os.path.exists(self.heap) or self.progress() == at:
            assert self.process.poll() is None, "the victim has ended"
            time.sleep(0.005)

    def copied(self):
        shutil.copy(self.acks, self.before)
        done = run(fur_copy, self.heap, self.copy)
        shutil.copy(self.acks, self.after)
        return done

    def check_copy(self):
        done = run(fur_check, self.copy)
        assert done.returncode == 0, done.stdout + done.stderr
        done = run(
            *(victim, "check", "--heap", self.copy, "--acks", self.before, "--later", self.after)
        )
        assert done.returncode == 0, done.stdout + done.stderr
        os.unlink(self.copy)

    def kill(self):
        self.process.kill()
        self.process.wait()


def copies(work, rounds):
    for _ in range(rounds):
        done = work.copied()
        assert done.returncode == 0, done.stderr
        work.check_copy()
        work.wait_for_progress()


def copier_killed(work, rounds):
    """Kill fur-copy `rounds` times.  If it ends before, the next kill comes sooner."""
    killed, latest = 0, 0.01
    while killed < rounds:
        with subprocess.Popen([fur_copy, work.heap, work.copy]) as copier:
            time.sleep(random.uniform(0, latest))
            copier.kill()
        if copier.returncode == -signal.SIGKILL:
            killed += 1
        else:
            latest *= 0.9
        if os.path.exists(work.copy):
            # It has its name, so it is complete.
            assert run(fur_check, work.copy).returncode == 0
            os.unlink(work.copy)
        work.wait_for_progress()


def worker_killed(place, rounds):
    made = 0
    for _ in range(rounds):
        work = Work(place, "emulated")
        shutil.copy(work.acks, work.before)
        with subprocess.Popen(
            [fur_copy, work.heap, work.copy], stderr=subprocess.PIPE, text=True
        ) as copier:
            time.sleep(random.uniform(0, 0.01))
            work.kill()
            says = copier.communicate()[1]
        shutil.copy(work.acks, work.after)
        if copier.returncode == 0:
            made += 1
            work.check_copy()
        else:
            assert says.count("\n") == 1 and work.heap in says, says
            assert not os.path.exists(work.copy)
        done = run(fur_copy, work.heap, work.copy)
        assert done.returncode == 1 and "fur-replayer --once" in done.stderr, done.stderr
        assert run(fur_replayer, "--quiet", "--once", "--heap", work.heap).returncode == 0
        done = work.copied()
        assert done.returncode == 0, done.stderr
        work.check_copy()
    assert made, "no copy was whole before the program was killed"


def usage(place):
    cases: list[tuple[list[str], int, str]] = [
        ([f"{place}/none", f"{place}/x"], 1, "create the heap first"),
        ([__file__, f"{place}/x"], 1, "not a libfur heap"),
        ([], 2, "HEAP"),
    ]
    for arguments, status, says in cases:
        done = run(fur_copy, *arguments)
        assert done.returncode == status and says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    assert not os.path.exists(f"{place}/x")


with tempfile.TemporaryDirectory(prefix="fur-copy-", dir=MEMORY) as directory:
    usage(directory)
    for pm in ("emulated", "sync"):
        program = Work(directory, pm)
        copies(program, 10)
        copier_killed(program, 20)
        copies(program, 2)
        with subprocess.Popen([fur_replayer, "--quiet", "--heap", program.heap]) as daemon:
            try:
                time.sleep(0.1)
                copies(program, 10)
                copier_killed(program, 10)
                copies(program, 2)
            finally:
                daemon.terminate()
        done = run(fur_copy, program.heap, program.heap)
        assert done.returncode == 1 and "the file exists" in done.stderr, done.stderr
        program.kill()
    worker_killed(directory, 10)
print("ok")
