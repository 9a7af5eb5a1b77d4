#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# The system's python3, not one that comes first in PATH: the package python3-matplotlib is for it.
"""Draw results of the benchmark `commits`: throughput by threads, a panel for each result, a line
for each system. Lines join medians; bars reach from the least to the most of the rounds. Print the
same numbers as a Markdown table.
"""
from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

try:
    import matplotlib  # noqa: F401
except ImportError:
    print("plot.py: matplotlib is not there: apt-get install python3-matplotlib", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

import charts  # noqa: E402
from systems import System  # noqa: E402


class Refused(Exception):
    """A file that is no result."""


# The last field: a power failure cannot lose a commit that has returned.
SYSTEMS = {
    system.tm: system
    for system in (
        System("fur-async", "libfur, no waits", "#56b4e9", "P", durably_opaque=False),
        System("fur-emulated", "libfur, in memory", "#000000", "*", durably_opaque=False),
        System("fur", "libfur", "#0072b2", "o"),
        System("rocksdb", "RocksDB", "#d55e00", "s"),
        System("bare", "pwrite, fdatasync", "#7f7f7f", "x"),
        System("sqlite", "SQLite", "#009e73", "^"),
        System("lmdb", "LMDB", "#cc79a7", "v"),
    )
}


@dataclass(frozen=True)
class Point:
    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Result:
    """A run of the benchmark. `points`: by system and number of threads."""

    points: dict[tuple[str, int], Point]
    title: str
    place: str  # machine and file system
    how: str

    @property
    def threads(self) -> list[int]:
        return sorted({threads for _, threads in self.points})

    @property
    def systems(self) -> list[System]:
        names = {name for name, _ in self.points}
        return [system for name, system in SYSTEMS.items() if name in names]


def title_of(busy: int) -> str:
    return f"beside {busy} busy processes" if busy else "without busy processes"


def place_of(raw: dict) -> str:
    machine = raw["machine"]
    # The release without what its builder has appended
    release = ".".join(machine["system"].split("-")[0].split(".")[:2])
    mounts = [row["mount"] for row in raw["results"] if row["system"] != "fur-emulated"]
    disk = ""
    if mounts:
        disk = f"; {mounts[0]['type']} on {mounts[0]['device']}, mounted at {mounts[0]['point']}"
    return f"{machine['processor']}, {machine['cores']} cores, {release}{disk}"


def read_result(path: str) -> Result:
    try:
        raw = json.loads(Path(path).read_text(encoding="utf-8"))
        rows = raw["results"]
        rounds = len(rows[0]["rounds"])
        return Result(
            {
                (row["system"], row["threads"]): Point(row["median"], row["least"], row["most"])
                for row in rows
                if row["system"] in SYSTEMS
            },
            title_of(raw["busy_processes"]),
            place_of(raw),
            f"{raw['value_bytes']}-byte values, {rounds} rounds of {raw['seconds']:g} s each",
        )
    except OSError as e:
        raise Refused(f"{path}: {e.strerror}: name a result of commits --json") from e
    except (ValueError, KeyError, IndexError, TypeError) as e:
        raise Refused(f"{path} is no result of commits: make one with commits --json") from e


def label_lines(axes: Axes, result: Result) -> None:
    """Each line's system, right of the panel. The axis is logarithmic: a median of 0, of a system
    that has committed nothing in half of its rounds, is not on it."""
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    last: dict[str, int] = {}
    for (name, threads), point in result.points.items():
        if point.median > 0:
            last[name] = max(threads, last.get(name, 0))
    labelled = [system for system in result.systems if system.tm in last]
    ends = [
        (math.log10(result.points[system.tm, last[system.tm]].median) - low) / (high - low)
        for system in labelled
    ]
    inches = axes.get_position().height * axes.figure.get_figheight()
    for system, fraction, height in zip(labelled, ends, charts.spread(ends, 0.155 / inches)):
        end = (math.log2(last[system.tm]), 10 ** (low + fraction * (high - low)))
        charts.annotate_end(axes, system, end, (1.04, height), "axes fraction")


def panel(axes: Axes, result: Result) -> None:
    for k, system in enumerate(result.systems):
        line = [(n, result.points[system.tm, n]) for n in result.threads]
        medians = [point.median for _, point in line]
        # Side by side, so that no bar covers another.
        shift = 0.05 * (k - (len(result.systems) - 1) / 2)
        axes.errorbar(
            [math.log2(n) + shift for n, _ in line],
            medians,
            yerr=[
                [point.median - point.least for _, point in line],
                [point.most - point.median for _, point in line],
            ],
            color=system.colour,
            marker=system.marker,
            linestyle=system.line,
            markersize=5,
            linewidth=1.6,
            elinewidth=0.8,
            capsize=2,
        )
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda rate, _: f"{rate / 1e3:g}")
    charts.thread_axis(axes, result.threads, charts.logarithmic(result.threads), 0.3)
    axes.set_xlabel("threads")
    axes.set_title(result.title[0].upper() + result.title[1:], loc="left")


