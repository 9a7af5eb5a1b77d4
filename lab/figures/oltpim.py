# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the paper on OLTPim, on a sixteenth of its machine: 4 of 64 threads, 2 of 32
ranks, a sixteenth of the L3, of the bandwidth of the modules' channels, and of the records.

The results are oltpim.jsonl, the journal, with a run and its command on each line; oltpim.md, the
page; a picture a figure."""
from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from charts import STYLE
from results import (
    Fact,
    Refused,
    journal_line,
    recall,
    run_program,
    write_atomically,
    write_journal,
)

PROGRAM = "lab/oltpim/oltpim-emulated"  # from the build directory
ROOT = Path(__file__).resolve().parents[2]
MACHINES = "lab/oltpim/machines"
HOST, MODULES = f"{MACHINES}/xeon-4216-16th.toml", f"{MACHINES}/upmem-16th.toml"
LIMIT_SECONDS = 1200
LOG = "commits.fur"  # of a run
SWITCH_US = 21  # switch_ns of MODULES
SCALE = 16
MILLION = 1_000_000
BEST = {"oltpim": 256, "mosaic": 8}  # transactions of a thread at a time, in the paper
COLOURS = {"oltpim": "#0072b2", "mosaic": "#d55e00"}
NAMES = {"oltpim": "OLTPim", "mosaic": "MosaicDB"}
WRITES = {"C": "c", "B": "b", "A": "a"}


@dataclass(frozen=True)
class Points:
    """The values of each axis; `quick` has a few of them.  Records are the paper's: SCALE times as
    many as a run has."""

    records: tuple[int, ...] = (1 * MILLION, 10 * MILLION, 100 * MILLION, 200 * MILLION)
    many: int = 100 * MILLION  # where an axis is another one
    scans: tuple[int, ...] = (2, 4, 8, 16)
    inserts: tuple[int, ...] = (0, 25, 50, 75, 100)
    batches: tuple[int, ...] = (4, 16, 64, 256, 1024)
    # Requests one by one: with 1,024 transactions at a time none ends within a run.
    singly: tuple[int, ...] = (4, 16, 64, 256)
    few: tuple[int, ...] = (1, 4, 8, 16, 64)
    thetas: tuple[float, ...] = (0, 0.5, 0.75, 0.99)
    warmup_us: int = 2000
    measure_us: int = 6000
    # TPC-C: percent of transactions that write, and a warehouse's size
    writes: tuple[int, ...] = (90, 60, 30, 0)
    warehouses: int = 1024
    customers: int = 300
    items: int = 10000
    tpcc_slots: tuple[int, ...] = (4, 16, 64, 256)
    tpcc_warmup_us: int = 5000
    tpcc_measure_us: int = 30000
    logged: tuple[int, ...] = (50, 100)  # percent that write, with and without the log
    logged_us: int = 10000
    seeds: tuple[int, ...] = (1, 2, 3, 4)  # where single runs differ too much
    long_us: int = 30000  # of a run that makes longer chains


QUICK = Points(
    records=(1 * MILLION, 4 * MILLION),
    many=2 * MILLION,
    scans=(2, 16),
    inserts=(0, 100),
    batches=(16, 256),
    singly=(16, 256),
    few=(1, 8),
    thetas=(0, 0.99),
    warmup_us=1000,
    measure_us=4000,
    writes=(90, 0),
    warehouses=64,
    customers=60,
    items=1000,
    tpcc_slots=(16, 64),
    tpcc_warmup_us=1000,
    tpcc_measure_us=8000,
    logged=(100,),
    logged_us=8000,
    seeds=(1, 2),
    long_us=8000,
)

# Values that the paper and its sources do not give, and those that were fitted: of the modules.
# `mhz` stands for the instructions of the kernel, which is not compiled for a DPU.
UNSURE = ("poll_ns", "switch_ns", "mhz")


class NotMeasured(Refused):
    """A run that the journal lacks, while nothing is to be measured."""


class Runs:
    """Measures what is not known yet, and keeps it: in the journal at once, so that a measurement
    which was stopped goes on from there."""

    def __init__(
        self, points: Points, known: dict[str, dict[str, Any]], build: Path | None, journal: Path
    ) -> None:
        self.points, self.known, self.build, self.journal = points, known, build, journal

    def measured(self, **options: Any) -> dict[str, Any]:
        words = [w for k, v in options.items() for w in (f"--{k.replace('_', '-')}", str(v))]
        words = [w for w in words if w != "True"]  # a flag has no value
        command = " ".join((PROGRAM, *words))
        if command not in self.known:
            if self.build is None:
                raise NotMeasured(f"{command}: not measured: leave out --plot-only to measure")
            with tempfile.TemporaryDirectory() as scratch:
                arguments = [file_of(word, Path(scratch)) for word in words]
                found = run_program(self.build, PROGRAM, [*arguments, "--json", "-"], LIMIT_SECONDS)
            result = {k: v for k, v in found[1].items() if k not in ("host", "modules")}
            self.known[command] = result
            with open(self.journal, "a", encoding="utf-8") as journal:
                journal.write(journal_line({"command": command, "result": result}))
        return self.known[command]

    def on_machine(self, tm: str, workload: str, **options: Any) -> dict[str, Any]:
        near = {"modules": MODULES, "ranks": 2, "elements": 64, "tasklets": 4}
        near |= {k: options.pop(k) for k in list(options) if k in near}
        return self.measured(
            tm=tm,
            host=options.pop("host", HOST),
            **({} if tm == "mosaic" else near),
            threads=4,
            workload=workload,
            **options,
        )

    def run(self, tm: str, workload: str, records: int, **options: Any) -> dict[str, Any]:
        usual = {
            "warmup_us": self.points.warmup_us,
            "measure_us": self.points.measure_us,
            "slots": BEST["mosaic" if tm == "mosaic" else "oltpim"],
        }
        return self.on_machine(tm, workload, records=records // SCALE, **(usual | options))

    def tpcc(self, tm: str, writes: int, **options: Any) -> dict[str, Any]:
        """OLTPim has 64 transactions of a thread at a time then, in the paper."""
        size = {k: options.pop(k, getattr(self.points, k)) for k in ("customers", "items")}
        return self.on_machine(
            tm,
            "tpcc",
            writes=writes,
            warehouses=self.points.warehouses // SCALE,
            **size,
            warmup_us=self.points.tpcc_warmup_us,
            measure_us=self.points.tpcc_measure_us,
            **({"slots": 64 if tm == "oltpim" else BEST[tm]} | options),
        )

    def logged(self, workload: str, percent: int, **options: Any) -> dict[str, Any]:
        """YCSB with the log, or without one, on persistent memory or on memory that needs no
        write-back (a RAM disk)."""
        return self.on_machine(
            "oltpim",
            workload,
            records=self.points.many // SCALE,
            warmup_us=self.points.warmup_us,
            measure_us=options.pop("measure_us", self.points.logged_us),
            slots=BEST["oltpim"],
            percent=percent,
            **options,
        )

    def tpcc_rate(self, tm: str, writes: int, **options: Any) -> float:
        return float(self.tpcc(tm, writes, **options)["throughput"])

    def tpcc_gain(self, writes: int, **options: Any) -> float:
        return self.tpcc_rate("oltpim", writes, **options) / self.tpcc_rate(
            "mosaic", writes, **options
        )

    def tpcc_saving(self, writes: int) -> float:
        """Traffic of MosaicDB over OLTPim's"""
        return traffic(self.tpcc("mosaic", writes)) / traffic(self.tpcc("oltpim", writes))

    def rate(self, tm: str, workload: str, records: int, **options: Any) -> float:
        return float(self.run(tm, workload, records, **options)["throughput"])

    def gain(self, workload: str, records: int, **options: Any) -> float:
        """Of OLTPim over MosaicDB"""
        mosaic = self.rate("mosaic", workload, records, **options)
        return self.rate("oltpim", workload, records, **options) / mosaic

    @property
    def largest(self) -> int:
        return max(self.points.records)

    def best_batch(self, tm: str, **options: Any) -> int:
        sizes = self.points.few if tm == "mosaic" else self.points.batches
        return max(sizes, key=lambda n: self.rate(tm, "b", self.points.many, slots=n, **options))


