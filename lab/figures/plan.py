# SPDX-License-Identifier: BSD-3-Clause
"""The measurements: systems, workloads, the figures of the paper, and the runs that each needs."""
from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/common"))

from systems import System  # noqa: E402


# In the paper's order. Colours: those of Okabe and Ito, which colour-blind people can tell apart,
# and a grey; two forms of one system share a colour.
SYSTEMS = (
    System("htm", "HTM (volatile)", "#7f7f7f", "x", "hardware", "hardware", False),
    System("spht", "SPHT", "#d55e00", "s", "hardware", "hardware"),
    System("spht-sihtm", "SPHT+SI-HTM", "#e69f00", "D", "untracked", "hardware"),
    System("pisces", "Pisces", "#009e73", "^", "software", "software"),
    System("specpmt", "SpecPMT", "#cc79a7", "v", "software", "software"),
    System("specpmt-paper", "SpecPMT (paper)", "#cc79a7", "<", "software", "software", False),
    System("fur-paper", "FUR as printed", "#56b4e9", "P", "untracked", "hardware", False),
    System("fur-opacity", "FUR opacity", "#0072b2", "o", "untracked", "hardware"),
    System("fur-snapshot", "FUR snapshot", "#000000", "*", "untracked", "hardware"),
)
SCHEMES = (
    System("scan", "scan (NV-HTM)", "#009e73", "s"),
    System("linked", "linked (SPHT)", "#d55e00", "D"),
    System("ring", "ring (FUR)", "#0072b2", "o"),
)
SYSTEM = {system.tm: system for system in (*SYSTEMS, *SCHEMES)}


@dataclass(frozen=True)
class Program:
    """A benchmark. `probe`: its smallest run, which shows whether it has a system; `result_has`:
    the fields of its results that not every program has."""

    path: str  # from the build directory
    probe: tuple[str, ...]
    result_has: frozenset[str]
    systems: tuple[System, ...] = SYSTEMS
    option: str = "--tm"  # that names the system
    counted: str = "transactions"
    axis: str = "threads"

    def among(self, names: list[str]) -> list[str]:
        return [system.tm for system in self.systems if system.tm in names]


TRANSACTIONS_HAVE = frozenset({"commits", "run_commits", "aborts", "lock_commits", "phases_ns"})
PROGRAMS = {
    "tpcc": Program(
        "bench/tpcc/tpcc", ("--scale", "tiny", "--seconds", "0.0001"), TRANSACTIONS_HAVE
    ),
    "rbtree": Program(
        "bench/rbtree/rbtree", ("--keys", "10", "--seconds", "0.0001"), TRANSACTIONS_HAVE
    ),
    "replay": Program(
        "bench/replay/replay",
        ("--log-mib", "16", "--updates", "1"),
        frozenset({"updates", "entries"}),
        SCHEMES,
        "--scheme",
        "entries",
        "threads that wrote the logs",
    ),
}
READ_ONLY = ("stocklevel", "orderstatus", "lookup")


@dataclass(frozen=True)
class Workload:
    """A workload of a program. `arguments`: of its runs; `data`: those that decide what is loaded.
    `shows`: the kinds whose throughput is shown; empty: all. `natively`: it makes sense there.
    `database`: of TPC-C, see Setting. `threads`: on an emulated machine, of the numbers asked for
    only these; empty: all."""

    name: str
    title: str
    program: str
    arguments: tuple[str, ...]
    data: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    natively: bool = True
    database: str = ""
    threads: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Figure:
    """A figure of the paper. `profile`: "", none; "time" of a transaction; "overhead" over its
    body."""

    number: int
    title: str
    workloads: tuple[Workload, ...]
    least_threads: int = 1
    most_threads: int = 1000
    outcomes: bool = False
    profile: str = ""


# The shape of a curve by TPC-C's rules, for half of the time that all numbers would take.
SPEC_THREADS = frozenset((1, 8, 32, 64))


def tpcc(
    name: str, title: str, *arguments: str, shows: tuple[str, ...] = ()
) -> tuple[Workload, Workload]:
    """As in the paper's Table 1, and next to it by TPC-C's rules."""
    arguments = arguments or ("--mix", name)
    return (
        Workload(name, title, "tpcc", arguments, (), shows, database="table1"),
        Workload(
            f"{name}-spec",
            f"{title}; TPC-C's rules",
            "tpcc",
            arguments,
            (),
            shows,
            database="spec",
            threads=SPEC_THREADS,
        ),
    )


