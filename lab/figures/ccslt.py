# SPDX-License-Identifier: BSD-3-Clause
"""The figures of the paper on ccSLT, a lock table that a host and a coherent device share: lock
requests by contention (Figure 4), reads by the device (Figure 5), latencies of many requests on the
host (Figure 6). The paper does not measure updates: updates a second under such locks, and short
updates next to an update of many records, are pictures of their own.

The results are ccslt.jsonl, the journal, with a run and its command on each line; ccslt.md, the
page; five pictures."""
from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from charts import STYLE
from results import Refused, journal_line, read_journal, run_program, write_atomically

MACHINE = "ccix-ndp"
PROGRAM = "lab/bulk/agent"  # from the build directory
CLAIMS = "lab/bulk/claims"
CLAIMS_ARGUMENTS = ("--requests", "100000", "--rounds", "1", "--group", "1")
BULK = "lab/bulk/bulk"
BULK_ARGUMENTS = ("--short-threads", "3", "--where", "inside", "--rounds", "1")
BULK_SIZE = ("--records", "20000", "--seconds", "0.01")
BULK_SIZE_QUICK = ("--records", "500", "--seconds", "0.0005")
# Of the time in which a bulk update runs, in per cent.
SHARES = (10, 25, 50, 75, 100)
SHARES_QUICK = (50, 100)
# How the bulk update is made: name, colour, marker.
KINDS = {
    "bulk": ("fur_bulk_run, WHOLE", "#0072b2", "o"),
    "each": ("fur_bulk_run, EACH", "#009e73", "^"),
    "locks": ("record locks, 512 records at a time", "#d55e00", "s"),
    "update": ("one ordinary update", "#555555", "x"),
}
ORDERS = {"sequential": "-", "random": "--"}
HOMES = ("host", "device")
PARALLEL = tuple(range(0, 101, 10))
PARALLEL_QUICK = (0, 50, 100)
LIMIT_SECONDS = 600
AGREES_WITHIN = 0.20
COLOURS = {"host": "#0072b2", "device": "#d55e00"}
MARKERS = {"host": "o", "device": "s"}
# Of Figure 4, with the home at the host: the share of parallel requests, and the ns from and to.
PAPER = {
    "host": ((0, 80, 100), (100, 400, 400)),
    "device": ((0, 800, 800), (100, 800, 800)),
}
# Of Figure 5, for 64 bytes.
# Of the histogram: ns, from 10 to 1,000.
BINS_A_DECADE = 16
EDGES = [10 * 10 ** (k / BINS_A_DECADE) for k in range(2 * BINS_A_DECADE + 1)]
# Of Figure 6: most requests, and PostgreSQL's peak.
PAPER_HOST_NS, PAPER_POSTGRES_NS = (80, 100), 520
PAPER_READS = {"cached_line_ns": (80, 100), "line_ns": (800, 800)}


@dataclass(frozen=True)
class Run:
    """A run of the benchmark: one home, one share of parallel requests."""

    command: str
    result: dict[str, Any]

    @property
    def program(self) -> str:
        """From the build directory."""
        return self.command.split()[0]

    @property
    def home(self) -> str:
        return str(self.result["home"])

    @property
    def parallel(self) -> int:
        return int(self.result["parallel"])

    def request_ns(self, side: str) -> float:
        """The atomic operation of a lock request."""
        return float(self.result["latency"][side]["first"]["mean_ns"])

    def read_ns(self, what: str) -> float:
        return float(self.result["reads"][what])

    def updates(self, side: str) -> float:
        return float(self.result["throughput"][side]["updates_per_second"])