def file_of(word: str, scratch: Path) -> str:
    """A description's path; FILE:KEY*FACTOR is one with that value changed.  The log's is in a
    directory of the run."""
    if word == LOG:
        return str(scratch / word)
    if not word.startswith(MACHINES):
        return word
    name, _, change = word.partition(":")
    if not change:
        return str(ROOT / name)
    key, factor = change.split("*")
    text = (ROOT / name).read_text(encoding="utf-8")
    pattern = re.compile(rf"^{key} = ([\d.]+)$", re.MULTILINE)
    found = pattern.search(text)
    if not found:
        raise Refused(f"{name}: no value {key}")
    value = float(found[1]) * float(factor)
    path = scratch / Path(name).name
    path.write_text(pattern.sub(f"{key} = {value:g}", text), encoding="utf-8")
    return str(path)


# ---------------------------------------------------------------------------- facts


def crossing(runs: Runs, workload: str) -> float:
    """The first table, in millions of records, on which OLTPim is ahead."""
    ahead = [n for n in runs.points.records if runs.gain(workload, n) >= 1]
    return ahead[0] / MILLION if ahead else math.inf


def kept(runs: Runs, tm: str) -> float:
    """Of the throughput on the smallest table, that on the largest one: YCSB-C."""
    return runs.rate(tm, "c", runs.largest) / runs.rate(tm, "c", min(runs.points.records))


def slowdown(runs: Runs, tm: str, records: int) -> float:
    """Of YCSB-A by collecting versions."""
    return runs.rate(tm, "a", records, keep_versions=True) / runs.rate(tm, "a", records)


def insert_crossing(runs: Runs) -> float:
    """The least share of inserts, in percent, from which on MosaicDB is ahead."""
    behind = [p for p in runs.points.inserts if runs.gain("i", runs.points.many, percent=p) < 1]
    return behind[0] if behind else math.inf


def theta_crossing(runs: Runs) -> float:
    behind = [t for t in runs.points.thetas if runs.gain("b", runs.points.many, zipf=t) < 1]
    return behind[0] if behind else math.inf


def traffic(result: dict[str, Any]) -> float:
    """Bytes of a committed transaction: lines that the host reads from its memory, and what the
    modules' channels carry."""
    near = ("pim_written_bytes", "pim_read_bytes", "pim_control_bytes")
    return float(result["dram_read_bytes"] + sum(result.get(k, 0) for k in near))


RAM_DISK = f"{HOST}:write_ns*0"


def log_cost(
    runs: Runs, workload: str, host: str = HOST, percent: int = 100, **options: Any
) -> float:
    """Throughput with the log over that without"""
    logged = runs.logged(workload, percent, host=host, log=LOG, **options)
    return float(logged["throughput"] / runs.logged(workload, percent, **options)["throughput"])


def inserts_by_length(runs: Runs) -> str:
    p = runs.points
    without = runs.logged("i", 100)
    longer = log_cost(runs, "i", RAM_DISK, measure_us=p.long_us)
    return (
        f"a run of {p.logged_us / 1000:g} ms has one or two transactions of each of a thread's "
        f"{BEST['oltpim']}, which take {without['p50_us'] / 1000:.1f} ms in the median: in runs of "
        f"{p.long_us / 1000:g} ms it is {longer:.2f}"
    )


def latency(runs: Runs, tm: str, **options: Any) -> float:
    """P99 of YCSB-B, in milliseconds."""
    return float(runs.run(tm, "b", runs.points.many, **options)["p99_us"]) / 1000


HOST_BOUND = (
    "MosaicDB reads more than the paper's can, for the memory here has no limit of bandwidth "
    "(*Ways to come nearer*)"
)


def host_bound(runs: Runs, workload: str) -> str:
    (behind,) = (b for b in all_behind(runs) if b.workload == workload)
    some, more = (at_bound(runs, behind, WAYS[name][0]) for name in ("as it is", "11 tasklets"))
    return f"{HOST_BOUND}: at the bound it is {some:.2f}, and with 11 tasklets {more:.2f}"


def scans_wait(runs: Runs) -> str:
    scan = runs.run("oltpim", "s", runs.points.many, scan=runs.points.scans[0], slots=128)
    get = runs.run("oltpim", "c", runs.points.many)
    lines = [r["dram_read_bytes"] / 64 for r in (scan, get)]
    return (
        f"as for YCSB-C; and a transaction of the shortest scans reads {lines[0]:.0f} lines of the "
        f"host's memory, one of YCSB-C {lines[1]:.0f}: where each takes four times as long OLTPim "
        "loses more (*Ways to come nearer*). A reply has room for 16 keys whatever the length: the "
        "longer the scans, the less OLTPim loses (the picture). At the bound it is "
        + " and ".join(f"{at_bound(runs, b, {}):.2f} ({b.name})" for b in scans_behind(runs))
    )


