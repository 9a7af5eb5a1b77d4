#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Search for bugs with new seeds, for hours: what the suites search with seeds that never change.

    nightly.py BUILD HOURS [--seed N] [--only REGEX]

The searches are BUILD's own tests that take a seed: explorations of the emulated machine, kills,
damage to files, failures of calls, power failures of real processes, all of these with planted
bugs; and faults of Kafka and of the network to it, one set of brokers at a time.  Each kind gets
the same time, and within a kind, each test.  A search with a planted bug begins again when it has
found the bug.  After HOURS no round begins but the very first; a round takes about half a minute on
a quiet machine, but that of 200 kills of each process over Kafka half an hour.

A finding is printed at once, with the command that repeats it; its search ends, the others go on.
At the end, tables say what each search has tried, and how many seeds each planted bug took: the
measure of what the searches can see.  A planted bug that was not found is no finding.

--seed: the first seed; otherwise a new one, which is printed.  --only: tests whose name matches.

Exit status: 0 nothing found, 1 a finding, 2 wrong usage.
"""
import argparse
import json
import os
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROUND_S = 30
# A round that takes so long hangs.
PATIENCE_S = 3600
FIRST_SEEDS = 20
# Rounds of programs that count up from their seed begin so far apart.
SEEDS_A_ROUND = 1000
SKIPPED = 77

KINDS = {
    "explore": "exploration",
    "explore-claims": "exploration",
    "explore-ship": "exploration",
    "kill-test": "kill",
    "kill-operators": "kill",
    "ship-kills": "kill",
    "group-kills": "kill",
    "failover": "kill",
    "copies-test": "kill",
    "damage-test": "damage",
    "inject-test": "failed call",
    "explore.py": "power failure",
    "unit-tests": "random operations",
    "group-tests": "random operations",
    "kafka_faults.py": "faults of Kafka",
}
# What takes its seed from the environment.
BY_ENVIRONMENT = ("copies-test", "unit-tests", "group-tests")
PLANTED = "planted bug"
# Each has brokers of its own, which want memory and a core.
ALONE = "kafka_faults.py"
FAULTS = {"kills": 200, "partitions": 32}


@dataclass
class Round:
    words: list[str]
    env: dict[str, str]
    size: int
    first: int
    status: int = 0
    output: str = ""


@dataclass
class Search:
    name: str
    kind: str
    program: str  # a key of KINDS
    words: list[str]  # without seeds
    env: dict[str, str]
    unit: str
    size: int  # of a round, in units
    must_find: bool = False
    rounds: int = 0
    tried: int = 0
    seconds: float = 0
    began: float | None = None
    over: bool = False
    since_found: int = 0
    took: list[int] = field(default_factory=list)  # units until the bug was found, each time

    @property
    def by_seeds(self) -> bool:
        """Whether a unit is a seed, so that a round can have any size."""
        return self.unit == "seeds"

    def next_round(self, base: int) -> Round:
        words, env = list(self.words), dict(self.env)
        if self.by_seeds:
            first = base + self.tried
            words += ["--seeds", f"{first}..{first + self.size - 1}"]
        else:
            first = base + SEEDS_A_ROUND * self.rounds
            if self.program in BY_ENVIRONMENT:
                env["FUR_TEST_SEED"] = str(first)
            elif self.program == "kill-operators":
                words.append(str(first))
            else:
                words += ["--seed", str(first)]
        return Round(words, env, self.size, first)

    def found_at(self, r: Round) -> int | None:
        """Units until the planted bug was found; None: not found."""
        if self.program in ("explore", "explore-claims", "explore-ship"):
            at = re.search(r"VIOLATION\D*seed (\d+)", r.output)
            return int(at[1]) - r.first + 1 if at and r.status == 1 else None
        if r.status:
            return None
        at = re.search(r"found, after kill (\d+)", r.output) or re.search(
            r"(\d+) failure points", r.output
        )
        return int(at[1]) if at else r.size

    def is_finding(self, r: Round) -> bool:
        if not self.must_find:
            return r.status not in (0, SKIPPED)
        # That the bug was not found has status 1, or 0.
        return r.status not in (0, 1)

    def account(self, r: Round) -> bool:
        """Adds up a round; whether it is a finding."""
        now = time.monotonic()
        elapsed = now - (self.began or now)
        self.seconds += elapsed
        self.began = None
        self.rounds += 1
        if self.is_finding(r) or r.status == SKIPPED:
            self.over = True
            return r.status != SKIPPED
        tried = r.size
        if self.must_find:
            at = self.found_at(r)
            tried = at or tried
            self.since_found += tried
            if at:
                self.took.append(self.since_found)
                self.since_found = 0
        self.tried += tried
        if self.by_seeds and tried == r.size:
            factor = min(4.0, max(0.25, ROUND_S / max(elapsed, 0.01)))
            self.size = max(1, int(self.size * factor))
        return False


# ------------------------------------------------------------------ the build's searches


def without(words: list[str], *options: str) -> list[str]:
    """The words without these options and their values."""
    left, at = [], 0
    while at < len(words):
        if words[at] in options:
            at += 2
        else:
            left.append(words[at])
            at += 1
    return left


def number_after(words: list[str], option: str, default: int) -> int:
    return int(words[words.index(option) + 1]) if option in words else default


def program_of(word: str) -> str | None:
    """A damage-test-BUG is a damage-test, an explore-claims-plant-BUG an explore-claims."""
    name = os.path.basename(word)
    for program in ("damage-test", "explore-claims", "explore-ship", "kill-test"):
        if name == program or name.startswith(program + "-"):
            return program
    return name if name in KINDS else None


def search_of(test: dict, build: str) -> Search | None:
    """The test as a search; None: it takes no seed."""
    words = [re.sub(f"^{re.escape(build)}/", "", word) for word in test["cmd"]]
    if words and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
    program = program_of(words[0]) if words else None
    if not program:
        return None
    must_find = not {"--plant", "--must-find", "--until-found"}.isdisjoint(test["cmd"])
    if program in ("explore", "explore-claims", "explore-ship"):
        words = without(words, "--seeds", "--must-find", "--until-idle", "--jobs")
        if program == "explore":
            words += ["--jobs", "1"]
        unit, size = "seeds", FIRST_SEEDS
    elif program == "explore.py":
        words = ["python3", *without(words, "--seed", "--points"), "--points", "50"]
        unit, size = "points", 50
    elif program == "damage-test":
        size = 100 if must_find else number_after(words, "--openings", 1000)
        words = [*without(words, "--seed", "--openings"), "--openings", str(size)]
        unit = "openings"
    elif program == "failover":
        words = without(words, "--seed")
        unit, size = "runs", number_after(words, "--runs", 10)
    elif program in ("kill-test", "kill-operators", "ship-kills", "group-kills"):
        words = without(words, "--seed")
        last = words[-1] if program == "kill-operators" and words[-1].isdigit() else "100"
        unit, size = "kills", number_after(words, "--kills", int(last))
    elif program == "kafka_faults.py":
        size = FAULTS.get(words[1], 4)
        words = [*without(words, "--seed", "--rounds"), "--rounds", str(size)]
        unit = "rounds"
    else:
        words = without(words, "--seed")
        unit, size = "runs", 1
    kind = PLANTED if must_find else KINDS[program]
    return Search(test["name"], kind, program, words, test["env"], unit, size, must_find)


def searches_of(build: str, only: str) -> list[Search]:
    with open(f"{build}/meson-info/intro-tests.json") as f:
        tests = json.load(f)
    searches: dict[tuple[str, ...], Search] = {}
    for test in tests:
        if re.search(only, test["name"]) and (s := search_of(test, build)):
            # Suites `emulated` and `release` share the seeds of an exploration.
            searches.setdefault(tuple(s.words), s)
    return list(searches.values())


# ------------------------------------------------------------------ running them


class Night:
    def __init__(self, build: str, searches: list[Search], base: int, hours: float) -> None:
        self.build, self.searches, self.base = build, searches, base
        self.ends = time.monotonic() + 3600 * hours
        self.lock = threading.Lock()
        self.running: set[subprocess.Popen] = set()
        self.findings = 0
        self.stopped = False

    def spent(self, s: Search) -> float:
        return s.seconds + (time.monotonic() - s.began if s.began else 0)

    def choose(self) -> Search | None:
        """Of the kind that has had the least time, the search that has."""
        begun = any(s.rounds or s.began for s in self.searches)
        if self.stopped or (begun and time.monotonic() >= self.ends):
            return None
        kinds: dict[str, float] = {}
        for s in self.searches:
            kinds[s.kind] = kinds.get(s.kind, 0) + self.spent(s)
        busy = any(s.program == ALONE and s.began for s in self.searches)
        idle = [
            s
            for s in self.searches
            if not s.over and s.began is None and not (busy and s.program == ALONE)
        ]
        order = [(kinds[s.kind], self.spent(s), at) for at, s in enumerate(idle)]
        return idle[min(order)[-1]] if order else None

    def run(self, r: Round) -> None:
        with self.lock:
            child = subprocess.Popen(
                r.words,
                cwd=self.build,
                env={**os.environ, **r.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self.running.add(child)
        try:
            r.output = child.communicate(timeout=PATIENCE_S)[0]
            r.status = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            r.output = f"{child.communicate()[0]}\nit has not ended in {PATIENCE_S} s"
            r.status = -signal.SIGKILL
        with self.lock:
            self.running.discard(child)

    def repeat_command(self, s: Search, r: Round) -> str:
        """The round again, or of many seeds only the one that found something."""
        words = list(r.words)
        at = re.search(r"VIOLATION\D*seed (\d+)", r.output)
        if s.by_seeds and at:
            words[-1] = f"{at[1]}..{at[1]}"
        env = [
            f'{key}="{value}"'.replace(self.build, "$PWD") for key, value in sorted(r.env.items())
        ]
        place = shlex.quote(os.path.relpath(self.build))
        return " ".join([f"cd {place} &&", *env, shlex.join(words)])

    def report(self, s: Search, r: Round) -> None:
        self.findings += 1
        print(f"FOUND by {s.name}, exit status {r.status}:")
        for line in r.output.splitlines()[-80:]:
            if not line.startswith("repeat with:"):
                print(f"    {line}")
        print(f"repeat with: {self.repeat_command(s, r)}", flush=True)

    def work(self) -> None:
        while True:
            with self.lock:
                s = self.choose()
                if not s:
                    return
                s.began = time.monotonic()
                r = s.next_round(self.base)
            try:
                self.run(r)
            except OSError as error:
                r.status, r.output = 127, str(error)
            with self.lock:
                if not self.stopped and s.account(r):
                    self.report(s, r)

    def go(self) -> None:
        workers = [threading.Thread(target=self.work) for _ in range(os.cpu_count() or 1)]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                worker.join()
        except KeyboardInterrupt:
            with self.lock:
                self.stopped = True
                for child in self.running:
                    os.killpg(child.pid, signal.SIGKILL)


# ------------------------------------------------------------------ the tables


def print_tables(searches: list[Search]) -> None:
    begun = [s for s in searches if s.rounds]
    print(f"\n{'search':40} {'rounds':>7} {'tried':>22} {'minutes':>8}")
    for s in begun:
        if not s.must_find:
            tried = f"{s.tried} {s.unit}"
            print(f"{s.name:40} {s.rounds:7} {tried:>22} {s.seconds / 60:8.1f}")
    print(f"\n{PLANTED:40} {'found':>7} {'fewest':>7} {'median':>7} {'most':>7}  not found in")
    for s in begun:
        if s.must_find:
            numbers = ["-"] * 3
            if s.took:
                median = int(statistics.median(s.took))
                numbers = [str(n) for n in (min(s.took), median, max(s.took))]
            columns = " ".join(f"{number:>7}" for number in numbers)
            more = f"{s.since_found} {s.unit}" if s.since_found else ""
            print(f"{s.name:40} {len(s.took):7} {columns}  {more}".rstrip())
    print(f"\n{len(searches) - len(begun)} searches had no time.")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("hours", metavar="HOURS", type=float)
    parser.add_argument("--seed", metavar="N", type=int)
    parser.add_argument("--only", metavar="REGEX", default="")
    a = parser.parse_args()
    build = str(Path(a.build).resolve())
    try:
        searches = searches_of(build, a.only)
    except (OSError, re.error) as error:
        parser.error(str(error))
    if not searches:
        parser.error(f"{a.build}: no test that takes a seed matches '{a.only}'")
    # Programs take 32 bits at least.
    base = a.seed if a.seed is not None else random.SystemRandom().randrange(10**6, 2 * 10**9)
    random.Random(base).shuffle(searches)
    night = Night(build, searches, base, a.hours)
    print(f"seeds from {base} on, {len(searches)} searches, {a.hours:g} hours", flush=True)
    night.go()
    print_tables(sorted(searches, key=lambda s: (s.kind, s.name)))
    print(f"\n{night.findings} findings, seeds from {base} on")
    return 1 if night.findings else 0


if __name__ == "__main__":
    sys.exit(main())