class Runs:
    """All runs, by the questions that facts and pictures ask. `claims`: of the lock table alone.
    `bulk`: short updates next to bulk updates, by the share of the time that these take."""

    def __init__(self, runs: list[Run], claims: Run, bulk: list[Run]) -> None:
        self.runs, self.claims, self.bulk = runs, claims, bulk
        self._by_point = {(run.home, run.parallel): run for run in runs}

    @classmethod
    def of(cls, every: list[Run]) -> Runs:
        """Sorts runs by their programs."""
        runs, (claims,), bulk = (
            [run for run in every if run.program == program] for program in (PROGRAM, CLAIMS, BULK)
        )
        return cls(runs, claims, bulk)

    def every(self) -> list[Run]:
        return [*self.runs, self.claims, *self.bulk]

    def at(self, home: str, parallel: int) -> Run:
        return self._by_point[home, parallel]

    def claim(self, order: str) -> dict[str, Any]:
        """The distribution of a claim and its release."""
        (found,) = (case for case in self.claims.result["cases"] if case["case"] == order)
        groups: dict[str, Any] = found["groups"]
        return groups

    def beside(self, kind: str) -> list[tuple[float, float]]:
        """The share of the time in per cent, and the short updates' speed over that alone."""
        measured = [m for run in self.bulk for m in run.result["measured"] if m["by"] == kind]
        return sorted((100 * float(m["share"]), float(m["ratio"])) for m in measured)

    def line(self, home: str, value: Callable[[Run], float]) -> list[tuple[int, float]]:
        return [(run.parallel, value(run)) for run in self.runs if run.home == home]


@dataclass(frozen=True)
class Fact:
    """What the paper says: a number from `least` to `most`; without `most`, an order. `given`: the
    number is in the machine's description, so that it proves nothing."""

    figure: str
    claim: str
    given: bool
    least: float
    most: float
    computed: Callable[[Runs], float]

    @property
    def paper(self) -> str:
        if math.isinf(self.most):
            return f"above {self.least:g}"
        return f"{self.least:g}" if self.least == self.most else f"{self.least:g} to {self.most:g}"

    def agrees(self, measured: float) -> bool:
        if math.isinf(self.most):
            return measured > self.least
        return self.least * (1 - AGREES_WITHIN) <= measured <= self.most * (1 + AGREES_WITHIN)


def placed(side: str) -> Callable[[Runs], float]:
    """What a side gains in updates when the home is on it: without common locks."""
    other = "device" if side == "host" else "host"
    return lambda runs: runs.at(side, 0).updates(side) / runs.at(other, 0).updates(side)


FACTS = (
    Fact(
        "4",
        "host, no parallel requests, ns",
        True,
        80,
        100,
        lambda r: r.at("host", 0).request_ns("host"),
    ),
    Fact(
        "4",
        "host, 100 % parallel requests, ns",
        True,
        400,
        400,
        lambda r: r.at("host", 100).request_ns("host"),
    ),
    Fact(
        "4",
        "device, no parallel requests, ns",
        True,
        800,
        800,
        lambda r: r.at("host", 0).request_ns("device"),
    ),
    Fact(
        "4",
        "device, by any contention: the longest over the shortest",
        False,
        1,
        1,
        lambda r: max(y for _, y in r.line("host", lambda run: run.request_ns("device")))
        / min(y for _, y in r.line("host", lambda run: run.request_ns("device"))),
    ),
    Fact(
        "4",
        "device at home: its requests are faster than the host's, without contention",
        True,
        1,
        math.inf,
        lambda r: r.at("device", 0).request_ns("host") / r.at("device", 0).request_ns("device"),
    ),
    Fact(
        "5",
        "64 bytes from the device's cache, ns",
        True,
        80,
        100,
        lambda r: r.at("host", 0).read_ns("cached_line_ns"),
    ),
    Fact(
        "5",
        "64 bytes from the host, ns",
        True,
        800,
        800,
        lambda r: r.at("host", 0).read_ns("line_ns"),
    ),
    *(
        Fact(
            "6",
            f"host, {order} requests, ns: our table claims and releases",
            False,
            *PAPER_HOST_NS,
            lambda r, order=order: float(r.claim(order)["median_ns"]),  # type: ignore[misc]
        )
        for order in ORDERS
    ),
    Fact(
        "6",
        "PostgreSQL's peak is at 520 ns: over ours, random",
        False,
        1,
        math.inf,
        lambda r: PAPER_POSTGRES_NS / float(r.claim("random")["median_ns"]),
    ),
    Fact(
        "updates",
        "home at the host for a host that updates: its updates, over those with the other home",
        False,
        1,
        math.inf,
        placed("host"),
    ),
    Fact(
        "updates",
        "home at the device for updates near data: its updates, over those with the other home",
        False,
        1,
        math.inf,
        placed("device"),
    ),
)


# ------------------------------------------------------------------------ measuring


