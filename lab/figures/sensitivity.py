#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Show which results depend on which values of a machine description.

For each uncertain key of the description, or group of keys that one guess gives, the program halves
and doubles the value, repeats the runs, and prints how much faster FUR then is than each of the
other systems: a Markdown table, one cell "halved / doubled" for each system and number of threads.
Bold: the other of the two systems is faster than with the description as it is.

The runs are deterministic. The directory of --out keeps them (runs.jsonl), and a repeated or
stopped measurement runs only what is missing.

    sensitivity.py --workload tree
    sensitivity.py --workload stocklevel --threads 64 --set instructions_per_ns=10
"""
from __future__ import annotations

import argparse
import hashlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import plan
from results import Journal, Programs, Refused, Runner, write_atomically

ROOT = Path(__file__).resolve().parents[2]
OTHERS = ("specpmt", "spht", "pisces")
SEEDS = (1, 2, 3)
# The keys of power9.toml that no source gives exactly; those of a row change together.
ROWS = (
    ("instructions_per_ns",),
    ("instruction", "l1", "issue"),
    ("recent",),
    ("recent_lines",),
    ("unpredictable_branch",),
    ("l2",),
    ("l3",),
    ("clean_same_socket",),
    ("memory", "read_ns"),
    ("transfer_same_socket", "transfer_other_socket"),
    ("atomic",),
    ("fence", "light_fence"),
    ("l3_lines",),
    ("outstanding",),
    ("linger_ns",),
    ("begin_ns", "commit_ns"),
    ("abort_ns",),
    ("suspend_resume_ns", "suspend_ns"),
    ("read_lines",),
    ("read_lines_owners",),
    ("write_lines",),
)


@dataclass(frozen=True)
class Workload:
    """`others`: the systems that FUR is compared with. `paper`: the paper's ratios, if it has
    them."""

    program: str
    fur: str
    arguments: tuple[str, ...]
    seconds: str
    others: tuple[str, ...] = OTHERS
    paper: str = ""


WORKLOADS = {
    "tree": Workload("rbtree", "fur-opacity", ("--update", "10"), "0.001"),
    "read-dominated": Workload("tpcc", "fur-snapshot", ("--mix", "read-dominated"), "0.002"),
    # The machine is fitted to these two numbers, so they confirm nothing.
    "stocklevel": Workload(
        "tpcc",
        "fur-snapshot",
        ("--mix", "stocklevel"),
        "0.003",
        ("specpmt", "pisces"),
        "the paper, 64 threads: 1.84 and 1.18",
    ),
}


def value_of(key: str) -> re.Pattern[str]:
    """Matches the line's beginning that gives a key its number, or its list of numbers."""
    return re.compile(rf"^{re.escape(key)} = (\[[^\]]*\]|[0-9.]+)", re.MULTILINE)


def scaled(description: str, keys: dict[str, float]) -> str:
    """The description with the values of some keys multiplied; whole numbers stay whole."""

    def times(number: str, factor: float) -> str:
        return f"{float(number) * factor:g}" if "." in number else str(round(int(number) * factor))

    for key, factor in keys.items():
        pattern = value_of(key)
        if not pattern.search(description):
            raise Refused(f"{key}: the description has no such number: name one of its keys")

        def change(match: re.Match[str], by: float = factor) -> str:
            value = re.sub(r"[0-9.]+", lambda number: times(number[0], by), match[1])
            return f"{key} = {value}"  # noqa: B023 (called at once)

        description = pattern.sub(change, description)
    return description


def with_values(description: str, settings: list[str]) -> str:
    for setting in settings:
        key, _, value = setting.partition("=")
        description, found = value_of(key).subn(f"{key} = {value}", description)
        if not value or not found:
            raise Refused(f"--set {setting}: write KEY=VALUE, with a key of the description")
    return description


