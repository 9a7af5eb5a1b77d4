#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kill the example `series` again and again while it takes samples and forgets old ones: it has
lost nothing that it acknowledged, and nothing that it has forgotten comes back.

    series_kill_test.py [--kills N] [--seed N] [--must-lose] SERIES DIRECTORY

--must-lose takes an answer as given once the command is sent: the test succeeds if it finds the
loss, so the check can fail.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading

NAMES = ["cpu", "memory", "disk.reads", "a-name-of-24-characters."]
KEEP = 3000  # samples of a name
WINDOW = 256  # commands on their way


class Series:
    """What a name must have: a value for each time from `floor` on.  `maybe` says what commands on
    their way may have changed."""

    def __init__(self):
        self.samples = {}  # time: value
        self.floor = 0  # older ones are forgotten
        self.next = 0


class Feeder:
    """Sends commands, and learns from the answers what is durable."""

    def __init__(self, rng):
        self.rng = rng
        self.series = {name: Series() for name in NAMES}
        self.on_the_way = []  # (name, kind, time, value), the oldest first
        self.answered = 0
        self.dead = False
        self.room = threading.Semaphore(WINDOW)

    def command(self):
        name = self.rng.choice(NAMES)
        series = self.series[name]
        if self.rng.random() < 0.002 and series.next > KEEP:
            return (name, "forget", series.next - self.rng.randrange(1, KEEP), None)
        if self.rng.random() < 0.05 and series.next > series.floor:  # once more, another value
            at = self.rng.randrange(series.floor, series.next)
            return (name, "add", at, self.rng.randrange(10**6))
        series.next += 1
        return (name, "add", series.next - 1, self.rng.randrange(10**6))

    @staticmethod
    def apply(series, kind, at, value):
        if kind == "add":
            series.samples[at] = value
            return
        series.samples = {t: v for t, v in series.samples.items() if t >= at}
        series.floor = max(series.floor, at)

    def run(self, process):
        """Until the process is dead."""
        self.dead = False
        reader = threading.Thread(target=self.read, args=[process])
        reader.start()
        try:
            while not self.dead:
                if not self.room.acquire(blocking=False):
                    process.stdin.flush()
                    self.room.acquire()
                name, kind, at, value = command = self.command()
                self.on_the_way.append(command)
                text = f"{kind} {name} {at}" + ("" if value is None else f" {value}")
                process.stdin.write(text.encode() + b"\n")
                if self.rng.random() < 0.02:
                    process.stdin.flush()
        except OSError:
            pass  # killed
        reader.join()
        self.room = threading.Semaphore(WINDOW)

    def read(self, process):
        for line in process.stdout:
            if line != b"ok\n":
                break  # a part of an answer: it counts as none
            name, *change = self.on_the_way.pop(0)
            self.apply(self.series[name], *change)
            self.answered += 1
            self.room.release()
        self.dead = True
        self.room.release()

    def check(self, program, heap, must_lose):
        """What is wrong; and go on from what is there."""
        wrong = []
        for name, series in self.series.items():
            unsure = [c[1:] for c in self.on_the_way if c[0] == name]
            if must_lose:
                for change in unsure:
                    self.apply(series, *change)
                unsure = []
            found = dict(show(program, heap, name))
            wrong += compare(name, series, unsure, found)
            series.samples = found
            series.floor = min(found) if found else series.floor
        self.on_the_way = []
        return wrong


def compare(name, series, unsure, found):
    """Commands on their way may have been done or not."""
    wrong = []
    forgotten = max([at for kind, at, _ in unsure if kind == "forget"], default=0)
    may: dict[int, set[int]] = {}
    for kind, at, value in unsure:
        if kind == "add":
            may.setdefault(at, set()).add(value)
    for at, value in series.samples.items():
        if at in found and found[at] != value and found[at] not in may.get(at, ()):
            wrong.append(f"{name} {at} is {found[at]}, not {value}")
        if at not in found and at >= forgotten:
            wrong.append(f"{name} {at} is lost")
    for at, value in found.items():
        if at not in series.samples and value not in may.get(at, ()):
            wrong.append(f"{name} {at} {value} comes from nowhere, or has come back")
    return wrong


def show(program, heap, name):
    done = subprocess.run(
        [program, heap],
        input=f"show {name} {-(10**9)} {10**9}\n",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines.pop() == "ok", done.stdout[-100:]
    times = [int(line.split()[0]) for line in lines]
    assert times == sorted(times), "out of order"
    return [(int(at), int(float(value))) for at, value in (line.split() for line in lines)]


def main():
    parser = argparse.ArgumentParser(description="Kill the example `series`.")
    parser.add_argument("series")
    parser.add_argument("directory")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--must-lose", action="store_true")
    options = parser.parse_args()
    print(f"--seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    feeder = Feeder(rng)
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        heap = os.path.join(place, "series.fur")
        for kill in range(options.kills):
            with subprocess.Popen(
                [options.series, heap], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as process:
                killer = threading.Timer(rng.uniform(0.02, 0.8), process.kill)
                killer.start()
                feeder.run(process)
                killer.join()
                process.stdin = None  # what is in its buffer has nowhere to go
            wrong = feeder.check(options.series, heap, options.must_lose)
            if wrong and options.must_lose:
                print(f"found at kill {kill}: {wrong[0]}")
                return 0
            if wrong:
                print("\n".join(wrong[:20]))
                return 1
    samples = sum(len(series.samples) for series in feeder.series.values())
    assert feeder.answered > 0 and samples > 0, (feeder.answered, samples)
    print(f"{options.kills} kills, {feeder.answered} commands answered, {samples} samples there")
    return 1 if options.must_lose else 0


sys.exit(main())