def rbtree(percent: int, mix: str) -> Workload:
    return Workload(
        f"rbtree-{percent}-authors" if mix == "authors" else f"rbtree-{percent}",
        f"{percent} % updates; " + ("the authors' keys" if mix == "authors" else "random keys"),
        "rbtree",
        ("--update", str(percent)),
        ("--keys", "10000", "--mix", mix),
    )


FIGURES = {
    figure.number: figure
    for figure in (
        Figure(
            1,
            "Read-only transactions beside one updating thread",
            least_threads=2,
            workloads=tpcc(
                "payment-orderstatus",
                "orderstatus; thread 1: payment",
                "--mix",
                "orderstatus",
                "--first-thread",
                "payment",
                shows=("orderstatus",),
            ),
        ),
        # The paper switches SMT off: a thread a core.
        Figure(
            4,
            "SPHT, and its union with SI-HTM",
            most_threads=32,
            profile="time",
            workloads=tpcc(
                "orderstatus95",
                "95 % orderstatus, 5 % payment, own warehouses",
                "--mix",
                "orderstatus95",
                "--home",
            ),
        ),
        Figure(
            6,
            "Read-only workloads",
            outcomes=True,
            workloads=(*tpcc("stocklevel", "stocklevel"), *tpcc("orderstatus", "orderstatus")),
        ),
        Figure(
            7,
            "Update-only workloads",
            outcomes=True,
            profile="overhead",
            workloads=(*tpcc("payment", "payment"), *tpcc("delivery", "delivery")),
        ),
        Figure(
            8,
            "Mixed workloads",
            outcomes=True,
            profile="overhead",
            workloads=(
                *tpcc("read-dominated", "read-dominated mix"),
                *tpcc("standard", "standard mix"),
            ),
        ),
        Figure(
            9,
            "Red-black tree of 10,000 keys",
            workloads=tuple(
                rbtree(percent, mix) for mix in ("authors", "random") for percent in (1, 10, 50)
            ),
        ),
        # Beside it what the schemes themselves cost, which write-backs hide.
        Figure(
            10,
            "Replay by one thread",
            most_threads=64,
            workloads=(
                Workload("replay", "as the machine writes back", "replay", ()),
                Workload(
                    "replay-order",
                    "write-backs at 1 ns a line",
                    "replay",
                    ("--pm-latency-ns", "1", "--pm-gap-ns", "1"),
                    natively=False,
                ),
            ),
        ),
    )
}


@dataclass(frozen=True)
class Setting:
    """The extent of a measurement. A run's window is thread_ms / threads, within bounds, so that
    any number of threads makes as many transactions, warms the caches as much, and takes as long
    to run. thread_ms: by name of workload, else of program; least_ms: a workload's own lower bound
    of the window. `databases`: arguments of TPC-C, by Workload.database. `most_threads`: programs
    load for this many, and so can load once for any number up to it; 0: they load for each run's
    own number."""

    threads: tuple[int, ...]
    databases: Mapping[str, tuple[str, ...]]
    database_text: str
    thread_ms: dict[str, float]
    bounds_ms: tuple[float, float]
    log_mib: int  # of each thread
    replay: tuple[str, ...]
    most_threads: int = 0
    least_ms: Mapping[str, float] = field(default_factory=dict)

    def seconds(self, workload: Workload, threads: int) -> str:
        least, most = self.bounds_ms
        least = self.least_ms.get(workload.name, least)
        thread_ms = self.thread_ms.get(workload.name, self.thread_ms[workload.program])
        return f"{min(max(thread_ms / threads, least), most) / 1000:.6g}"

    def loaded(self, workload: Workload, threads: int) -> list[str]:
        """What loading fixes, without the system and the seed. As in the paper, nothing is replayed
        during a run: log and ring hold a whole run."""
        arguments = [*workload.data]
        if workload.program == "tpcc":
            arguments += [*self.databases[workload.database], "--phases"]
        if self.most_threads:
            arguments += ["--most-threads", str(max(self.most_threads, threads))]
        return [*arguments, "--log-mib", str(self.log_mib), "--ring-slots", str(RING_SLOTS)]