def best_by_memory(runs: Runs) -> str:
    slow = runs.best_batch("mosaic", host=f"{HOST}:memory*4")
    singly = runs.best_batch("mosaic", one_by_one=True)
    return (
        "ten requests of each transaction are under way at once already; one by one, "
        f"{singly} is best, and where the memory takes four times as long, {slow} "
        "(*The best batch of MosaicDB*)"
    )


def savings_by_slots(runs: Runs, writes: int) -> str:
    slots, mosaic = runs.points.tpcc_slots, traffic(runs.tpcc("mosaic", writes))
    found = [mosaic / traffic(runs.tpcc("oltpim", writes, slots=n)) for n in slots]
    return (
        f"With {', '.join(map(str, slots))} a thread it is {', '.join(f'{r:.2f}' for r in found)}"
    )


def read_traffic_by_slots(runs: Runs) -> str:
    return (
        "the fewer transactions a thread has, the less of their requests and tuples leaves the "
        f"caches before they are used (*What a transaction reads of the host's memory*). "
        f"{savings_by_slots(runs, 0)}"
    )


def traffic_by_slots(runs: Runs) -> str:
    return (
        "at 9:1: of four transactions of a warehouse one at most can pay, and most of OLTPim's "
        f"abort. {savings_by_slots(runs, max(runs.points.writes))}; with 16, one of a warehouse, "
        "none aborts"
    )


FACTS: list[Fact[[Runs]]] = [
    Fact(
        "7, YCSB-C",
        "OLTPim over MosaicDB, largest table",
        "1.71",
        1.4,
        2.1,
        lambda r: r.gain("c", r.largest),
        partial(host_bound, workload="c"),
    ),
    Fact(
        "7, YCSB-C",
        "OLTPim is flat: largest over smallest table",
        "about 1",
        0.9,
        1.1,
        lambda r: kept(r, "oltpim"),
        "trees of larger tables have more levels in a module too: its time for a batch grows",
    ),
    Fact(
        "7, YCSB-C",
        "MosaicDB falls: largest over smallest table",
        "falls",
        0,
        0.75,
        lambda r: kept(r, "mosaic"),
        HOST_BOUND,
    ),
    Fact(
        "7, YCSB-B",
        "OLTPim over MosaicDB, largest table",
        "up to 1.70",
        1.35,
        2.1,
        lambda r: r.gain("b", r.largest),
        partial(host_bound, workload="b"),
    ),
    Fact(
        "7, YCSB-B",
        "millions of records from which on OLTPim is ahead",
        "10",
        3,
        30,
        lambda r: crossing(r, "b"),
        HOST_BOUND,
    ),
    Fact(
        "7, YCSB-A",
        "OLTPim over MosaicDB, largest table",
        "up to 1.70",
        1.35,
        2.1,
        lambda r: r.gain("a", r.largest),
        partial(host_bound, workload="a"),
    ),
    Fact(
        "7, YCSB-S",
        "OLTPim over MosaicDB, the least of all lengths of scans",
        "above 1",
        1,
        math.inf,
        lambda r: min(scan_gain(r, n) for n in r.points.scans),
        scans_wait,
    ),
    Fact(
        "7, YCSB-I",
        "percent of inserts from which on MosaicDB is ahead",
        "50",
        30,
        60,
        insert_crossing,
        "MosaicDB is ahead without inserts, which is YCSB-C (*Ways to come nearer*); a launch "
        "takes longer with inserts, which hold the latch of their module's trees (*The modules' "
        "channels*)",
    ),
    Fact(
        "7, TPC-C",
        "read-only: traffic of a transaction, MosaicDB over OLTPim",
        "2.75",
        2,
        math.inf,
        lambda r: r.tpcc_saving(0),
        read_traffic_by_slots,
    ),
    Fact(
        "7, TPC-C",
        "the same, the least of all mixes",
        "above 1",
        1,
        math.inf,
        lambda r: min(r.tpcc_saving(w) for w in r.points.writes),
        traffic_by_slots,
    ),
    Fact(
        "7, TPC-C",
        "read-only: OLTPim over MosaicDB",
        "above 1",
        1,
        math.inf,
        lambda r: r.tpcc_gain(0),
        HOST_BOUND,
    ),
    Fact(
        "7, TPC-C",
        "mixes that write: OLTPim over MosaicDB, the most of them",
        "below 1",
        0,
        1,
        lambda r: max(r.tpcc_gain(w) for w in r.points.writes if w),
    ),
    Fact(
        "7, TPC-C",
        "MosaicDB falls by reads: read-only over 9:1",
        "below 1",
        0,
        1,
        lambda r: r.tpcc_rate("mosaic", 0) / r.tpcc_rate("mosaic", max(r.points.writes)),
    ),
    Fact(
        "7, TPC-C",
        "OLTPim falls less: its ratio over that of MosaicDB",
        "above 1",
        1,
        math.inf,
        lambda r: r.tpcc_gain(0) / r.tpcc_gain(max(r.points.writes)),
    ),
    Fact(
        "8",
        "the best batch of OLTPim",
        "256",
        128,
        512,
        lambda r: r.best_batch("oltpim"),
        "not explained: no batch above 1,024 was run, and its P99 is as long as a run",
    ),
    Fact(
        "8",
        "the best batch of MosaicDB",
        "8",
        4,
        16,
        lambda r: r.best_batch("mosaic"),
        best_by_memory,
    ),
    Fact(
        "8",
        "the same, requests one by one",
        "8",
        4,
        16,
        lambda r: r.best_batch("mosaic", one_by_one=True),
    ),
    Fact(
        "8",
        "P99 of OLTPim at 256, milliseconds",
        "below 10",
        0,
        10,
        lambda r: latency(r, "oltpim"),
    ),
    Fact(
        "8",
        "requests one by one: the peak, over that of all at once",
        "below 1",
        0,
        1,
        lambda r: max(
            r.rate("oltpim", "b", r.points.many, slots=n, one_by_one=True) for n in r.points.singly
        )
        / r.rate("oltpim", "b", r.points.many, slots=r.best_batch("oltpim")),
    ),
    Fact(
        "8",
        "YCSB-A, 1 M records: percent aborted, OLTPim",
        "21",
        10,
        35,
        lambda r: r.run("oltpim", "a", MILLION)["abort_percent"],
        "a sixteenth of the threads has a sixteenth of the records",
    ),
    Fact(
        "8",
        "YCSB-A, 1 M records: percent aborted, MosaicDB",
        "1.1",
        0,
        3,
        lambda r: r.run("mosaic", "a", MILLION)["abort_percent"],
    ),
    Fact(
        "9",
        "without collection OLTPim is flat: largest over smallest table",
        "about 1",
        0.9,
        1.1,
        lambda r: r.rate("oltpim", "a", r.points.many, keep_versions=True)
        / r.rate("oltpim", "a", min(r.points.records), keep_versions=True),
        "of the transactions on the smallest table three of ten abort, of those on the large one "
        "none; of all attempts the rate is flat (*Figure 9 by other runs*)",
    ),
    Fact(
        "9",
        "slowdown by collection, OLTPim, smallest over large table",
        "above 1",
        1,
        math.inf,
        lambda r: slowdown(r, "oltpim", min(r.points.records))
        / slowdown(r, "oltpim", r.points.many),
        "collection costs a few in a hundred here, less than single runs differ by: a run of some "
        "milliseconds makes less than one version of a record (*Figure 9 by other runs*)",
    ),
    Fact(
        "10",
        "YCSB-U, 100 %: the log costs: with it over without, RAM disk",
        "below 1",
        0,
        0.95,
        lambda r: log_cost(r, "u", RAM_DISK),
        "less than what single runs of 10 ms differ by; on persistent memory it costs (*The log*)",
    ),
    Fact(
        "10",
        "YCSB-I, 100 %: it does not: with it over without, RAM disk",
        "about 1",
        0.9,
        1.1,
        lambda r: log_cost(r, "i", RAM_DISK),
        inserts_by_length,
    ),
    Fact(
        "10",
        "inserts take longer than updates: P99 of YCSB-I over that of YCSB-U, without the log",
        "above 1",
        1,
        math.inf,
        lambda r: r.logged("i", 100)["p99_us"] / r.logged("u", 100)["p99_us"],
    ),
    Fact(
        "12",
        "theta from which on MosaicDB is ahead",
        "between 0.5 and 0.99",
        0.5,
        0.99,
        theta_crossing,
        HOST_BOUND,
    ),
    Fact(
        "12",
        "OLTPim gains by uniform keys: theta 0 over the largest",
        "above 1",
        1,
        math.inf,
        lambda r: r.rate("oltpim", "b", r.points.many, zipf=min(r.points.thetas))
        / r.rate("oltpim", "b", r.points.many, zipf=max(r.points.thetas)),
    ),
]