class Measurement:
    """Runs of one workload on variants of the description, kept in a journal."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.workload = options, WORKLOADS[options.workload]
        self.journal = Journal(options.out)
        self.journal.open_to_append()
        self.new = 0

    def run_of(self, machine: str, tm: str, threads: int, seed: int) -> plan.Run:
        o, w = self.options, self.workload
        database = ["--scale", o.scale, "--warehouses", "16"] if w.program == "tpcc" else []
        loaded = (
            *("--machine", machine, "--tm", tm, *w.arguments, *database),
            *("--seconds", o.seconds or w.seconds, "--log-mib", "2", "--ring-slots", "262144"),
            *("--most-threads", str(max(self.threads)), "--seed", str(seed)),
        )
        line = ("--threads", str(threads))
        return plan.Run(w.program, self.options.workload, tm, threads, loaded, line)

    def file_of(self, description: str) -> Path:
        return self.options.out / f"{hashlib.sha256(description.encode()).hexdigest()[:16]}.toml"

    def throughputs(self, description: str, seed: int) -> dict[tuple[str, int], float]:
        """By system and number of threads; runs that the journal lacks are made."""
        machine = str(self.file_of(description).resolve())
        programs = Programs(self.options.build, machine, {self.workload.program})
        runs = [
            self.run_of(machine, tm, n, seed)
            for tm in (self.workload.fur, *self.workload.others)
            for n in self.threads
        ]
        keys = {run: (run.command, programs.version(run.program, run.tm)) for run in runs}
        missing = [run for run in runs if keys[run] not in self.journal.records]
        runner = Runner(programs, self.journal, self.options.jobs, lambda *_: None)
        runner.run_all(missing, lambda: None)
        for failure in runner.failures:
            raise Refused(f"{failure.run.command}: {failure.why}")
        self.new += len(missing)
        return {
            (run.tm, run.threads): float(self.journal.records[keys[run]].result["throughput"])
            for run in runs
        }

    def ratios(self, description: str, seed: int = 1) -> list[float]:
        """FUR's throughput by each other system's, for each number of threads."""
        measured = self.throughputs(description, seed)
        return [
            measured[self.workload.fur, n] / (measured[other, n] or float("nan"))
            for other in self.workload.others
            for n in self.threads
        ]

    @property
    def threads(self) -> list[int]:
        return self.options.threads


def cells(base: list[float], *variants: list[float]) -> str:
    """A cell for each ratio; bold where it is on the other side of 1 than in `base`."""

    def cell(was: float, now: float) -> str:
        return f"**{now:.2f}**" if (was < 1) != (now < 1) else f"{now:.2f}"

    return " | ".join(
        " / ".join(cell(was, variant[k]) for variant in variants) for k, was in enumerate(base)
    )


def table(m: Measurement, description: str, rows: list[tuple[str, ...]]) -> None:
    variants = [
        scaled(description, dict.fromkeys(keys, factor)) for keys in rows for factor in (0.5, 2)
    ]
    for text in (description, *variants):
        write_atomically(m.file_of(text), text)
    base = m.ratios(description)
    heads = [f"{plan.SYSTEM[tm].label}, {n}" for tm in m.workload.others for n in m.threads]
    print("| FUR by | " + " | ".join(heads) + " |")
    print("| --- |" + " --- |" * len(heads))
    print(f"| as described | {cells(base, base)} |", flush=True)
    seeds = [m.ratios(description, seed) for seed in SEEDS[1:]]
    print(f"| seeds {' / '.join(map(str, SEEDS[1:]))} | {cells(base, *seeds)} |", flush=True)
    for k, keys in enumerate(rows):
        halved, doubled = m.ratios(variants[2 * k]), m.ratios(variants[2 * k + 1])
        names = ", ".join(f"`{key}`" for key in keys)
        print(f"| {names} | {cells(base, halved, doubled)} |", flush=True)
    if m.workload.paper:
        print(f"\n({m.workload.paper})")
    print(f"{m.new} runs", file=sys.stderr)


def rows_of(names: str) -> list[tuple[str, ...]]:
    if not names:
        return list(ROWS)
    if names == "none":
        return []
    return [next((row for row in ROWS if name in row), (name,)) for name in names.split(",")]


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--build", type=Path, default=ROOT / "build", help="build directory")
    p.add_argument("--out", type=Path, default=Path("sensitivity"), help="where the runs are kept")
    p.add_argument("--machine", default="power9", help="name of the description")
    p.add_argument("--workload", choices=WORKLOADS, required=True)
    p.add_argument("--threads", default="32,64", help="numbers of threads (32,64)")
    p.add_argument("--keys", default="", help="only these keys, with those of their row; or: none")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="the base")
    p.add_argument("--scale", default="tenth", help="of TPC-C (tenth)")
    p.add_argument("--seconds", default="", help="virtual time of each run")
    p.add_argument("--jobs", type=int, default=2, help="programs at a time")
    options = p.parse_args()
    options.threads = [int(n) for n in options.threads.split(",")]
    return options


def main() -> int:
    options = parse()
    try:
        path = ROOT / f"emulator/machines/{options.machine}.toml"
        if not path.is_file():
            raise Refused(f"--machine {options.machine}: there is no {path}")
        description = with_values(path.read_text(encoding="utf-8"), options.set)
        table(Measurement(options), description, rows_of(options.keys))
    except Refused as refused:
        print(f"sensitivity.py: {refused}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
