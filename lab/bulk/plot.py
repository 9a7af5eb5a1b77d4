#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# The system's python3, not one that comes first in PATH: the package python3-matplotlib is for it.
"""Draw results of the benchmark `claims`: on the left, how long a claim and its release take one
thread, as a histogram, next to PostgreSQL's row lock; on the right, how long they take while a
second thread claims the same record. Print the same numbers as Markdown tables.
"""
from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import matplotlib  # noqa: F401
except ImportError:
    print("plot.py: matplotlib is not there: apt-get install python3-matplotlib", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench/common"))

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

import charts  # noqa: E402

COLOURS = ["#0072b2", "#009e73", "#cc79a7", "#e69f00"]
POSTGRES = "#d55e00"
ORDERS = {"sequential": "-", "random": "--"}
# Of the histogram: ns, from 5 to 5,000.
BINS_A_DECADE = 12
EDGES = [5 * 10 ** (k / BINS_A_DECADE) for k in range(3 * BINS_A_DECADE + 1)]


class Refused(Exception):
    """A file that is no result."""


@dataclass(frozen=True)
class Distribution:
    """Nanoseconds of a claim and its release."""

    median: float
    bins: list[tuple[float, float, float]]  # from, to, number of groups

    def percents(self) -> list[float]:
        """Percent of the groups in each bin of EDGES; the first and last have all beyond."""
        total = sum(n for _, _, n in self.bins)
        found = [0.0] * (len(EDGES) - 1)
        for low, high, n in self.bins:
            middle = max((low + high) / 2, EDGES[0])
            at = int(math.log10(middle / EDGES[0]) * BINS_A_DECADE)
            found[min(at, len(found) - 1)] += 100 * n / total
        return found


@dataclass(frozen=True)
class Contended:
    """A claim and its release, next to a second thread: ns, median and range of the rounds."""

    mean: float
    least: float
    most: float
    busy_percent: float


@dataclass(frozen=True)
class Result:
    name: str
    alone: dict[str, Distribution]
    means: dict[str, float]
    contended: dict[int, Contended]  # by percent of requests for the shared record


def distribution(raw: dict[str, Any]) -> Distribution:
    return Distribution(raw["median_ns"], [(low, high, n) for low, high, n in raw["bins"]])


def load(path: str, benchmark: str) -> dict[str, Any]:
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as e:
        raise Refused(f"{path}: {e.strerror}: name a result of {benchmark} --json") from e
    except ValueError:
        raw = {}
    if not isinstance(raw, dict) or raw.get("benchmark") != benchmark:
        raise Refused(f"{path} is no result of {benchmark}: make one with {benchmark} --json")
    return raw


def read_result(path: str) -> Result:
    raw = load(path, "claims")
    cases = {case["case"]: case for case in raw["cases"]}
    contended = {}
    for name, case in cases.items():
        if name.startswith("two threads, "):
            means = case["mean99_ns"]
            contended[int(name.split()[2])] = Contended(
                statistics.median(means), min(means), max(means), case.get("busy_percent", 0.0)
            )
    return Result(
        raw["processor"] or "emulated " + raw["machine"],
        {order: distribution(cases[order]["groups"]) for order in ORDERS},
        {name: statistics.median(case["mean99_ns"]) for name, case in cases.items()},
        contended,
    )


def read_postgres(path: str) -> tuple[str, dict[str, Distribution]]:
    raw = load(path, "postgres")
    return "PostgreSQL " + raw["version"], {
        case["case"]: distribution(case["lock"]) for case in raw["cases"]
    }


def draw_histogram(axes: Axes, name: str, colour: str, orders: dict[str, Distribution]) -> None:
    for order, line in ORDERS.items():
        label = f"{name}, {order}: {orders[order].median:.0f} ns"
        percents = orders[order].percents()
        axes.stairs(percents, EDGES, color=colour, linestyle=line, linewidth=1.4, label=label)


def draw_contended(axes: Axes, result: Result, colour: str) -> None:
    points = sorted(result.contended.items())
    means = [point.mean for _, point in points]
    axes.errorbar(
        [percent for percent, _ in points],
        means,
        yerr=[
            [point.mean - point.least for _, point in points],
            [point.most - point.mean for _, point in points],
        ],
        color=colour,
        marker="o",
        markersize=4,
        linewidth=1.6,
        elinewidth=0.8,
        capsize=2,
        label=result.name,
    )


def draw(
    results: list[Result], peer: tuple[str, dict[str, Distribution]] | None, path: Path
) -> None:
    with pyplot.rc_context(charts.STYLE):
        canvas, (alone, contended) = pyplot.subplots(1, 2, figsize=(9.5, 4.2))
        for result, colour in zip(results, COLOURS):
            draw_histogram(alone, result.name, colour, result.alone)
            draw_contended(contended, result, colour)
        if peer:
            draw_histogram(alone, peer[0], POSTGRES, peer[1])
        alone.set_xscale("log")
        alone.set_xlabel("ns a claim and release (median in the legend)")
        alone.set_ylabel("percent of the measurements")
        alone.set_title("One thread", loc="left")
        contended.set_ylim(bottom=0)
        contended.set_xlabel("percent of the requests for the same record")
        contended.set_ylabel("ns a claim and release")
        contended.set_title("Next to a second thread", loc="left")
        for axes in (alone, contended):
            axes.legend(frameon=False, fontsize=8)
        canvas.suptitle("Record locks", x=0.02, ha="left", fontsize=12, fontweight="bold")
        canvas.tight_layout()
        canvas.savefig(path, format="png")
        pyplot.close(canvas)


def tables(results: list[Result]) -> str:
    names = " | ".join(result.name for result in results)
    lines = [f"| mean ns | {names} |", "| --- " * (len(results) + 1) + "|"]
    for case in results[0].means:
        cells = []
        for result in results:
            cell = f"{result.means.get(case, float('nan')):.0f}"
            if case.startswith("two threads, "):
                point = result.contended[int(case.split()[2])]
                cell += f" ({point.least:.0f}-{point.most:.0f}), {point.busy_percent:.0f} % busy"
            cells.append(cell)
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0] if __doc__ else None,
        allow_abbrev=False,
    )
    parser.add_argument("results", nargs="+", metavar="RESULT", help="file of claims --json")
    parser.add_argument("--postgres", metavar="FILE", help="file of postgres.py --json")
    parser.add_argument("--out", required=True, metavar="FILE", help="the picture, a PNG")
    options = parser.parse_args()
    try:
        results = [read_result(path) for path in options.results]
        peer = read_postgres(options.postgres) if options.postgres else None
        draw(results, peer, Path(options.out))
    except (Refused, OSError) as e:
        print(f"plot.py: {e}", file=sys.stderr)
        return 2
    print(tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