RING_SLOTS = 1 << 18
PRODUCERS = (1, 8, 32, 64)
TENTH = {
    "table1": ("--scale", "table1-tenth", "--warehouses", "64"),
    "spec": ("--scale", "spec-tenth", "--warehouses", "64"),
}
# The same heap for every run, with room for what the longest adds.
TENTH_FIXED = {
    "table1": (*TENTH["table1"], "--heap-mib", "1536"),
    "spec": (*TENTH["spec"], "--heap-mib", "1024"),
}
TENTH_TEXT = (
    "TPC-C: 64 warehouses; the reads and writes of the paper's Table 1, or TPC-C's own rules"
)
# Of short transactions 48 thread-ms are tens of thousands.
SHORT = {
    f"{name}{rules}": 48.0
    for name in ("payment-orderstatus", "orderstatus95", "orderstatus", "payment")
    for rules in ("", "-spec")
}
# delivery: where 64 threads contend, one takes a few milliseconds; yet not so long that no order is
# left to deliver. Replay: as many updates as fill a ring.
FULL = Setting(
    (1, 2, 4, 8, 16, 32, 48, 64),
    TENTH_FIXED,
    TENTH_TEXT,
    {"tpcc": 256, "stocklevel": 128, "delivery": 24, "delivery-spec": 48, "rbtree": 64} | SHORT,
    (1, 100),
    8,
    ("--log-mib", "128", "--updates", "65000"),
    64,
    {"delivery": 6},
)
QUICK = Setting(
    (1, 8, 64),
    {
        "table1": ("--scale", "table1-tenth", "--warehouses", "2", "--heap-mib", "256"),
        "spec": ("--scale", "tiny", "--warehouses", "64", "--heap-mib", "512"),
    },
    "TPC-C: few warehouses, or --scale tiny (a smoke test, not a result)",
    {"tpcc": 20, "rbtree": 20},
    (0.3, 20),
    4,
    ("--log-mib", "16", "--updates", "8000"),
    64,
)
# Real seconds: what the machine next door does is in them.
NATIVE = Setting(
    (1, 2),
    TENTH,
    TENTH_TEXT,
    {"tpcc": 2000, "rbtree": 2000},
    (1000, 1000),
    512,
    ("--log-mib", "128"),
)
NATIVE_QUICK = Setting(
    (1, 2),
    QUICK.databases,
    QUICK.database_text,
    {"tpcc": 200, "rbtree": 200},
    (100, 200),
    128,
    ("--log-mib", "16"),
)


def setting(machine: str, quick: bool) -> Setting:
    if machine == "native":
        return NATIVE_QUICK if quick else NATIVE
    return QUICK if quick else FULL


@dataclass(frozen=True)
class Run:
    """One run of a program: a point of a figure, or of several. Loading fixes `loaded`: runs that
    have it in common can share the loading, each with its own `line` (--runs). An empty `line`:
    the program has no such runs."""

    program: str
    workload: str
    tm: str
    threads: int
    loaded: tuple[str, ...]
    line: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of the run alone, which gives the same result."""
        return (*self.loaded, *self.line, "--json", "-")

    @property
    def command(self) -> str:
        """From the build directory."""
        return " ".join((PROGRAMS[self.program].path, *self.arguments))


def replay_of(
    workload: Workload, scheme: str, producers: int, machine: str, measured: Setting, seed: int
) -> Run:
    arguments = (
        "--machine",
        machine,
        "--scheme",
        scheme,
        "--producers",
        str(producers),
        *measured.replay,
        *workload.arguments,
    )
    return Run(
        workload.program,
        workload.name,
        scheme,
        producers,
        (*arguments, "--seed", str(seed)),
        (),
    )


def run_of(
    workload: Workload,
    tm: str,
    threads: int,
    machine: str,
    measured: Setting,
    seed: int,
) -> Run:
    if workload.program == "replay":
        return replay_of(workload, tm, threads, machine, measured, seed)
    loaded = ["--machine", machine, "--tm", tm, *measured.loaded(workload, threads)]
    seconds = measured.seconds(workload, threads)
    return Run(
        workload.program,
        workload.name,
        tm,
        threads,
        (*loaded, "--seed", str(seed)),
        ("--threads", str(threads), "--seconds", seconds, *workload.arguments),
    )


def runs_of(
    figure: Figure,
    systems: list[str],
    threads: list[int],
    machine: str,
    measured: Setting,
    seeds: int,
) -> list[Run]:
    """Few threads first: the shape of a figure shows early."""
    return [
        run_of(workload, tm, n, machine, measured, seed)
        for n in threads
        if figure.least_threads <= n <= figure.most_threads
        for workload in figure.workloads
        if workload.natively or machine != "native"
        if not workload.threads or n in workload.threads or machine == "native"
        for tm in systems
        for seed in range(1, seeds + 1)
    ]