def run_one(build: Path, name: str, arguments: list[str]) -> Run:
    return Run(*run_program(build, name, arguments, LIMIT_SECONDS))


def measure(build: Path, machine: str, quick: bool) -> Runs:
    where = ["--machine", machine]
    runs = [
        run_one(
            build,
            PROGRAM,
            [*where, "--home", home, "--parallel", str(parallel), "--json", "-"],
        )
        for home in HOMES
        for parallel in (PARALLEL_QUICK if quick else PARALLEL)
    ]
    claims = run_one(build, CLAIMS, [*where, *CLAIMS_ARGUMENTS, "--json", "-"])
    size = BULK_SIZE_QUICK if quick else BULK_SIZE
    bulk = [
        run_one(
            build,
            BULK,
            [*where, *BULK_ARGUMENTS, *size, "--share", str(share), "--json", "-"],
        )
        for share in (SHARES_QUICK if quick else SHARES)
    ]
    return Runs(runs, claims, bulk)


def recall(path: Path) -> Runs:
    try:
        runs = Runs.of(read_journal(path, Run, "leave out --plot-only to measure"))
        for fact in FACTS:
            fact.computed(runs)
        for kind in KINDS:
            runs.beside(kind)
        return runs
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}: leave out --plot-only to measure") from error
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise Refused(
            f"{path}: not the results of a measurement: leave out --plot-only to measure"
        ) from error


# -------------------------------------------------------------------------- drawing


def save(canvas: Canvas, title: str, caption: str, path: Path) -> None:
    width, height = canvas.get_size_inches()
    left = 0.12 / width
    canvas.suptitle(
        title, x=left, y=1 - 0.1 / height, ha="left", va="top", fontsize=12, fontweight="bold"
    )
    canvas.text(left, 0.1 / height, caption, fontsize=8, color="#444444", va="bottom")
    part = path.with_suffix(".part")
    canvas.savefig(part, format="png")
    os.replace(part, path)
    pyplot.close(canvas)


def panels(number: int) -> tuple[Canvas, list[Axes]]:
    width, height = 5.2 * number + 0.4, 4.3
    canvas = pyplot.figure(figsize=(width, height))
    grid = canvas.add_gridspec(
        1,
        number,
        left=0.75 / width,
        right=1 - 0.2 / width,
        top=1 - 0.8 / height,
        bottom=1.1 / height,
        wspace=0.25,
    )
    return canvas, [canvas.add_subplot(grid[k]) for k in range(number)]


def side_lines(axes: Axes, runs: Runs, home: str, value: Callable[[Run, str], float]) -> None:
    for side in ("host", "device"):
        line = runs.line(home, lambda run, side=side: value(run, side))  # type: ignore[misc]
        axes.plot(
            *zip(*line),
            color=COLOURS[side],
            marker=MARKERS[side],
            markersize=4,
            linewidth=1.6,
            label=f"{side}, measured",
        )
    axes.set_title(f"home at the {home}", loc="left")
    axes.set_xlim(-4, 104)


def draw_requests(runs: Runs, path: Path) -> None:
    canvas, both = panels(2)
    for axes, home in zip(both, HOMES):
        side_lines(axes, runs, home, Run.request_ns)
        for side, points in PAPER.items() if home == "host" else ():
            axes.errorbar(
                [at for at, _, _ in points],
                [(least + most) / 2 for _, least, most in points],
                [(most - least) / 2 for _, least, most in points],
                color="#000000",
                marker=MARKERS[side],
                markersize=9,
                markerfacecolor="none",
                linestyle="none",
                capsize=3,
                label=f"{side}, paper",
            )
        axes.set_ylim(0, 900)
        axes.set_xlabel("% of requests with a parallel one of the other side")
        axes.set_ylabel("ns a lock request")
        axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.02, 0.84))
    save(
        canvas,
        "Figure 4. Lock requests, by contention",
        "Emulated, virtual time. The plateaus are in the machine's description. The paper measures "
        "the home at the host only.",
        path,
    )


