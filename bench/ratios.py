#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run benchmarks in alternation, and print the ratios of their throughputs.

Round k runs every command once, in an order that rotates from round to round.  So whatever else the
machine does meets all commands alike.  A run's throughput is its median over the rounds.  A ratio
is that of two medians; next to it are the least and the greatest ratio within one round.

Every run has a heap file of its own in /dev/shm, which is removed after the run, and the benchmark
must report that it verified its data.

Presets:
  scaling   TPC-C and the red-black tree (rbtree) on 1 and 2 threads.  The column `of lookups`
            divides the factor by that of rbtree without updates, the most that the machine allows.
  peers     the same on 2 threads, for fur-opacity, specpmt, spht and pisces
  busy      TPC-C and rbtree on 1, 2 and 16 threads, quiet and next to one busy loop per core

Exit status: 0 done, 1 a run failed or did not verify, 2 wrong usage, 130 stopped.
"""
from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "common"))

import script  # noqa: E402
from script import Failed, Refused  # noqa: E402
from servers import seconds  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
HEAPS = "/dev/shm"
LIMIT_SECONDS = 600  # a run that takes longer does not end
SYSTEMS = ("fur-opacity", "fur-snapshot", "specpmt", "spht", "pisces", "htm", "lmdb", "libpmemobj")
LIBFUR = ("fur-opacity", "fur-snapshot")  # FUR_HTM is for these alone
HTMS = ("auto", "tsx", "power", "none")

# The program and arguments that show whether a build has a system.
PROBES = {"tpcc": ["--scale", "tiny"], "rbtree": ["--keys", "10"]}

# A busy process: pinned, and it ends when its parent does, even if the parent was killed.
BUSY_LOOP = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
print(flush=True)
while os.getppid() == int(sys.argv[2]):
    for _ in range(100000):
        pass
"""


# ------------------------------------------------------------------------------------ the plan


@dataclass(frozen=True)
class Workload:
    title: str
    program: str
    arguments: tuple[str, ...]
    seconds: float


TPCC = ("--warehouses", "2", "--scale", "tenth", "--mix", "standard")
LOOKUPS = Workload("rbtree, lookups only", "rbtree", ("--update", "0"), 1)
WORKLOADS = (
    Workload("tpcc", "tpcc", TPCC, 2),
    Workload("tpcc --home", "tpcc", (*TPCC, "--home"), 2),
    LOOKUPS,
    Workload("rbtree, 10 % updates", "rbtree", ("--update", "10"), 1),
    Workload("rbtree, 50 % updates", "rbtree", ("--update", "50"), 1),
)


@dataclass(frozen=True)
class Preset:
    systems: tuple[str, ...] = ("fur-opacity",)
    threads: tuple[int, ...] = (2,)
    busy: bool = False  # by default, also next to one busy loop per core


PRESETS = {
    "scaling": Preset(threads=(1, 2)),
    "peers": Preset(systems=("fur-opacity", "specpmt", "spht", "pisces")),
    "busy": Preset(threads=(1, 2, 16), busy=True),
}


@dataclass(frozen=True)
class Run:
    """What one command measures."""

    workload: Workload
    system: str
    threads: int
    build: str  # new or old
    htm: str  # FUR_HTM, if there are runs with several
    busy: int  # busy processes next to it

    @property
    def title(self) -> str:
        where = f", {self.busy} busy" if self.busy else ""
        which = "" if self.build == "new" else f", {self.build}"
        system = " ".join([self.system, *filter(None, [self.htm])])
        return f"{self.workload.title}: {system}, {threads_of(self.threads)}{where}{which}"


@dataclass(frozen=True)
class Ratio:
    """`over` against `under`: two runs that differ in one thing."""

    name: str
    over: Run
    under: Run

    @property
    def rest(self) -> str:
        """What the two runs have in common."""
        a, b = self.over, self.under
        parts = [a.system] if a.system == b.system else []
        parts += [a.htm] if a.htm == b.htm and a.htm else []
        parts += [threads_of(a.threads)] if a.threads == b.threads else []
        parts += [f"{a.busy} busy"] if a.busy == b.busy and a.busy else []
        parts += [a.build] if a.build == b.build and a.build != "new" else []
        return ", ".join([a.workload.title, *parts])


def threads_of(n: int) -> str:
    return f"{n} thread" + ("s" if n > 1 else "")