def scan_rate(runs: Runs, tm: str, keys: int) -> float:
    """OLTPim has 128 transactions of a thread at a time then, in the paper."""
    slots = 128 if tm == "oltpim" else BEST[tm]
    return runs.rate(tm, "s", runs.points.many, scan=keys, slots=slots)


def scan_gain(runs: Runs, keys: int) -> float:
    return scan_rate(runs, "oltpim", keys) / scan_rate(runs, "mosaic", keys)


MISSING = [
    "The lines that the host writes back to its memory (Figures 1, 7, 8, 12, DRAM write): the "
    "emulated host counts those that it reads.",
    "Figure 11, the steps of optimisation and the two NUMA bars: only the last step exists, on one "
    "socket.",
    "1 B records: the largest table is 200 M, of which a run has a sixteenth.",
]

# ------------------------------------------------------------------------- pictures

Lines = dict[str, list[tuple[float, float]]]


def draw(path: Path, title: str, panels: list[tuple[str, str, Lines]], log: bool) -> None:
    canvas, all_axes = pyplot.subplots(
        1, len(panels), figsize=(4 * len(panels), 3), squeeze=False, layout="constrained"
    )
    for axes, (name, x_label, lines) in zip(all_axes[0], panels):
        for label, points in lines.items():
            tm = "mosaic" if label.startswith(NAMES["mosaic"]) else "oltpim"
            dashes = "--" if "," in label else "-"
            axes.plot(*zip(*points), dashes, marker="o", color=COLOURS[tm], label=label)
        if log:
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set(title=name, xlabel=x_label)
    all_axes[0][0].set_ylabel("transactions a second, in millions")
    first = all_axes[0][0]
    if len(panels[0][2]) > len(NAMES):  # the legend covers no line
        first.set_ylim(top=1.5 * first.get_ylim()[1])
        first.legend(loc="upper center", ncols=2, fontsize="small")
    else:
        first.legend()
    canvas.suptitle(title)
    canvas.savefig(path, dpi=120)
    pyplot.close(canvas)


def over(runs: Runs, workload: str, xs: Any, options: Callable[[Any], dict[str, Any]]) -> Lines:
    return {
        NAMES[tm]: [
            (x, runs.rate(tm, workload, **({"records": runs.points.many} | options(x))) / 1e6)
            for x in xs
        ]
        for tm in BEST
    }


def by_records(runs: Runs, workload: str, **more: Any) -> Lines:
    return over(runs, workload, runs.points.records, lambda n: {"records": n} | more)


def draw_tables(runs: Runs, path: Path) -> None:
    panels = [(f"YCSB-{k}", "records", by_records(runs, w)) for k, w in WRITES.items()]
    draw(path, "YCSB by the size of the table (records of the paper's scale)", panels, True)


def draw_others(runs: Runs, path: Path) -> None:
    scans: Lines = {}
    for tm in BEST:
        scans[NAMES[tm]] = [(n, scan_rate(runs, tm, n) / 1e6) for n in runs.points.scans]
    inserts = over(runs, "i", runs.points.inserts, lambda p: {"percent": p})
    panels = [
        ("YCSB-S", "keys of a scan", scans),
        ("YCSB-I", "percent of transactions that insert", inserts),
    ]
    draw(path, "Scans and inserts", panels, False)


def draw_tpcc(runs: Runs, path: Path) -> None:
    def lines(value: Callable[[dict[str, Any]], float]) -> Lines:
        return {
            NAMES[tm]: [(100 - w, value(runs.tpcc(tm, w))) for w in runs.points.writes]
            for tm in BEST
        }

    panels = [
        ("", "percent of transactions that only read", lines(lambda r: r["throughput"] / 1e6)),
        ("KB of a transaction", "percent that only read", lines(lambda r: traffic(r) / 1e3)),
    ]
    draw(path, "TPC-C by the mix", panels, False)