def draw_reads(runs: Runs, path: Path) -> None:
    canvas, (axes,) = panels(1)
    run = runs.at("host", 0)
    for x, (what, (least, most)) in enumerate(PAPER_READS.items()):
        axes.bar(x, run.read_ns(what), 0.5, color=COLOURS["device"], label="" if x else "measured")
        axes.errorbar(
            x,
            (least + most) / 2,
            max((most - least) / 2, 1),
            color="#000000",
            marker="o",
            markersize=9,
            markerfacecolor="none",
            capsize=4,
            linestyle="none",
            label="" if x else "paper",
        )
    axes.set_xticks([0, 1], ["in the device's cache", "from the host"])
    axes.set_ylabel("ns")
    axes.grid(axis="x", visible=False)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    save(
        canvas,
        "Figure 5. The device reads 64 bytes",
        "Emulated, virtual time; both values are in the machine's description.",
        path,
    )


def percents(bins: list[tuple[float, float, float]]) -> list[float]:
    """Of the requests, those in each part of EDGES; the first and last part have all beyond."""
    found = [0.0] * (len(EDGES) - 1)
    total = sum(n for _, _, n in bins)
    for low, high, n in bins:
        at = int(math.log10(max((low + high) / 2, EDGES[0]) / EDGES[0]) * BINS_A_DECADE)
        found[min(at, len(found) - 1)] += 100 * n / total
    return found


def draw_claims(runs: Runs, path: Path) -> None:
    canvas, (axes,) = panels(1)
    for order, line in ORDERS.items():
        axes.stairs(
            percents(runs.claim(order)["bins"]),
            EDGES,
            color=COLOURS["host"],
            linestyle=line,
            linewidth=1.4,
            label=f"claim and release, {order}",
        )
    axes.axvspan(*PAPER_HOST_NS, color="#e69f00", alpha=0.35, label="paper, most requests")
    axes.axvline(
        PAPER_POSTGRES_NS, color="#000000", linestyle=":", label="paper, PostgreSQL's peak"
    )
    axes.set_xscale("log")
    axes.set_xlim(10, 1000)
    axes.xaxis.set_major_formatter(lambda ns, _: f"{ns:g}")
    axes.set_ylim(0, 160)
    axes.set_yticks(range(0, 101, 20))
    axes.set_xlabel("ns")
    axes.set_ylabel("% of requests")
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    save(
        canvas,
        "Figure 6. Lock requests on the host",
        "Emulated, virtual time; one thread of the host.",
        path,
    )


def draw_updates(runs: Runs, path: Path) -> None:
    canvas, both = panels(2)
    for axes, home in zip(both, HOMES):
        side_lines(axes, runs, home, lambda run, side: run.updates(side) / 1e6)
        axes.set_yscale("log")
        axes.set_ylim(0.05, 200)
        axes.yaxis.set_major_formatter(lambda millions, _: f"{millions:g}")
        axes.set_xlabel("% of requests for 8 locks that all share")
        axes.set_ylabel("million updates a second")
        axes.legend(fontsize=8, frameon=False, loc="upper right")
    save(
        canvas,
        "Updates of records under their locks",
        "Emulated, virtual time; one thread of the host, one of the device, both at once; "
        "libfur's table of locks. "
        "Not in the paper.",
        path,
    )


def draw_bulk(runs: Runs, path: Path) -> None:
    canvas, (axes,) = panels(1)
    for kind, (label, colour, marker) in KINDS.items():
        axes.plot(
            *zip(*runs.beside(kind)),
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.6,
            label=label,
        )
    axes.set_xlim(0, 104)
    axes.set_ylim(0, 2)
    axes.set_xlabel("% of the time in which the bulk update runs")
    axes.set_ylabel("short updates, over their speed alone")
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    save(
        canvas,
        "Short updates next to a bulk update of the same records",
        "Emulated, virtual time; three threads. Not in the paper.",
        path,
    )


# --------------------------------------------------------------------------- page


def fact_row(fact: Fact, runs: Runs) -> str:
    measured = fact.computed(runs)
    shown = f"{measured:.3g}" if fact.agrees(measured) else f"**{measured:.3g}**"
    given = "yes" if fact.given else "no"
    return f"| {fact.claim} | {fact.paper} | {shown} | {given} |"


def fact_table(figure: str, runs: Runs) -> str:
    rows = [fact_row(fact, runs) for fact in FACTS if fact.figure == figure]
    head = "| the paper says | paper | measured | given in the description |\n" + "| --- " * 4 + "|"
    return "\n".join([head, *rows])