def draw(results: list[Result], path: Path) -> None:
    # Inches: a panel, and its labels.
    wide, labels, high = 3.6, 1.75, 3.4
    width, height = 0.85 + (wide + labels) * len(results) - 0.3, high + 1.65
    with pyplot.rc_context(charts.STYLE):
        canvas = pyplot.figure(figsize=(width, height))
        grid = canvas.add_gridspec(
            1,
            len(results),
            left=0.85 / width,
            right=1 - (labels - 0.3) / width,
            top=1 - 0.75 / height,
            bottom=0.9 / height,
            wspace=labels / wide,
        )
        panels: list[Axes] = []
        for k, result in enumerate(results):
            panels.append(canvas.add_subplot(grid[0, k], sharey=panels[0] if panels else None))
            panel(panels[k], result)
        for axes, result in zip(panels, results):
            label_lines(axes, result)
        panels[0].set_ylabel("thousand commits a second")
        left = 0.12 / width
        canvas.suptitle(
            "Small durable commits on a disk",
            x=left,
            y=1 - 0.1 / height,
            ha="left",
            va="top",
            fontsize=12,
            fontweight="bold",
        )
        caption = f"{results[0].place}\n{results[0].how}; lines: medians; bars: least to most"
        canvas.text(left, 0.1 / height, caption, fontsize=8, color="#444444", va="bottom")
        canvas.savefig(path, format="png")
        pyplot.close(canvas)


def table(result: Result) -> str:
    """Thousand commits a second."""

    def cell(point: Point) -> str:
        median, least, most = (
            plain(value / 1e3) for value in (point.median, point.least, point.most)
        )
        return f"{median} ({least}-{most})"

    lines = [
        "| threads | " + " | ".join(map(str, result.threads)) + " |",
        "| --- " * (len(result.threads) + 1) + "|",
    ]
    for system in result.systems:
        cells = [cell(result.points[system.tm, n]) for n in result.threads]
        lines.append(f"| `{system.tm}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plain(value: float) -> str:
    """Two digits, and no exponent."""
    return f"{value:.1f}" if value < 10 else f"{float(f'{value:.2g}'):.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", maxsplit=1)[0] if __doc__ else None,
        allow_abbrev=False,
    )
    parser.add_argument("results", nargs="+", metavar="RESULT", help="file of commits --json")
    parser.add_argument("--out", required=True, metavar="FILE", help="the picture, a PNG")
    options = parser.parse_args()
    try:
        results = [read_result(path) for path in options.results]
        draw(results, Path(options.out))
    except (Refused, OSError) as e:
        print(f"plot.py: {e}", file=sys.stderr)
        return 2
    for result in results:
        print(
            f"{result.title}, thousand commits a second: median (least-most)\n\n{table(result)}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