def ratios_of(runs: list[Run]) -> list[Ratio]:
    """Every pair of runs that differ in one thing only, sorted by that thing; of numbers of
    threads, each against the least."""
    found = []
    for under, over in itertools.combinations(runs, 2):
        if replace(over, threads=under.threads) == under:
            if under.threads == min(run.threads for run in runs):
                found.append(Ratio(f"{over.threads} threads / {under.threads}", over, under))
        elif replace(over, system=under.system) == under:
            found.append(Ratio(f"{under.system} / {over.system}", under, over))
        elif replace(over, htm=under.htm) == under:
            found.append(Ratio(f"{over.htm} / {under.htm}", over, under))
        elif replace(over, build=under.build) == under:
            found.append(Ratio(f"{under.build} / {over.build}", under, over))
        elif replace(over, busy=under.busy) == under:
            found.append(Ratio(f"{over.busy} busy / quiet", over, under))
    names = list(dict.fromkeys(ratio.name for ratio in found))
    return sorted(found, key=lambda ratio: names.index(ratio.name))


# ------------------------------------------------------------------------------------ programs


class Programs:
    """The benchmarks of one or two build directories."""

    def __init__(self, builds: dict[str, Path], htm: str, seconds: float | None) -> None:
        self.builds, self.htm, self.seconds = builds, htm, seconds
        for build, name in itertools.product(builds.values(), PROBES):
            if not os.access(build / "bench" / name / name, os.X_OK):
                raise Refused(
                    f"{build}/bench/{name}/{name} is missing: build it: ninja -C {build} "
                    f"bench/{name}/{name}"
                )

    def command(self, run: Run, most_threads: int) -> list[str]:
        seconds = self.seconds or run.workload.seconds
        command = [self._path(run), "--tm", run.system, "--threads", str(run.threads)]
        command += [*run.workload.arguments, "--seconds", f"{seconds:g}"]
        if run.workload.program == "tpcc":
            # The same for any number of threads.  A thread adds up to 100 MB a second.
            busy = min(most_threads, os.cpu_count() or 1)
            command += ["--heap-mib", str(256 + int(100 * busy * (seconds + 0.5)))]
        return command

    def environment(self, run: Run) -> dict[str, str]:
        return {**os.environ, "FUR_HTM": run.htm or self.htm}

    def measure(self, run: Run, command: list[str]) -> dict[str, Any]:
        """The result of one run, with a heap that goes afterwards."""
        with tempfile.TemporaryDirectory(prefix="fur-ratios-", dir=HEAPS) as place:
            whole = [*command, "--heap", f"{place}/heap", "--json", "-"]
            try:
                done = subprocess.run(
                    whole,
                    env=self.environment(run),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=LIMIT_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise Failed(
                    f"{' '.join(command)}: not finished after {LIMIT_SECONDS} s"
                ) from error
        try:
            result = json.loads(done.stdout)
            if done.returncode == 0 and result["verified"] is True and result["throughput"] >= 0:
                return dict(result)
            why = "its result is not verified"
        except (ValueError, LookupError, TypeError):
            why = "its output is no result"
        raise Failed(f"{' '.join(command)}: {why}: {last_line(done.stderr)}")

    def refusal(self, run: Run) -> str | None:
        """Why a build does not run with a system on this machine, in the program's words."""
        program = run.workload.program
        command = [self._path(run), "--tm", run.system, "--seconds", "0.01", *PROBES[program]]
        done = subprocess.run(
            command, env=self.environment(run), capture_output=True, text=True, check=False
        )
        return last_line(done.stderr) if done.returncode == 2 else None

    def _path(self, run: Run) -> str:
        return f"{self.builds[run.build]}/bench/{run.workload.program}/{run.workload.program}"


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed no message"


# ----------------------------------------------------------------------------------- measuring


@contextmanager
def busy_processes(number: int) -> Iterator[None]:
    """Busy loops, pinned to the cores in turn; ended however the block is left."""
    cores = sorted(os.sched_getaffinity(0))
    with ExitStack() as stack:
        for k in range(number):
            core = str(cores[k % len(cores)])
            loop = subprocess.Popen(
                [sys.executable, "-c", BUSY_LOOP, core, str(os.getpid())],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl-C at the terminal is for this process alone.  Not a session: Linux would
                # give each loop as large a share of a core as all threads of a run (autogroup).
                preexec_fn=os.setpgrp,
            )
            stack.callback(loop.wait)
            stack.callback(loop.kill)
            assert loop.stdout
            if not loop.stdout.readline():  # a line tells that it is pinned
                raise Failed(f"a busy process could not be pinned to core {core}")
        yield


def divided(over: float | None, under: float | None) -> float | None:
    """Nothing if `under` is 0: no transaction ended in the window of a run."""
    return over / under if over is not None and under else None


@dataclass
class Measured:
    runs: list[Run]
    commands: dict[Run, list[str]]
    results: dict[Run, list[dict[str, Any]]] = field(default_factory=dict)

    def throughputs(self, run: Run) -> list[float]:
        return [float(result["throughput"]) for result in self.results[run]]

    def median(self, run: Run) -> float:
        return statistics.median(self.throughputs(run))

    def ratio(self, ratio: Ratio) -> float | None:
        return divided(self.median(ratio.over), self.median(ratio.under))

    def ratios_by_round(self, ratio: Ratio) -> list[float]:
        pairs = zip(self.throughputs(ratio.over), self.throughputs(ratio.under))
        return [over / under for over, under in pairs if under]


def rotated(runs: list[Run], k: int) -> list[Run]:
    k %= len(runs)
    return runs[k:] + runs[:k]


def blocks_of(runs: list[Run], k: int) -> list[list[Run]]:
    """The runs of round k.  Those next to as many busy processes are one block, so that the
    processes start once; blocks change places from round to round."""
    levels = sorted({run.busy for run in runs}, reverse=k % 2 == 1)
    return [rotated([run for run in runs if run.busy == level], k) for level in levels]


def measure(programs: Programs, runs: list[Run], rounds: int) -> Measured:
    most = max(run.threads for run in runs)
    measured = Measured(runs, {run: programs.command(run, most) for run in runs})
    terminal, done = sys.stderr.isatty(), 0
    for k in range(rounds):
        for block in blocks_of(runs, k):
            with busy_processes(block[0].busy):
                for run in block:
                    done += 1
                    if terminal:
                        text = f"{done}/{rounds * len(runs)} {run.title}"
                        print(f"\r{text:<79.79}", end="", file=sys.stderr, flush=True)
                    result = programs.measure(run, measured.commands[run])
                    measured.results.setdefault(run, []).append(result)
    if terminal:
        print(f"\r{'':79}\r", end="", file=sys.stderr)
    return measured


# ------------------------------------------------------------------------------------- results


def number(value: float) -> str:
    return f"{value:,.0f}"


def factor(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; numbers, from the second column on, to the right."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def throughput_table(measured: Measured) -> str:
    rows = []
    for run in measured.runs:
        values = measured.throughputs(run)
        medians = [statistics.median(values), min(values), max(values)]
        rows.append([run.title, *map(number, medians)])
    return table(["transactions per second", "median", "min", "max"], rows)


def lookups_of(ratio: Ratio, ratios: list[Ratio]) -> Ratio | None:
    """The same ratio of the workload that only looks up."""
    over = replace(ratio.over, workload=LOOKUPS)
    under = replace(ratio.under, workload=LOOKUPS)
    return next((r for r in ratios if (r.over, r.under) == (over, under)), None)


def ratio_rows(measured: Measured, ratios: list[Ratio]) -> list[dict[str, Any]]:
    rows = []
    for ratio in ratios:
        by_round = measured.ratios_by_round(ratio)
        row: dict[str, Any] = {"of": ratio.rest, "name": ratio.name}
        row["ratio"] = measured.ratio(ratio)
        row["min"], row["max"] = min(by_round, default=None), max(by_round, default=None)
        lookups = lookups_of(ratio, ratios)
        if ratio.over.threads != ratio.under.threads and lookups:
            row["of_lookups"] = divided(row["ratio"], measured.ratio(lookups))
        rows.append(row)
    return rows


def ratio_table(rows: list[dict[str, Any]]) -> str:
    heads = ["", "ratio", "median", "min", "max"]
    scaling = any("of_lookups" in row for row in rows)
    lines = []
    for row in rows:
        columns = ["ratio", "min", "max"] + (["of_lookups"] if scaling else [])
        lines.append([row["of"], row["name"], *(factor(row.get(k)) for k in columns)])
    return table(heads + (["of lookups"] if scaling else []), lines)


def raw(options: argparse.Namespace, measured: Measured, rows: list[dict[str, Any]]) -> str:
    runs = [
        {
            "workload": run.workload.title,
            "system": run.system,
            "threads": run.threads,
            "build": run.build,
            "htm": run.htm,
            "busy": run.busy,
            "command": measured.commands[run],
            "throughputs": measured.throughputs(run),
            "results": measured.results[run],
        }
        for run in measured.runs
    ]
    head = {"preset": options.preset, "rounds": options.rounds, "htm": ",".join(options.htm)}
    head["cores"] = len(os.sched_getaffinity(0))
    return json.dumps({**head, "runs": runs, "ratios": rows}, indent=1) + "\n"


# --------------------------------------------------------------------------------- command line


def whole(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 1000")
    return int(text)


def whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted({whole(part) for part in text.split(",")}))


def names_of(kind: str, allowed: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """The type of an option that lists some of these names."""

    def names(text: str) -> tuple[str, ...]:
        for name in text.split(","):
            if name not in allowed:
                raise argparse.ArgumentTypeError(
                    f"there is no {kind} '{name}': use {', '.join(allowed)}"
                )
        return tuple(dict.fromkeys(text.split(",")))

    return names


def add_options(parser: script.Parser) -> None:
    add = parser.add_argument
    add("preset", choices=PRESETS, help="what to measure, see above")
    add("--build", type=Path, default=ROOT / "build", metavar="DIR", help="the build to measure")
    add("--baseline", type=Path, metavar="DIR", help="another build: adds the ratios new / old")
    add("--rounds", type=whole, default=9, metavar="N", help="default: %(default)s")
    add("--seconds", type=seconds, metavar="S", help="of each run; default: tpcc 2, rbtree 1")
    add("--threads", type=whole_numbers, metavar="N,...", help="in place of the preset's")
    add(
        "--systems",
        type=names_of("system", SYSTEMS),
        metavar="TM,...",
        help="in place of the preset's",
    )
    add(
        "--busy",
        type=whole,
        metavar="K",
        help="measure also next to K busy loops, pinned to the cores in turn; default for the "
        "preset busy: one per core",
    )
    add(
        "--htm",
        type=names_of("FUR_HTM", HTMS),
        default=("none",),
        metavar="HTM,...",
        help="FUR_HTM: auto, tsx, power or none (default).  With several, libfur runs with each",
    )
    add("--json", metavar="FILE", help="write all results to this file; -: in place of the tables")


def planned(options: argparse.Namespace, builds: list[str]) -> list[Run]:
    preset = PRESETS[options.preset]
    busy = options.busy or (len(os.sched_getaffinity(0)) if preset.busy else 0)
    several = options.htm if len(options.htm) > 1 else ("",)
    return [
        Run(workload, system, threads, build, htm if system in LIBFUR else "", level)
        for workload, level, system, build, htm, threads in itertools.product(
            WORKLOADS,
            sorted({0, busy}),
            options.systems or preset.systems,
            builds,
            several,
            options.threads or preset.threads,
        )
        if system in LIBFUR or htm == several[0]
    ]


def possible(programs: Programs, runs: list[Run]) -> list[Run]:
    """The runs whose system the build has.  Prints which systems are left out, and why."""
    refusals: dict[tuple[str, str, str, str], str | None] = {}
    for run in runs:
        key = (run.build, run.workload.program, run.system, run.htm)
        if key not in refusals:
            refusals[key] = programs.refusal(run)
            if refusals[key] is not None:
                say(f"{' '.join(filter(None, key))} is left out: {refusals[key]}")
    left = [r for r in runs if refusals[r.build, r.workload.program, r.system, r.htm] is None]
    if not left:
        raise Refused("no run is left: name other systems with --systems")
    return left


def say(text: str) -> None:
    script.say("ratios.py", text)


def round_trips(measured: Measured) -> str:
    """Of a cache line: the least and the greatest median of a run."""
    trips = [
        trip["median"]
        for result in itertools.chain(*measured.results.values())
        if (trip := result["round_trip_ns"])  # nothing on one core
    ]
    return f"{min(trips):.0f} to {max(trips):.0f} ns" if trips else "unknown"


def present(options: argparse.Namespace, measured: Measured) -> None:
    rows = ratio_rows(measured, ratios_of(measured.runs))
    if options.json and options.json != "-":
        Path(options.json).write_text(raw(options, measured, rows), encoding="utf-8")
    if options.json == "-":
        print(raw(options, measured, rows), end="")
        return
    print(
        f"Preset {options.preset}, {len(os.sched_getaffinity(0))} cores, "
        f"FUR_HTM={','.join(options.htm)}, rounds: {options.rounds}, "
        f"round trip between two cores {round_trips(measured)}\n"
    )
    print(throughput_table(measured))
    print(ratio_table(rows), end="")


def check_writable(path: str | None) -> None:
    if path and path != "-":
        with open(path, "a", encoding="utf-8"):
            pass


def run(arguments: list[str]) -> int:
    parser = script.parser_of("ratios.py", __doc__)
    add_options(parser)
    options = parser.parse_args(arguments)
    check_writable(options.json)
    builds = {"new": options.build}
    if options.baseline:
        builds["old"] = options.baseline
    programs = Programs(builds, options.htm[0], options.seconds)
    load = os.getloadavg()[0]
    if load > 0.5:
        say(f"other programs run on this machine (load {load:.1f}): stop them, or expect noise")
    present(
        options,
        measure(programs, possible(programs, planned(options, list(builds))), options.rounds),
    )
    return 0


if __name__ == "__main__":
    sys.exit(script.run_script("ratios.py", run))
