# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the paper on PUL, preload and unload by elements near the memory: speed-up by
operational intensity (Figure 3), operators of a database (4), the distance (5), the size of
transfers and the number of elements (6), results (7).

Recovery near the memory, which the paper does not measure, is a picture of its own.

The results are pul.jsonl, the journal, with a run and its command on each line; pul.md, the page; a
picture a figure."""
from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from charts import STYLE
from results import Refused, recall, run_program, write_atomically, write_journal

PROGRAM = "lab/pul/pul"  # from the build directory
REPLAY = "lab/pul/near-replay"
LIMIT_SECONDS = 600
NDP = {"NVM": "pul-ndp:nvm", "DRAM": "pul-ndp:dram"}
PIM = "upmem"
PES, TASKLETS = 14, 11
ROOM = 46 * 1024  # PUL_ROOM of lab/pul/kernels/pul.h
CHUNK = 512
GIB = 1 << 30
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = "osd^vx"
# A time up to this fraction longer counts as equal, and so does a throughput up to this much lower.
LEVEL = 0.10


@dataclass(frozen=True)
class Points:
    """The values of each axis; `quick` has a few of them."""

    values: tuple[int, ...] = (1, 4, 16, 32, 64, 128, 256, 512)
    attributes: tuple[int, ...] = (1, 2, 4, 6, 8, 12, 16)
    distances: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    sizes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    pes: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10, 12, 14)
    ladder: tuple[int, ...] = (1, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768)
    pim_sizes: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    percents: tuple[int, ...] = (0, 10, 25, 50, 75, 100)
    flushes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
    requests: int = 4096
    replayers: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    updates: int = 20000


QUICK = Points(
    values=(1, 64, 512),
    attributes=(1, 16),
    distances=(1, 4, 8, 16, 32, 64),
    sizes=(64, 512, 4096),
    pes=(1, 2, 3, 4, 8, 14),
    ladder=(1, 64, 512),
    pim_sizes=(32, 64, 1024),
    percents=(0, 100),
    flushes=(64, 2048, 4096),
    requests=1536,
    replayers=(2, 8),
    updates=1000,
)


def distance_for(transfer: int) -> int:
    """As far ahead as the paper's 64, or as the scratchpad has room for."""
    return min(64, (ROOM - CHUNK * 4 - 2 * 512) // (2 * transfer))


class Runs:
    """The measurements, by the questions that facts and pictures ask. A run is made when it is
    first asked for, unless it is known; without a build directory it must be."""

    def __init__(self, points: Points, known: dict[str, dict[str, Any]], build: Path | None):
        self.points, self.known, self.build = points, known, build

    def measured(self, program: str, **options: Any) -> dict[str, Any]:
        arguments = [word for k, v in options.items() for word in (f"--{k.replace('_', '-')}", v)]
        command = " ".join(map(str, (program, *arguments)))
        if command not in self.known:
            if self.build is None:
                raise Refused(f"{command}: not measured: leave out --plot-only to measure")
            self.known[command] = run_one(self.build, program, [str(a) for a in arguments])
        return self.known[command]

    def run(self, machine: str, operator: str, **options: Any) -> dict[str, Any]:
        options.setdefault("requests", self.points.requests)
        return self.measured(PROGRAM, machine=machine, operator=operator, **options)

    def replay(self, machine: str, elements: int) -> dict[str, Any]:
        options = {"elements": elements, "tasklets": TASKLETS if machine == PIM else 1}
        return self.measured(REPLAY, machine=machine, updates=self.points.updates, **options)

    # ------------------------------------------------------------------ near data

    def ndp(self, memory: str, strategy: str, **options: Any) -> dict[str, Any]:
        transfer = options.get("transfer", 64)
        if strategy in ("sequential", "batch"):
            options.setdefault("distance", distance_for(transfer))
        options.setdefault("chunk", CHUNK)
        operator = options.pop("operator", "sum")
        return self.run(NDP[memory], operator, strategy=strategy, **options)

    def ndp_ns(self, memory: str, strategy: str, **options: Any) -> float:
        """Of an element, for a record."""
        return element_ns(self.ndp(memory, strategy, **options))

    def ndp_gain(self, memory: str, **options: Any) -> float:
        return self.ndp_ns(memory, "none", **options) / self.ndp_ns(memory, "sequential", **options)

    def ndp_gib(self, memory: str, strategy: str, pes: int, transfer: int) -> float:
        found = self.ndp(memory, strategy, pes=pes, transfer=transfer)
        return float(found["throughput"]) * transfer / GIB

    def operator_ns(self, memory: str, operator: str, values: int) -> float:
        """The computation alone: with all transfers hidden, over a loop that computes nothing."""
        bare = self.ndp_ns(memory, "sequential", operator="nothing")
        options = {"operator": operator, "values": values}
        return self.ndp_ns(memory, "sequential", **options) - bare

    def wait_ns(self, memory: str, operator: str, values: int) -> float:
        """Without preload."""
        options = {"operator": operator, "values": values}
        return self.ndp_ns(memory, "none", **options) - self.ndp_ns(memory, "sequential", **options)

    def potential(self, memory: str, transfer: int, pes: int) -> float:
        """Words that can be added up next to a transfer until the time is LEVEL longer: one
        transfer is under way while one record is computed on."""
        options = {"distance": 1, "transfer": transfer, "pes": pes, "requests": 512}
        ladder = self.points.ladder
        times = [self.ndp_ns(memory, "sequential", values=v, **options) for v in ladder]
        most = times[0] * (1 + LEVEL)
        for k in range(1, len(ladder)):
            if times[k] > most:
                share = (most - times[k - 1]) / (times[k] - times[k - 1])
                return ladder[k - 1] + share * (ladder[k] - ladder[k - 1])
        return ladder[-1]

    # ------------------------------------------------------------------ in memory

    def pim(self, operator: str, tasklets: int = TASKLETS, **options: Any) -> dict[str, Any]:
        options.setdefault("requests", 4 * self.points.requests)
        return self.run(PIM, operator, tasklets=tasklets, chunk=64, **options)

    def pim_ns(self, operator: str, tasklets: int = TASKLETS, **options: Any) -> float:
        return element_ns(self.pim(operator, tasklets, **options))

    def pim_gain(self, values: int) -> float:
        return self.pim_ns("sum", 1, values=values) / self.pim_ns("sum", values=values)

    # -------------------------------------------------------------------- results

    def update_ns(self, write: str, flush: int, values: int = 1, order: str = "random") -> float:
        """Of an element on NVM, for eight bytes that changed."""
        requests = max(self.points.requests * 64 // flush, 32)
        options: dict[str, Any] = {"write": write, "flush": flush, "values": values, "order": order}
        found = self.run(NDP["NVM"], "update", chunk=CHUNK, requests=requests, **options)
        return element_ns(found) * 8 / flush

    def filter_ns(self, form: str, percent: int) -> float:
        """A filter on UPMEM; `form`: of the results, or none."""
        if form == "none":
            return self.pim_ns("filter", percent=percent)
        return self.pim_ns("materialise", percent=percent, form=form, write="unload")


def element_ns(result: dict[str, Any]) -> float:
    return 1e9 * float(result["pes"]) / float(result["throughput"])


def run_one(build: Path, name: str, arguments: list[str]) -> dict[str, Any]:
    return run_program(build, name, [*arguments, "--json", "-"], LIMIT_SECONDS)[1]


# ---------------------------------------------------------------------------- facts


@dataclass(frozen=True)
class Fact:
    """A number of the paper, from `least` to `most`, and by how much the measured one may differ,
    as a share; without `most`, an order. `fitted`: a value of a machine's description was chosen
    such that this number comes out, so that it proves nothing. `why`: the measured one differs."""

    figure: int
    claim: str
    least: float
    most: float
    within: float
    computed: Callable[[Runs], float]
    fitted: bool = False
    why: str = ""

    @property
    def paper(self) -> str:
        if math.isinf(self.most):
            return f"above {self.least:g}" if not self.within else f"{self.least:g} or more"
        if math.isinf(self.least):
            return f"below {self.most:g}" if not self.within else f"{self.most:g} or less"
        return f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"

    def agrees(self, measured: float) -> bool:
        least, most = self.least * (1 - self.within), self.most * (1 + self.within)
        return least <= measured <= most if self.within else least < measured < most


def above(least: float) -> tuple[float, float, float]:
    return (least, math.inf, 0)


def about(paper: float, within: float) -> tuple[float, float, float]:
    return (paper, paper, within)


def saturating(memory: str, strategy: str) -> Callable[[Runs], float]:
    """The least number of elements whose throughput is the highest, for records of 64 bytes."""

    def number(runs: Runs) -> float:
        line = {n: runs.ndp_gib(memory, strategy, n, 64) for n in runs.points.pes}
        best = max(line.values())
        return min(n for n, gib in line.items() if gib >= best * (1 - LEVEL))

    return number


def plateau(memory: str) -> Callable[[Runs], float]:
    """The least distance whose time is the shortest."""

    def distance(runs: Runs) -> float:
        line = distances(runs, memory, "sequential")
        best = min(ns for _, ns in line)
        return min(d for d, ns in line if ns <= best * (1 + LEVEL))

    return distance


def batch_over_sequential(memory: str, distance: int) -> Callable[[Runs], float]:
    return lambda r: r.ndp_ns(memory, "batch", distance=distance) / r.ndp_ns(
        memory, "sequential", distance=distance
    )


def gain_kept(runs: Runs) -> float:
    """On DRAM: of the gain of one element, that of 14, where it is least."""
    return min(
        runs.ndp_gain("DRAM", values=v, pes=PES) / runs.ndp_gain("DRAM", values=v)
        for v in runs.points.values
    )


def unload_gain(runs: Runs, flush: int, values: int = 1) -> float:
    return runs.update_ns("wait", flush, values) / runs.update_ns("unload", flush, values)


FACTS = (
    *(
        Fact(
            3,
            f"{memory}, one element, low intensity: preload is faster by",
            *about(paper, 0.20),
            lambda r, memory=memory: r.ndp_gain(memory, values=1),  # type: ignore[misc]
            fitted=True,
        )
        for memory, paper in (("NVM", 2.9), ("DRAM", 2.5))
    ),
    Fact(
        3,
        "with preload NVM is as fast as DRAM, one element: time over time",
        *about(1, 0.10),
        lambda r: r.ndp_ns("NVM", "sequential", values=1)
        / r.ndp_ns("DRAM", "sequential", values=1),
    ),
    Fact(
        3,
        "14 elements, NVM: preload is faster by at most",
        1,
        1.5,
        0.20,
        lambda r: max(r.ndp_gain("NVM", values=v, pes=PES) for v in r.points.values),
    ),
    Fact(
        3,
        "14 elements, DRAM: the gain is that of one, at all intensities: the least share",
        *about(1, 0.10),
        gain_kept,
    ),
    Fact(
        3,
        "UPMEM, low intensity: 11 tasklets are faster than one by",
        *about(7.8, 0.20),
        lambda r: r.pim_gain(1),
    ),
    Fact(
        3,
        "UPMEM, high intensity: 11 tasklets are faster than one by",
        *about(11, 0.20),
        lambda r: r.pim_gain(r.points.values[-1]),
    ),
    Fact(
        4,
        "UPMEM, one attribute: instructions a cycle",
        *about(0.58, 0.06 / 0.58),
        lambda r: float(r.pim("aggregate", values=1)["ipc"]),
        fitted=True,
    ),
    *(
        Fact(
            4,
            f"UPMEM: more attributes hardly take longer: {n} over one",
            *about(1, 0.20),
            lambda r, n=n: r.pim_ns("aggregate", values=n)  # type: ignore[misc]
            / r.pim_ns("aggregate", values=1),
            why="the instructions of four fill the pipeline; from 0.58 to at most 1 a cycle, they "
            "can grow 1.7 times at the same time",
        )
        for n in (2, 4)
    ),
    Fact(
        4,
        "UPMEM: instructions a cycle rise with attributes: sixteen over one",
        *above(1),
        lambda r: r.pim("aggregate", values=16)["ipc"] / r.pim("aggregate", values=1)["ipc"],
    ),
    *(
        Fact(
            4,
            f"NVM: {name} fits several times into the wait for a record: times",
            *above(2),
            lambda r, op=op: r.wait_ns("NVM", op, 1)  # type: ignore[misc]
            / r.operator_ns("NVM", op, 1),
        )
        for op, name in (("aggregate", "an aggregation"), ("visible", "a visibility check"))
    ),
    *(
        Fact(
            5,
            f"{memory}: a plateau begins at distance 16",
            8,
            32,
            1e-9,
            plateau(memory),
        )
        for memory in NDP
    ),
    *(
        Fact(
            5,
            f"NVM: batch-wise is faster below distance 16: {at}, sequential over batch-wise",
            *above(1),
            lambda r, at=at: 1 / batch_over_sequential("NVM", at)(r),  # type: ignore[misc]
        )
        for at in (4, 8)
    ),
    *(
        Fact(
            5,
            f"NVM: batch-wise is as fast above: {at}, batch-wise over sequential",
            *about(1, 0.05),
            batch_over_sequential("NVM", at),
        )
        for at in (32, 64)
    ),
    Fact(
        6,
        "NVM, one element: 512 bytes take as long as 64",
        *about(1, LEVEL),
        lambda r: r.ndp_ns("NVM", "sequential", transfer=512)
        / r.ndp_ns("NVM", "sequential", transfer=64),
        fitted=True,
    ),
    Fact(
        6,
        "DRAM, 14 elements: 512 bytes take as long as 64",
        *about(1, LEVEL),
        lambda r: r.ndp_ns("DRAM", "sequential", transfer=512, pes=PES)
        / r.ndp_ns("DRAM", "sequential", transfer=64, pes=PES),
        fitted=True,
    ),
    Fact(
        6,
        "NVM: elements that saturate it, with preload",
        2,
        3,
        1e-9,
        saturating("NVM", "sequential"),
        fitted=True,
    ),
    Fact(
        6,
        "NVM: elements that saturate it, without",
        8,
        math.inf,
        1e-9,
        saturating("NVM", "none"),
        fitted=True,
    ),
    *(
        Fact(
            6,
            f"{memory}: the ceiling, at 4,096 bytes, GiB a second",
            *about(8, 0.10),
            lambda r, memory=memory: r.ndp_gib(  # type: ignore[misc]
                memory, "sequential", PES, 4096
            ),
            fitted=True,
        )
        for memory in NDP
    ),
    Fact(
        6,
        "NVM, one element: computation that fits next to a transfer is the same at all sizes: "
        "4,096 over 64",
        *about(1, 0.20),
        lambda r: r.potential("NVM", 4096, 1) / r.potential("NVM", 64, 1),
        why="an engine carries 8 bytes a cycle, on NVM as on DRAM: 4,096 bytes are under way for "
        "3.4 µs longer, in which the element can compute",
    ),
    Fact(
        6,
        "DRAM, one element: computation that fits next to a transfer grows beyond 128 bytes: "
        "4,096 over 64",
        *above(1),
        lambda r: r.potential("DRAM", 4096, 1) / r.potential("DRAM", 64, 1),
    ),
    Fact(
        6,
        "UPMEM, sum of transfers of 32 bytes: instructions a cycle",
        *about(0.58, 0.06 / 0.58),
        lambda r: float(r.pim("sum", transfer=32)["ipc"]),
        fitted=True,
    ),
    Fact(
        6,
        "UPMEM: larger transfers take longer: 1,024 bytes over 32",
        *above(1),
        lambda r: r.pim_ns("sum", transfer=1024) / r.pim_ns("sum", transfer=32),
    ),
    Fact(
        6,
        "UPMEM: instructions a cycle fall with the size: 32 bytes over 1,024",
        *above(1),
        lambda r: r.pim("sum", transfer=32)["ipc"] / r.pim("sum", transfer=1024)["ipc"],
    ),
    Fact(
        7,
        "UPMEM: whole records slow a filter down: all match, over the filter alone",
        *above(1 + LEVEL),
        lambda r: r.filter_ns("records", 100) / r.filter_ns("none", 100),
    ),
    Fact(
        7,
        "UPMEM: a vector of bits does not: over the filter alone",
        *about(1, LEVEL),
        lambda r: r.filter_ns("positions", 100) / r.filter_ns("none", 100),
    ),
    Fact(
        7,
        "NVM: unload gains most with small random blocks: the gain at 64 bytes over 4,096",
        *above(1),
        lambda r: unload_gain(r, 64) / unload_gain(r, 4096),
    ),
    Fact(
        7,
        "NVM: unload gains most at low intensity: the gain of one addition over 32",
        *above(1),
        lambda r: unload_gain(r, 64) / unload_gain(r, 64, 32),
    ),
    Fact(
        7,
        "NVM: memcpy is the slowest at 2,048 bytes: over the next",
        *above(1),
        lambda r: r.update_ns("memcpy", 2048)
        / max(r.update_ns(write, 2048) for write in ("wait", "unload")),
    ),
)


# -------------------------------------------------------------------------- drawing

Line = list[tuple[float, float]]


def distances(runs: Runs, memory: str, strategy: str) -> list[tuple[int, float]]:
    return [(d, runs.ndp_ns(memory, strategy, distance=d)) for d in runs.points.distances]


def panels(number: int, title: str, caption: str) -> tuple[Canvas, list[Axes]]:
    columns = min(number, 4)
    rows = (number + columns - 1) // columns
    width, height = 4.2 * columns + 0.4, 3.6 * rows + 0.9
    canvas = pyplot.figure(figsize=(width, height))
    grid = canvas.add_gridspec(
        rows,
        columns,
        left=0.75 / width,
        right=1 - 0.2 / width,
        top=1 - 0.8 / height,
        bottom=0.95 / height,
        wspace=0.3,
        hspace=0.45,
    )
    left = 0.12 / width
    canvas.suptitle(
        title, x=left, y=1 - 0.1 / height, ha="left", va="top", fontsize=12, fontweight="bold"
    )
    canvas.text(left, 0.1 / height, caption, fontsize=8, color="#444444", va="bottom")
    return canvas, [canvas.add_subplot(grid[k // columns, k % columns]) for k in range(number)]


def draw_lines(
    axes: Axes, title: str, x: str, y: str, lines: Iterable[tuple[str, Line]], log: str = "x"
) -> None:
    for k, (label, line) in enumerate(lines):
        axes.plot(
            *zip(*line),
            color=COLOURS[k % len(COLOURS)],
            marker=MARKERS[k % len(MARKERS)],
            markersize=4,
            linewidth=1.5,
            label=label,
        )
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if "x" in log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    if "y" in log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        low, high = axes.get_ylim()
        if high < 10 * low:
            axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, frameon=False)


def save(canvas: Canvas, path: Path) -> None:
    part = path.with_suffix(".part")
    canvas.savefig(part, format="png")
    os.replace(part, path)
    pyplot.close(canvas)


def over(xs: Iterable[int], value: Callable[[int], float]) -> Line:
    return [(x, value(x)) for x in xs]


WAYS = {"none": "without", "sequential": "preload"}
VIRTUAL = "Emulated, virtual time."


def draw_intensity(runs: Runs, path: Path) -> None:
    canvas, axes = panels(
        4, "Figure 3. Speed-up by operational intensity", f"{VIRTUAL} Records of 64 bytes."
    )
    values = runs.points.values
    for at, pes in ((0, 1), (1, PES)):
        draw_lines(
            axes[at],
            f"near data, {pes} element{'s' * (pes > 1)}",
            "words added up for a record",
            "million words a second",
            [
                (
                    f"{memory}, {label}",
                    over(
                        values,
                        lambda v: v * pes * 1e3 / runs.ndp_ns(memory, way, values=v, pes=pes),
                    ),
                )
                for memory in NDP
                for way, label in WAYS.items()
            ],
            "xy",
        )
    draw_lines(
        axes[2],
        "near data, gain by preload",
        "words added up for a record",
        "times as fast",
        [
            (
                f"{memory}, {pes} element{'s' * (pes > 1)}",
                over(values, lambda v: runs.ndp_gain(memory, values=v, pes=pes)),
            )
            for memory in NDP
            for pes in (1, PES)
        ],
    )
    draw_lines(
        axes[3],
        "UPMEM, 11 tasklets over one",
        "words added up for a record",
        "times as fast",
        [("a DPU", over(values, runs.pim_gain))],
    )
    save(canvas, path)


def draw_operators(runs: Runs, path: Path) -> None:
    canvas, axes = panels(3, "Figure 4. Operators of a database", f"{VIRTUAL} UPMEM: 11 tasklets.")
    attributes = runs.points.attributes
    draw_lines(
        axes[0],
        "UPMEM, aggregation",
        "attributes",
        "ns a record",
        [("a DPU", over(attributes, lambda n: runs.pim_ns("aggregate", values=n)))],
        "",
    )
    draw_lines(
        axes[1],
        "UPMEM, aggregation",
        "attributes",
        "instructions a cycle",
        [("a DPU", over(attributes, lambda n: float(runs.pim("aggregate", values=n)["ipc"])))],
        "",
    )
    for k, (name, operator, count) in enumerate(OPERATORS):
        for at, (label, value) in enumerate(
            (
                ("wait for the record", runs.wait_ns("NVM", operator, count)),
                ("computation", runs.operator_ns("NVM", operator, count)),
            )
        ):
            axes[2].bar(
                k + 0.35 * at, value, 0.35, color=COLOURS[at], label="" if k else label, zorder=3
            )
    axes[2].set_xticks(range(len(OPERATORS)), [name for name, _, _ in OPERATORS], fontsize=7)
    axes[2].set_title("near data, NVM, without preload", loc="left", fontsize=10)
    axes[2].set_ylabel("ns")
    axes[2].set_ylim(top=1.25 * axes[2].get_ylim()[1])
    axes[2].legend(fontsize=7, frameon=False, loc="upper right")
    save(canvas, path)


OPERATORS = (
    ("sum", "sum", 1),
    ("1 attribute", "aggregate", 1),
    ("4", "aggregate", 4),
    ("8", "aggregate", 8),
    ("filter", "filter", 1),
    ("visible", "visible", 1),
)


def draw_distances(runs: Runs, path: Path) -> None:
    canvas, axes = panels(
        3, "Figure 5. The distance", f"{VIRTUAL} One element, sum of a word, records of 64 bytes."
    )
    draw_lines(
        axes[0],
        "sequential",
        "distance",
        "ns a record",
        [(memory, list(distances(runs, memory, "sequential"))) for memory in NDP],
    )
    for at, memory in enumerate(NDP, 1):
        draw_lines(
            axes[at],
            f"{memory}, the two strategies",
            "distance",
            "MiB a second",
            [
                (
                    strategy,
                    [(d, 64e9 / ns / (1 << 20)) for d, ns in distances(runs, memory, strategy)],
                )
                for strategy in ("sequential", "batch")
            ],
        )
    save(canvas, path)


def draw_sizes(runs: Runs, path: Path) -> None:
    canvas, axes = panels(
        8, "Figure 6. Sizes of transfers, numbers of elements", f"{VIRTUAL} Sum of a word."
    )
    sizes, pes = runs.points.sizes, runs.points.pes
    for at, memory in enumerate(NDP):
        draw_lines(
            axes[at],
            f"{memory}, with preload",
            "bytes of a transfer",
            "ns a record and element",
            [
                (
                    f"{n} element{'s' * (n > 1)}",
                    over(sizes, lambda b: runs.ndp_ns(memory, "sequential", transfer=b, pes=n)),
                )
                for n in (1, 2, 4, 8, PES)
            ],
            "xy",
        )
        draw_lines(
            axes[2 + at],
            f"{memory}, throughput",
            "elements",
            "GiB a second",
            [
                (f"{size} bytes, {label}", over(pes, lambda n: runs.ndp_gib(memory, way, n, size)))
                for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1])
                for way, label in WAYS.items()
            ],
            "y",
        )
        draw_lines(
            axes[4 + at],
            f"{memory}, computation next to a transfer",
            "bytes of a transfer",
            "words added up",
            [
                (
                    f"{n} element{'s' * (n > 1)}",
                    over(sizes, lambda b: runs.potential(memory, b, n)),
                )
                for n in (1, PES)
            ],
        )
    for at, label, value in (
        (6, "ns a record", lambda b: runs.pim_ns("sum", transfer=b)),
        (7, "instructions a cycle", lambda b: float(runs.pim("sum", transfer=b)["ipc"])),
    ):
        draw_lines(
            axes[at],
            "UPMEM, 11 tasklets",
            "bytes of a transfer",
            label,
            [("a DPU", over(runs.points.pim_sizes, value))],
        )
    save(canvas, path)


def draw_results(runs: Runs, path: Path) -> None:
    canvas, axes = panels(
        3, "Figure 7. Results", f"{VIRTUAL} UPMEM: 11 tasklets. Near data: NVM, one element."
    )
    forms = {"none": "filter alone", "records": "with records", "positions": "with a bit vector"}
    draw_lines(
        axes[0],
        "UPMEM, a filter",
        "% of records match",
        "ns a record",
        [
            (label, over(runs.points.percents, lambda p: runs.filter_ns(form, p)))
            for form, label in forms.items()
        ],
        "",
    )
    draw_lines(
        axes[1],
        "near data, updates, random blocks",
        "bytes of a block",
        "ns for 8 bytes",
        [
            (label, over(runs.points.flushes, lambda b: runs.update_ns(write, b)))
            for write, label in {
                "wait": "without",
                "unload": "unload",
                "memcpy": "memcpy",
            }.items()
        ],
        "xy",
    )
    draw_lines(
        axes[2],
        "near data, gain by unload",
        "bytes of a block",
        "times as fast",
        [
            (
                f"{values} addition{'s' * (values > 1)} to a word",
                over(runs.points.flushes, lambda b: unload_gain(runs, b, values)),
            )
            for values in (1, 8, 32)
        ],
    )
    save(canvas, path)


def replayers(runs: Runs, machine: str) -> list[int]:
    return [n for n in runs.points.replayers if machine == PIM or n <= PES]


def replay_ms(runs: Runs, machine: str, elements: int) -> float:
    return 1e3 * float(runs.replay(machine, elements)["seconds"])


def host_ms(runs: Runs, phase: str) -> float:
    """The shortest of all runs; other processes only make it longer."""
    return 1e3 * min(
        float(runs.replay(PIM, n)[f"host_{phase}_seconds"]) for n in runs.points.replayers
    )


REPLAYERS = {"UPMEM, 11 tasklets": PIM, **{f"near data, {k}": v for k, v in NDP.items()}}
PHASES = {"apply": "host, the last phase alone", "recovery": "host, all of recovery"}


def draw_replay(runs: Runs, path: Path) -> None:
    canvas, axes = panels(
        1,
        "Recovery near the memory",
        "Elements: emulated, virtual time, with the\nentries' way there. Host: this machine, real "
        "time.",
    )
    draw_lines(
        axes[0],
        "the last phase, by elements",
        "elements",
        "ms",
        [
            (label, over(replayers(runs, machine), lambda n: replay_ms(runs, machine, n)))
            for label, machine in REPLAYERS.items()
        ],
        "xy",
    )
    for line, (phase, label) in zip((":", "--"), PHASES.items()):
        axes[0].axhline(host_ms(runs, phase), color="#000000", linestyle=line, label=label)
    axes[0].legend(fontsize=7, frameon=False, loc="lower left")
    save(canvas, path)


def replay_section(runs: Runs) -> str:
    one = runs.replay(PIM, runs.points.replayers[0])
    numbers = runs.points.replayers
    rows = ["| ms, by elements | " + " | ".join(map(str, numbers)) + " |"]
    rows.append("| --- |" + " --- |" * len(numbers))
    for label, machine in REPLAYERS.items():
        mine = replayers(runs, machine)
        cells = (f"{replay_ms(runs, machine, n):.3g}" if n in mine else "" for n in numbers)
        rows.append(f"| {label} | " + " | ".join(cells) + " |")
    host = "; ".join(f"{label} {host_ms(runs, phase):.3g} ms" for phase, label in PHASES.items())
    return f"""## Recovery near the memory

![Recovery](pul-replay.png)

Not in the paper. The elements have a shard of the heap's image each, of {one["heap_bytes"] >> 20}
MiB together, and apply {one["entries"]:,} entries of {one["updates"]:,} updates. Their image is the
host's, byte for byte. Times are virtual, and have the entries' way to the elements in them; the
host decides which updates are kept, and sorts the entries, before. In real time, on the machine
that made this page: {host}.
The two kinds of time say how they grow, not which is faster.

{chr(10).join(rows)}"""


FIGURES = {
    3: ("Speed-up by operational intensity", draw_intensity),
    4: ("Operators of a database", draw_operators),
    5: ("The distance", draw_distances),
    6: ("Sizes of transfers, numbers of elements", draw_sizes),
    7: ("Results", draw_results),
}


# --------------------------------------------------------------------------- page


def fact_table(figure: int, runs: Runs) -> str:
    rows = ["| the paper says | paper | measured | fitted | why they differ |", "| --- " * 5 + "|"]
    for fact in FACTS:
        if fact.figure != figure:
            continue
        measured = fact.computed(runs)
        agrees = fact.agrees(measured)
        shown = f"{measured:.3g}" if agrees else f"**{measured:.3g}**"
        fitted = "yes" if fact.fitted else "no"
        why = fact.why if not agrees else ""
        rows.append(f"| {fact.claim} | {fact.paper} | {shown} | {fitted} | {why} |")
    return "\n".join(rows)


def page(runs: Runs) -> str:
    compilers = ", ".join(
        sorted({str(r["compiler"]) for r in runs.known.values() if "compiler" in r})
    )
    parts = [
        f"""# The figures of the paper on PUL, measured

    lab/figures/figures.py --paper pul

"PUL: Pre-load in Software for Caches Wouldn't Always Play Along", 2025. Emulated upmem and pul-ndp,
virtual time ([near](../../lab/near/README.md)). The kernel is `lab/pul/kernels/pul.c`, compiled by
{compilers}.

A number in bold differs from the paper's by more than is allowed: 20 % for a speed-up, 10 % where
the paper says that two are alike, 5 % for the two strategies, 0.06 instructions a cycle. *Fitted*:
a value of a machine's description, which the paper does not state, was chosen such that this number
comes out. It proves nothing. "As long" and "saturated" are within {100 * LEVEL:.0f} %."""
    ]
    for number, (title, _) in FIGURES.items():
        parts.append(
            f"## Figure {number}. {title}\n\n![Figure {number}](pul-figure-{number}.png)\n\n"
            f"{fact_table(number, runs)}"
        )
    parts.append(replay_section(runs))
    return "\n\n".join(parts) + "\n"


def present(runs: Runs, out: Path) -> None:
    with pyplot.rc_context(STYLE):
        for number, (_, draw) in FIGURES.items():
            draw(runs, out / f"pul-figure-{number}.png")
        draw_replay(runs, out / "pul-replay.png")
    write_atomically(out / "pul.md", page(runs))


def is_good(result: dict[str, Any]) -> bool:
    return bool(result["throughput"] > 0)


def make(build: Path, out: Path, quick: bool, plot_only: bool) -> None:
    """Measures, unless only to draw, and writes results, page and pictures."""
    journal = out / "pul.jsonl"
    known = recall(journal, is_good) if plot_only else {}
    runs = Runs(QUICK if quick else Points(), known, None if plot_only else build)
    present(runs, out)
    if not plot_only:
        write_journal(journal, runs.known)