def number_table(runs: Runs, unit: str, value: Callable[[Run, str], float]) -> str:
    shares = sorted({run.parallel for run in runs.runs})
    rows = [
        f"| {unit}, by % of parallel requests | " + " | ".join(map(str, shares)) + " |",
        "| --- |" + " --- |" * len(shares),
    ]
    for home in HOMES:
        for side in ("host", "device"):
            cells = " | ".join(f"{value(runs.at(home, p), side):.3g}" for p in shares)
            rows.append(f"| {side}; home at the {home} | {cells} |")
    return "\n".join(rows)


def bulk_table(runs: Runs) -> str:
    """A row for each kind: the shares differ by a little from kind to kind."""
    shares = [round(share) for share, _ in runs.beside("update")]
    rows = [
        "| short updates, by % of the time | " + " | ".join(map(str, shares)) + " |",
        "| --- |" + " --- |" * len(shares),
    ]
    for kind, (label, _, _) in KINDS.items():
        cells = " | ".join(f"{ratio:.2f}" for _, ratio in runs.beside(kind))
        rows.append(f"| {label} | {cells} |")
    return "\n".join(rows)


def page(runs: Runs, machine: str) -> str:
    run = runs.at("host", 0)
    page_us, cached_us = (run.read_ns(what) / 1000 for what in ("page_ns", "cached_page_ns"))
    return f"""# The figures of the paper on ccSLT, measured

    lab/figures/figures.py --paper ccslt

"Cache-Coherent Shared Locking for Transactionally Consistent Updates in Near-Data Processing DBMS
on Smart Storage", EDBT 2022. Emulated {machine}, virtual time
([emulated-machine.md](../emulated-machine.md#a-coherent-agent)). A number in bold differs from the
paper's by more than {100 * AGREES_WITHIN:.0f} %. Latencies that the machine's description states
prove nothing.

## Figure 4. Lock requests, by contention

![Figure 4](ccslt-figure-4.png)

{fact_table("4", runs)}

{number_table(runs, "ns a request", Run.request_ns)}

## Figure 5. The device reads 64 bytes

![Figure 5](ccslt-figure-5.png)

{fact_table("5", runs)}

A page of 8 KiB, line by line, takes {page_us:.3g} µs from the host, and {cached_us:.3g} µs from the
device's cache. PCIe is not modelled.

## Figure 6. Lock requests on the host

![Figure 6](ccslt-figure-6.png)

{fact_table("6", runs)}

Our times are of libfur's own table of record locks (`lab/claims/claims.h`), with the release. The
table's lines are in the system-level cache or nearer. A line from memory alone takes 85 ns, so the
paper's requests may go there. PostgreSQL's time is the paper's; `lab/bulk/postgres.py` measures
it natively.

## Updates of records under their locks

![Updates](ccslt-updates.png)

{fact_table("updates", runs)}

{number_table(runs, "million updates a second", lambda run, side: run.updates(side) / 1e6)}

## Short updates next to a bulk update

![Short updates](ccslt-bulk.png)

{bulk_table(runs)}

Three threads with short updates of random records, and one that changes all records again and
again, by each of four ways; between two times it sleeps. Record locks are the paper's way, with
libfur's table; a short update also claims its record. EACH rests nine tenths of the time that it
is given, so its calls take longer. The paper has no such figure.
"""


def present(runs: Runs, machine: str, out: Path) -> None:
    with pyplot.rc_context(STYLE):
        draw_requests(runs, out / "ccslt-figure-4.png")
        draw_reads(runs, out / "ccslt-figure-5.png")
        draw_claims(runs, out / "ccslt-figure-6.png")
        draw_updates(runs, out / "ccslt-updates.png")
        draw_bulk(runs, out / "ccslt-bulk.png")
    write_atomically(out / "ccslt.md", page(runs, machine))


def make(build: Path, machine: str, out: Path, quick: bool, plot_only: bool) -> None:
    """Measures, unless only to draw, and writes results, page and pictures."""
    journal = out / "ccslt.jsonl"
    if plot_only:
        runs = recall(journal)
    else:
        runs = measure(build, machine, quick)
        lines = [journal_line(run.__dict__) for run in runs.every()]
        write_atomically(journal, "".join(lines))
    present(runs, machine, out)