def draw_batches(runs: Runs, path: Path) -> None:
    p = runs.points
    lines: Lines = {
        NAMES["oltpim"]: [(n, runs.rate("oltpim", "b", p.many, slots=n) / 1e6) for n in p.batches],
        f"{NAMES['oltpim']}, one by one": [
            (n, runs.rate("oltpim", "b", p.many, slots=n, one_by_one=True) / 1e6) for n in p.singly
        ],
        NAMES["mosaic"]: [(n, runs.rate("mosaic", "b", p.many, slots=n) / 1e6) for n in p.few],
        f"{NAMES['mosaic']}, one by one": [
            (n, runs.rate("mosaic", "b", p.many, slots=n, one_by_one=True) / 1e6) for n in p.few
        ],
    }
    draw(path, "YCSB-B by the batch", [("", "transactions of a thread at a time", lines)], True)


def draw_collection(runs: Runs, path: Path) -> None:
    lines: Lines = {}
    for tm in BEST:
        sizes = [n for n in runs.points.records if n <= runs.points.many]
        lines[NAMES[tm]] = [(n, runs.rate(tm, "a", n) / 1e6) for n in sizes]
        lines[f"{NAMES[tm]}, keeps versions"] = [
            (n, runs.rate(tm, "a", n, keep_versions=True) / 1e6) for n in sizes
        ]
    draw(path, "YCSB-A with and without collection", [("", "records", lines)], True)


def draw_skew(runs: Runs, path: Path) -> None:
    lines = over(runs, "b", runs.points.thetas, lambda t: {"zipf": t})
    draw(path, "YCSB-B by skew", [("", "theta of Zipf's law", lines)], False)


PICTURES = {
    "7": ("Tables", draw_tables),
    "7-scans": ("Scans and inserts", draw_others),
    "7-tpcc": ("TPC-C", draw_tpcc),
    "8": ("Batches", draw_batches),
    "9": ("Collection of versions", draw_collection),
    "12": ("Skew", draw_skew),
}

# ----------------------------------------------------------------------------- page


def fact_table(runs: Runs) -> str:
    rows = [
        "| figure | the paper says | paper | accepted | measured | why they differ |",
        "| --- " * 6 + "|",
    ]
    for f in FACTS:
        upper = f"to {f.most:g}" if not math.isinf(f.most) else "or more"
        said = f"| {f.figure} | {f.claim} | {f.paper} | {f.least:g} {upper} |"
        try:
            measured = f.computed(runs)
        except NotMeasured:
            rows.append(f"{said} not run | |")
            continue
        rows.append(f"{said} {f.shown(measured)} | {f.explained(measured, runs)} |")
    return "\n".join(rows)


def sensitivity_table(runs: Runs) -> str:
    """YCSB-C: OLTPim's throughput with one value changed, over that with none."""
    base = runs.rate("oltpim", "c", runs.points.many)
    rows = ["| value | half | double |", "| --- | --- | --- |"]
    for key in UNSURE:
        cells = [
            runs.rate("oltpim", "c", runs.points.many, modules=f"{MODULES}:{key}*{factor}") / base
            for factor in (0.5, 2)
        ]
        rows.append(f"| `{key}` | {cells[0]:.2f} | {cells[1]:.2f} |")
    eleven = runs.rate("oltpim", "c", runs.points.many, tasklets=11) / base
    rows.append(f"| 11 tasklets instead of 4 | {eleven:.2f} | |")
    return "\n".join(rows)


def latency_table(runs: Runs) -> str:
    """YCSB-C on the largest table, on hosts whose memory is slower, as a full channel's is."""
    rows = [
        "| latency of the host's memory, ns | OLTPim | MosaicDB | over it |",
        "| --- " * 4 + "|",
    ]
    for factor in (1, 2, 4):
        host = HOST if factor == 1 else f"{HOST}:memory*{factor}"
        rates = [runs.rate(tm, "c", runs.largest, host=host) for tm in BEST]
        cells = " | ".join(f"{r / 1e6:.2f}" for r in rates)
        rows.append(f"| {95 * factor} | {cells} | {rates[0] / rates[1]:.2f} |")
    return "\n".join(rows)


def busy_percent(r: dict[str, Any]) -> float:
    """Of a rank: its kernel runs, or its memory is handed over, both ways."""
    each_us = r["kernel_us_of_a_launch"] + 2 * SWITCH_US
    return float(100 * r["batches"] * each_us / r["ranks"] / (r["seconds"] * 1e6))


def tpcc_table(runs: Runs) -> str:
    rows = [
        "| writes:reads | system | transactions a second | aborted, % | P99, ms | DRAM read | "
        "modules' channels | requests of a batch | a launch, us | a rank is busy, % |",
        "| --- " * 10 + "|",
    ]
    for writes in runs.points.writes:
        for tm in BEST:
            r = runs.tpcc(tm, writes)
            near = tm == "oltpim"
            rows.append(
                f"| {writes // 10}:{10 - writes // 10} | {NAMES[tm]} | {r['throughput']:.0f} | "
                f"{r['abort_percent']:.1f} | {r['p99_us'] / 1000:.1f} | "
                f"{r['dram_read_bytes']:.0f} | "
                + (
                    f"{traffic(r) - r['dram_read_bytes']:.0f} | {r['requests_of_a_batch']:.0f} | "
                    f"{r['kernel_us_of_a_launch']:.0f} | {busy_percent(r):.0f} |"
                    if near
                    else "| | | |"
                )
            )
    return "\n".join(rows)


def seed_of(seed: int) -> dict[str, int]:
    return {} if seed == 1 else {"seed": seed}


