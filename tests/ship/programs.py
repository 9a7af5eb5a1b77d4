# SPDX-License-Identifier: BSD-3-Clause
"""Run programs, and wait for what they do: for the tests of fur-ship and fur-standby."""
import os
import subprocess
import time

PATIENCE_S = 120


def run(*args, status=0):
    done = subprocess.run(
        args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == status, (args, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def refused(text, *args, status=1, lines=None):
    """One line, with the problem and the remedy; wrong usage has one more."""
    said = run(*args, status=status)
    expected = lines or (1 if status == 1 else 2)
    assert text in said and said.count("\n") == expected, (args, text, said)


def until(condition, what):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Process:
    line = ""  # the last one that was expected

    def __init__(self, *args, **more):
        self.process = subprocess.Popen(
            args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
        )
        assert self.process.stdout and self.process.stderr
        self.out, self.err = self.process.stdout, self.process.stderr

    def expect(self, text):
        self.line = self.out.readline()
        assert text in self.line, (text, self.line, self.err.read() if not self.line else "")
        return self.line

    def kill(self):
        """End it; returns all that it has printed."""
        self.process.kill()
        return self.process.communicate()[0]

    def end(self, status, how=None):
        if how:
            self.process.send_signal(how)
        said, error = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == status, (self.process.returncode, said, error)
        return said, error


class Recorded:
    """A program whose output is in a file: it never waits for a reader."""

    def __init__(self, place, *args, **more):
        self.name = os.path.join(place, f"out-{time.monotonic_ns()}")
        with open(self.name, "w") as out:
            self.process = subprocess.Popen(
                args, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **more
            )

    def said(self):
        with open(self.name) as file:
            return file.read()

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition(self.said()):
            assert time.monotonic() < end, (what, self.said()[-2000:])
            assert self.process.poll() is None, (what, self.process.returncode, self.said()[-2000:])
            time.sleep(0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()
        return self.said()

    def end(self, status, how=None):
        if how:
            self.process.send_signal(how)
        try:
            ended = self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(("it does not end", self.said()[-2000:])) from late
        assert ended == status, (ended, self.said()[-2000:])
        return self.said()


def newest(text):
    """The newest value whose update has returned; the last line may be a part of one."""
    return int(text.rpartition("\n")[0].rpartition("\n")[2] or 0)