def tpcc_seeds_table(runs: Runs) -> str:
    rows = ["| seed | 9:1, OLTPim | MosaicDB | over it | 0:10, OLTPim | MosaicDB | over it |"]
    rows.append("| --- " * 7 + "|")
    for seed in runs.points.seeds:
        cells = []
        for writes in (max(runs.points.writes), 0):
            rates = [runs.tpcc_rate(tm, writes, **seed_of(seed)) for tm in BEST]
            cells += [*(f"{r:.0f}" for r in rates), f"{rates[0] / rates[1]:.2f}"]
        rows.append(f"| {seed} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def tpcc_slots_table(runs: Runs) -> str:
    """OLTPim, by the transactions of a thread at a time."""
    rows = [
        "| slots | 9:1, a second | aborted, % | bytes | 0:10, a second | bytes |",
        "| --- " * 6 + "|",
    ]
    for slots in runs.points.tpcc_slots:
        some, none = (runs.tpcc("oltpim", w, slots=slots) for w in (max(runs.points.writes), 0))
        rows.append(
            f"| {slots} | {some['throughput']:.0f} | {some['abort_percent']:.0f} | "
            f"{traffic(some):.0f} | {none['throughput']:.0f} | {traffic(none):.0f} |"
        )
    return "\n".join(rows)


def tpcc_sensitivity_table(runs: Runs) -> str:
    """OLTPim over MosaicDB with one value changed."""
    mixes = (max(runs.points.writes), 0)
    rows = ["| value | 9:1, half | 9:1, double | 0:10, half | 0:10, double |", "| --- " * 5 + "|"]
    for key in UNSURE:
        cells = [
            runs.tpcc_rate("oltpim", w, modules=f"{MODULES}:{key}*{factor}")
            / runs.tpcc_rate("mosaic", w)
            for w in mixes
            for factor in (0.5, 2)
        ]
        rows.append(f"| `{key}` | " + " | ".join(f"{c:.2f}" for c in cells) + " |")
    base = [f"{runs.tpcc_gain(w):.2f}" for w in mixes]
    rows.append(f"| none | {base[0]} | | {base[1]} | |")
    return "\n".join(rows)


def tpcc_host_table(runs: Runs) -> str:
    """Read-only, on hosts whose memory is slower, and on a warehouse that is twice as large."""
    rows = ["| read-only | OLTPim | MosaicDB | over it |", "| --- " * 4 + "|"]
    double = {"customers": 2 * runs.points.customers, "items": 2 * runs.points.items}
    cases: list[tuple[str, dict[str, Any]]] = [
        (f"memory of {95 * f} ns", {} if f == 1 else {"host": f"{HOST}:memory*{f}"})
        for f in (1, 2, 4)
    ]
    for name, options in [*cases, ("twice as many customers, orders and items", double)]:
        rates = [runs.tpcc_rate(tm, 0, **options) for tm in BEST]
        cells = " | ".join(f"{r:.0f}" for r in rates)
        rows.append(f"| {name} | {cells} | {rates[0] / rates[1]:.2f} |")
    return "\n".join(rows)


@dataclass(frozen=True)
class Behind:
    """A workload with which OLTPim is to be ahead."""

    name: str
    workload: str
    options: dict[str, Any]
    slots: int = BEST["oltpim"]  # of OLTPim
    largest: bool = False  # the largest table; else the usual one

    def measured(self, runs: Runs, tm: str, way: dict[str, Any]) -> dict[str, Any]:
        if self.workload == "tpcc":
            return runs.tpcc(tm, 0, **way)
        slots = {"slots": self.slots} if tm == "oltpim" else {}
        records = runs.largest if self.largest else runs.points.many
        return runs.run(tm, self.workload, records, **(self.options | slots | way))


def scans_behind(runs: Runs) -> list[Behind]:
    """The shortest and the longest"""
    ends = (runs.points.scans[0], runs.points.scans[-1])
    return [Behind(f"YCSB-S, {n} keys", "s", {"scan": n}, slots=128) for n in ends]


def all_behind(runs: Runs) -> list[Behind]:
    return [
        *(Behind(f"YCSB-{name}", w, {}, largest=True) for name, w in WRITES.items()),
        *scans_behind(runs),
        Behind("TPC-C, read-only", "tpcc", {}),
    ]


# Of the paper's MosaicDB, which keeps 90 % of its rate or more on four channels of 19.2 GB/s.
MOST_READ = 4 * 19.2e9 / 0.9 / SCALE
# What is changed: of the modules, and of the host, which is then that of both systems.
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it is": ({}, {}),
    "11 tasklets": ({"tasklets": 11}, {}),
    "`mhz` double": ({"modules": f"{MODULES}:mhz*2"}, {}),
    "`transfer_same_socket` half": ({}, {"host": f"{HOST}:transfer_same_socket*0.5"}),
    "`memory` four times": ({}, {"host": f"{HOST}:memory*4"}),
    "the same, 11 tasklets": ({"tasklets": 11}, {"host": f"{HOST}:memory*4"}),
}


def read_a_second(mosaic: dict[str, Any]) -> float:
    """Bytes of the host's memory"""
    return float(mosaic["throughput"] * mosaic["dram_read_bytes"])


def at_bound(runs: Runs, behind: Behind, near: dict[str, Any]) -> float:
    """OLTPim over a MosaicDB that reads no more than the paper's can"""
    mosaic = behind.measured(runs, "mosaic", {})
    bound = mosaic["throughput"] * min(1, MOST_READ / read_a_second(mosaic))
    return float(behind.measured(runs, "oltpim", near)["throughput"] / bound)


def ways_table(runs: Runs) -> str:
    """OLTPim over MosaicDB"""
    head = [*WAYS, "MosaicDB reads: GB/s", "at the bound", "11 tasklets"]
    rows = ["| | " + " | ".join(head) + " |", "| --- " * (len(head) + 1) + "|"]
    for behind in all_behind(runs):
        cells = []
        for of_modules, of_host in WAYS.values():
            near = behind.measured(runs, "oltpim", of_modules | of_host)["throughput"]
            cells.append(f"{near / behind.measured(runs, 'mosaic', of_host)['throughput']:.2f}")
        cells.append(f"{read_a_second(behind.measured(runs, 'mosaic', {})) / 1e9:.1f}")
        for name in ("as it is", "11 tasklets"):
            cells.append(f"{at_bound(runs, behind, WAYS[name][0]):.2f}")
        rows.append(f"| {behind.name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def reads_text(runs: Runs) -> str:
    try:
        near, host = (runs.tpcc(tm, 0) for tm in BEST)
    except NotMeasured:
        found = "It was not run."
    else:
        found = (
            f"Read-only TPC-C has a\ntraffic of {traffic(near):.0f} bytes a transaction then, "
            f"{near['dram_read_bytes']:.0f} of them from the host's memory, and\nMosaicDB's of "
            f"{traffic(host):.0f}."
        )
    return f"""## What a transaction reads of the host's memory

A request has 64 bytes and a line of its own. It has its number in its round, whose count of
requests that are not served is behind them, so it needs no address of the count. A result has 24
bytes, and a round's list of requests for ranks 2 bytes for a request. {found}

With the layout before this one, the traffic was 58155 bytes, and MosaicDB's 111937, 1.92 times as
many: a request had 72 bytes on two lines, a result 40 and the list 8. Of that layout (commit
3a5cb19b) this is what a transaction read, by what lay there: a single run of each system, by the
addresses of the lines that came to the emulated L3, with 64 transactions a thread and 118 requests
a transaction.

| layout before this one | OLTPim | MosaicDB |
| --- | --- | --- |
| tuples | 22138 | 24633 |
| requests, with their replies | 12645 | 6699 |
| results of requests | 3092 | 2918 |
| what is pushed and pulled | 2313 | |
| replies of scans | 1856 | 1617 |
| a batch's lists of requests | 1856 | |
| a round's list of requests for ranks | 1039 | |
| transactions | 843 | 160 |
| all else: indexes, of MosaicDB | 2197 | 75874 |"""


def ways_text(runs: Runs) -> str:
    most = f"{MOST_READ / 1e9:.1f} GB/s"
    try:
        lines = f"{runs.run('oltpim', 'c', runs.points.many)['dram_read_bytes'] / 64:.0f}"
    except NotMeasured:
        lines = "(not run)"
    return f"""## Ways to come nearer

OLTPim over MosaicDB, with a value of a description changed, for the workloads with which OLTPim is
to be ahead. The host's values are changed for both systems.

{table_of(ways_table, runs)}

*At the bound*: the paper's MosaicDB has twelve channels of 19.2 GB/s, and on four of them it is
slower by 5 to 10 %. So it reads at most 85 GB/s, of which {most} are a sixteenth. The emulated
memory has no such limit: the last two columns hold for a MosaicDB that reads no more than that.

A worker writes a request, another one reads it, batches it and writes the reply, and the first one
reads that. Each time the line comes from another core, in `transfer_same_socket`. The emulated core
waits for each line that it was not told to fetch; a real one fetches several at a time.

Two changes brought OLTPim nearer. Read-only TPC-C, single runs of the three programs, in
transactions a second:

| | OLTPim | MosaicDB | over it |
| --- | --- | --- | --- |
| before | 36242 | 49231 | 0.74 |
| lines are asked for ahead | 41063 | 50549 | 0.81 |
| and a round's requests for a rank are appended to its list at once | 55048 | 50434 | 1.09 |

The batcher asks for the lines of the next requests while it works on one. A transaction, of both
systems, asks for its replies and their tuples before it reads the first. With a list of rounds in
place of requests, the line of its head goes from core to core less often, and the batcher knows
which requests come next. The paper has a list of requests; it issues those of a round at once, too
(its section 7.1), and does not tell how they are appended.

They cost memory: a transaction of YCSB-C with 100 M records read 25 lines of the host's memory
after them, and 17 before; where each request has one line it reads {lines}. MosaicDB also asks for
lines that it has: YCSB-C was 3 % slower than before, YCSB-B with one transaction at a time 1.5 %,
and with 16 whose requests come one by one 5.5 %. Its read-only TPC-C was 2 to 4 % faster."""


def best_batches_table(runs: Runs) -> str:
    """YCSB-B, MosaicDB"""
    ways: dict[str, dict[str, Any]] = {
        "as it is": {},
        "`outstanding` double": {"host": f"{HOST}:outstanding*2"},
        "`memory` four times": {"host": f"{HOST}:memory*4"},
        "one by one": {"one_by_one": True},
    }
    few = runs.points.few
    rows = ["| transactions at a time | " + " | ".join(map(str, few)) + " |"]
    rows.append("| --- " * (len(few) + 1) + "|")
    for name, way in ways.items():
        rates = [runs.rate("mosaic", "b", runs.points.many, slots=n, **way) for n in few]
        rows.append(f"| {name} | " + " | ".join(f"{r / 1e6:.2f}" for r in rates) + " |")
    return "\n".join(rows)


def collection_table(runs: Runs) -> str:
    """YCSB-A, OLTPim, with versions kept, and over that with collection."""
    p = runs.points
    ways: dict[str, dict[str, Any]] = {f"seed {seed}": seed_of(seed) for seed in p.seeds[:2]}
    ways["64 transactions at a time"] = {"slots": 64}
    ways[f"runs of {p.long_us / 1000:g} ms"] = {"measure_us": p.long_us}
    rows = [
        "| | without collection: smallest, aborted, % | large over smallest | the same, of all "
        "attempts | slowdown by collection: smallest | large | smallest over large |",
        "| --- " * 7 + "|",
    ]
    for name, way in ways.items():
        kept = [
            runs.run("oltpim", "a", n, keep_versions=True, **way) for n in (min(p.records), p.many)
        ]
        slow = [
            k["throughput"] / runs.rate("oltpim", "a", n, **way)
            for k, n in zip(kept, (min(p.records), p.many))
        ]
        attempts = [k["throughput"] / (1 - k["abort_percent"] / 100) for k in kept]
        rows.append(
            f"| {name} | {kept[0]['abort_percent']:.0f} | "
            f"{kept[1]['throughput'] / kept[0]['throughput']:.2f} | "
            f"{attempts[1] / attempts[0]:.2f} | {slow[0]:.2f} | {slow[1]:.2f} | "
            f"{slow[0] / slow[1]:.2f} |"
        )
    return "\n".join(rows)


def log_table(runs: Runs) -> str:
    rows = [
        "| workload | without, a second | RAM disk, over it | persistent memory, over it | "
        "P99, ms: without | RAM disk | persistent memory |",
        "| --- " * 7 + "|",
    ]
    cases: list[tuple[str, Callable[..., dict[str, Any]]]] = [
        (f"YCSB-{w.upper()}, {p} %", partial(runs.logged, w, p))
        for w in "iu"
        for p in runs.points.logged
    ]
    writes = max(runs.points.writes)
    cases += [(f"TPC-C 9:1, {NAMES[tm]}", partial(runs.tpcc, tm, writes)) for tm in BEST]
    for name, run in cases:
        without = run()
        logs = [run(host=RAM_DISK, log=LOG), run(log=LOG)]
        ratios = " | ".join(f"{r['throughput'] / without['throughput']:.2f}" for r in logs)
        p99 = " | ".join(f"{r['p99_us'] / 1000:.1f}" for r in (without, *logs))
        rows.append(f"| {name} | {without['throughput']:.0f} | {ratios} | {p99} |")
    return "\n".join(rows)


LOG_TEXT = """## Figure 10. The log

A commit is durable in a heap of libfur before a module is told to finalise it. The paper's log is
on a RAM disk, and flushed later; here also on persistent memory that takes 310 ns for a line.
Runs are single ones, of 10 ms."""

TPCC_TEXT = """## TPC-C

A sixteenth of the warehouses, of which each has a tenth of the customers, orders and items, so that
a transaction meets as many others as in the paper. A new order has two rounds of requests to
modules, and its commit; a payment two or three, a delivery four, an order status three to five, a
stock level two. Warehouses and districts are in the host's memory. Bytes are of a committed
transaction: lines that the host reads from its memory, and what the modules' channels carry."""


def cost_table(runs: Runs) -> str:
    """What it costs to begin at the settled number."""
    rows = ["| workload | over the published protocol | P99 over it |", "| --- | --- | --- |"]
    for name, workload in WRITES.items():
        mended = runs.run("oltpim", workload, runs.points.many)
        published = runs.run("oltpim-paper", workload, runs.points.many)
        rate = mended["throughput"] / published["throughput"]
        rows.append(f"| YCSB-{name} | {rate:.2f} | {mended['p99_us'] / published['p99_us']:.2f} |")
    return "\n".join(rows)


def traffic_table(runs: Runs) -> str:
    rows = [
        "| workload | written | read | control | requests of a batch | a launch, us |",
        "| --- " * 6 + "|",
    ]
    measured = {k: runs.run("oltpim", w, runs.points.many) for k, w in WRITES.items()}
    for percent in runs.points.inserts[1:]:
        measured[f"I, {percent} %"] = runs.run("oltpim", "i", runs.points.many, percent=percent)
    for name, r in measured.items():
        rows.append(
            f"| YCSB-{name} | {r['pim_written_bytes']:.0f} | {r['pim_read_bytes']:.0f} | "
            f"{r['pim_control_bytes']:.0f} | {r['requests_of_a_batch']:.0f} | "
            f"{r['kernel_us_of_a_launch']:.0f} |"
        )
    return "\n".join(rows)


def table_of(make_table: Callable[[Runs], str], runs: Runs) -> str:
    try:
        return make_table(runs)
    except NotMeasured:
        return "Not run."


def tpcc_parts(runs: Runs) -> list[str]:
    return [
        f"{TPCC_TEXT}\n\n{table_of(tpcc_table, runs)}",
        "Runs are single ones. By the seed, transactions a second:\n\n"
        f"{table_of(tpcc_seeds_table, runs)}",
        "OLTPim by the transactions that a thread has at a time:\n\n"
        f"{table_of(tpcc_slots_table, runs)}",
        "OLTPim over MosaicDB, with a value of `upmem-16th.toml` changed:\n\n"
        f"{table_of(tpcc_sensitivity_table, runs)}",
        "Transactions a second on hosts whose memory takes longer, and on larger warehouses:\n\n"
        f"{table_of(tpcc_host_table, runs)}",
        f"{LOG_TEXT}\n\n{table_of(log_table, runs)}",
    ]


def page(runs: Runs, missing: list[str]) -> str:
    measured, warm = runs.points.measure_us / 1000, runs.points.warmup_us / 1000
    parts = [
        f"""# The figures of the paper on OLTPim, measured

    lab/figures/figures.py --paper oltpim

"No Cap, This Memory Slaps: Breaking Through the Memory Wall of Transactional Database Systems with
Processing-in-Memory", PVLDB 18(11), 2025. [lab/oltpim](../../lab/oltpim/README.md), in virtual
time, on a sixteenth of the paper's machine: 4 threads of 2 cores, 128 modules of 2 ranks, a
sixteenth of the L3 and of the records. Numbers of records are the paper's; a run has a sixteenth.
OLTPim begins at the settled number. A run measures {measured:g} ms after {warm:g} ms, so the
numbers show orders and ratios, and no rate that lasts.

A number in bold is outside of what is accepted.

{fact_table(runs)}"""
    ]
    for number, (title, _) in PICTURES.items():
        if number in missing:
            continue
        parts.append(
            f"## Figure {number.split('-')[0]}. {title}\n\n"
            f"![Figure {number}](oltpim-figure-{number}.png)"
        )
    parts += tpcc_parts(runs)
    parts += [ways_text(runs), reads_text(runs)]
    parts.append(
        "## The best batch of MosaicDB\n\nYCSB-B, in millions of transactions a second:\n\n"
        f"{table_of(best_batches_table, runs)}"
    )
    parts.append(
        f"## Figure 9 by other runs\n\nYCSB-A, OLTPim:\n\n{table_of(collection_table, runs)}"
    )
    parts.append(
        "## What the mended protocol costs\n\nTransactions that begin at the settled number, over "
        f"those that begin as published:\n\n{table_of(cost_table, runs)}"
    )
    parts.append(
        "## The modules' channels\n\nBytes of a committed transaction, of ten requests:\n\n"
        f"{table_of(traffic_table, runs)}"
    )
    parts.append(
        "## Sensitivity\n\nThroughput of OLTPim, YCSB-C, with a value of `upmem-16th.toml` "
        "changed, over that with none.\n`mhz` stands for the kernel's instructions, which are "
        f"RV32's and not a DPU's.\n\n{table_of(sensitivity_table, runs)}"
        "\n\nThe emulated host's memory has a latency and no bandwidth, so no transaction of "
        "MosaicDB waits\nfor a channel that is full, as the paper's do. YCSB-C on the largest "
        "table, in millions of\ntransactions a second, where each line takes longer:\n\n"
        f"{table_of(latency_table, runs)}"
    )
    not_run = [f"Figure {n}. {PICTURES[n][0]}: runs are missing." for n in missing] + MISSING
    parts.append("## What was not run\n\n" + "\n".join(f"- {m}" for m in not_run))
    return "\n\n".join(parts) + "\n"


def present(runs: Runs, out: Path) -> None:
    missing = []
    with pyplot.rc_context(STYLE):
        for number, (_, picture) in PICTURES.items():
            path = out / f"oltpim-figure-{number}.png"
            try:
                picture(runs, path)
            except NotMeasured:
                missing.append(number)
                path.unlink(missing_ok=True)
    write_atomically(out / "oltpim.md", page(runs, missing))


def is_good(result: dict[str, Any]) -> bool:
    return bool(result["throughput"] > 0)


def make(build: Path, out: Path, quick: bool, plot_only: bool) -> None:
    """Measures, unless only to draw, and writes results, page and pictures.  What the journal has
    is not measured again: remove it after a change of the program.  Drawn from a journal that lacks
    runs, the page names what is missing."""
    journal = out / "oltpim.jsonl"
    known = recall(journal, is_good) if plot_only or journal.exists() else {}
    if not plot_only:
        # Without a line that a kill cut short.
        write_journal(journal, known)
    present(Runs(QUICK if quick else Points(), known, None if plot_only else build, journal), out)
