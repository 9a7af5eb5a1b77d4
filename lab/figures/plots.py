# SPDX-License-Identifier: BSD-3-Clause
"""The figures: throughput by threads, the outcomes of attempts, the time in each phase."""
from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.gridspec import GridSpecFromSubplotSpec, SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import plan
from charts import STYLE, annotate_end, in_turn, logarithmic, spread, thread_axis
from facts import plain_ns
from results import Point, Points

# The colours of Okabe and Ito, which colour-blind people can tell apart, and greys.
OUTCOMES = {  # of attempts, from the bottom up
    "software": ("committed in software", "#56b4e9"),
    "untracked": ("read-only, outside a hardware transaction", "#009e73"),
    "hardware": ("committed in a hardware transaction", "#0072b2"),
    "lock": ("committed under the lock", "#f0e442"),
    "conflict": ("aborted: conflict", "#d55e00"),
    "plain": ("aborted: an access outside transactions", "#000000"),
    "capacity": ("aborted: capacity", "#cc79a7"),
    "locked": ("aborted: lock taken", "#e69f00"),
    "other": ("aborted: other", "#969696"),
}
PHASES = {
    "lock_wait": ("lock wait", "#e69f00"),
    "isolation_wait": ("isolation wait", "#009e73"),
    "log": ("log", "#56b4e9"),
    "flush": ("write-back", "#0072b2"),
    "durability_wait": ("durability wait", "#d55e00"),
    "room": ("waiting for room in the log", "#969696"),
}
PHASE_MARKERS = dict(zip(PHASES, "ov^sDP"))
READ_WAIT = ("durability wait of read-only transactions", "#cc79a7")
BODY = ("body", "#d9d9d9")
PER_PANEL = 1.15  # inches, of a panel for one system


def outcomes_of(system: plan.System, point: Point) -> dict[str, float]:
    """Shares of all attempts. Under the lock: updates, and readers that failed in hardware."""
    reads = sum(n for kind, n in point.commits.items() if kind in plan.READ_ONLY)
    shares = dict.fromkeys(OUTCOMES, 0.0)
    if system.reads == system.updates:
        shares[system.updates] += sum(point.commits.values()) - point.lock_commits
    else:
        shares[system.reads] += reads
        shares[system.updates] += sum(point.commits.values()) - reads - point.lock_commits
    shares["lock"] = point.lock_commits
    for cause, n in point.aborts.items():
        shares[
            {
                "conflict": "conflict",
                "plain": "plain",
                "capacity": "capacity",
                "lock": "locked",
            }.get(cause, "other")
        ] += n
    attempts = sum(shares.values())
    return {name: max(n, 0) / attempts if attempts else 0 for name, n in shares.items()}


def time_of(point: Point) -> dict[str, dict[str, float]]:
    """Nanoseconds a transaction, of read-only ones and of updates."""
    reads = sum(n for kind, n in point.commits.items() if kind in plan.READ_ONLY)
    updates = sum(point.commits.values()) - reads
    ns = point.phases_ns
    return {
        "read-only": {
            "body": ns["ro_body"] / max(reads, 1),
            "ro_wait": ns["ro_wait"] / max(reads, 1),
        },
        "update": {
            "body": plain_ns(ns) / max(updates, 1),
            **{phase: ns.get(phase, 0) / max(updates, 1) for phase in PHASES},
        },
    }


def measured_systems(points: Points, workload: plan.Workload) -> list[plan.System]:
    return [
        system
        for system in plan.PROGRAMS[workload.program].systems
        if any(key[:2] == (workload.name, system.tm) for key in points)
    ]


def top_of(lines: dict[str, list[tuple[float, float]]]) -> float:
    """All lines stay in the panel."""
    return 1.08 * max(y for line in lines.values() for _, y in line) or 1


def label_ends(axes: Axes, lines: dict[str, list[tuple[float, float]]]) -> None:
    """Each line's system, right of the panel."""
    top = axes.get_ylim()[1]
    ends = [line[-1][1] for line in lines.values()]
    inches = axes.get_position().height * axes.figure.get_figheight()
    for (tm, line), end, height in zip(lines.items(), ends, spread(ends, top * 0.155 / inches)):
        system = plan.SYSTEM[tm]
        annotate_end(axes, system, (line[-1][0], end), (1.03, height), axes.get_yaxis_transform())


def unit_of(throughputs: Iterable[float]) -> tuple[float, str]:
    return (1e6, "million") if max(throughputs) >= 1e6 else (1e3, "thousand")


def throughput_panel(
    axes: Axes, points: Points, workload: plan.Workload, threads: list[int]
) -> None:
    shown = {key: point.throughput for key, point in points.items() if key[0] == workload.name}
    scale, unit = unit_of(shown.values())
    lines = {
        system.tm: [
            (math.log2(n), shown[workload.name, system.tm, n] / scale)
            for n in threads
            if (workload.name, system.tm, n) in shown
        ]
        for system in measured_systems(points, workload)
    }
    for tm, line in lines.items():
        axes.plot(
            *zip(*line),
            color=plan.SYSTEM[tm].colour,
            marker=plan.SYSTEM[tm].marker,
            linestyle=plan.SYSTEM[tm].line,
            markersize=5,
            linewidth=1.6,
        )
    axes.set_ylim(0, top_of(lines))
    thread_axis(axes, threads, logarithmic(threads), 0.3)
    axes.set_title(workload.title, loc="left")
    program = plan.PROGRAMS[workload.program]
    axes.set_xlabel(program.axis)
    axes.set_ylabel(f"{unit} {program.counted} a second")
    label_ends(axes, lines)


def small_panels(
    canvas: Canvas,
    place: SubplotSpec,
    systems: list[plan.System],
    threads: list[int],
    places: list[float],
    title: str,
    unit: str,
) -> list[Axes]:
    """A row of panels with one scale, a system each."""
    grid = GridSpecFromSubplotSpec(1, len(systems), place, wspace=0.12)
    row: list[Axes] = []
    for k, system in enumerate(systems):
        axes = canvas.add_subplot(grid[k], sharey=row[0] if row else None)
        axes.set_title(system.label, fontsize=7.5, color=system.colour, pad=3)
        thread_axis(axes, threads, places, 0.5, every=len(threads) < 4)
        axes.tick_params(labelsize=7, labelleft=not row, length=2)
        axes.grid(axis="x", visible=False)
        row.append(axes)
    row[0].set_ylabel(unit, fontsize=8)
    row[0].annotate(
        title,
        (0, 1),
        (0, 17),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=9,
        fontweight="bold",
        annotation_clip=False,
    )
    return row


def stack(axes: Axes, x: int, parts: list[tuple[float, str]]) -> None:
    bottom = 0.0
    for height, colour in parts:
        axes.bar(x, height, 0.85, bottom, color=colour)
        bottom += height


def outcomes_row(
    canvas: Canvas, place: SubplotSpec, points: Points, workload: plan.Workload, threads: list[int]
) -> None:
    systems = measured_systems(points, workload)
    for axes, system in zip(
        small_panels(
            canvas,
            place,
            systems,
            threads,
            in_turn(threads),
            "what became of attempts",
            "% of attempts",
        ),
        systems,
    ):
        for x, n in enumerate(threads):
            if (point := points.get((workload.name, system.tm, n))) is not None:
                shares = outcomes_of(system, point)
                stack(
                    axes,
                    x,
                    [(100 * shares[name], colour) for name, (_, colour) in OUTCOMES.items()],
                )
        axes.set_ylim(0, 100)


def with_phases(points: Points, workload: plan.Workload) -> list[plan.System]:
    """Systems that measure phases."""
    return [
        system
        for system in measured_systems(points, workload)
        if all(
            point.phases_ns
            for (name, tm, _), point in points.items()
            if (name, tm) == (workload.name, system.tm)
        )
    ]


def time_row(
    canvas: Canvas,
    place: SubplotSpec,
    points: Points,
    workload: plan.Workload,
    threads: list[int],
    kind: str,
) -> None:
    systems = with_phases(points, workload)
    colours = {
        "body": BODY[1],
        "ro_wait": READ_WAIT[1],
        **{phase: colour for phase, (_, colour) in PHASES.items()},
    }
    title = "time of a read-only transaction" if kind == "read-only" else "time of an update"
    panels = small_panels(canvas, place, systems, threads, in_turn(threads), title, "µs")
    for axes, system in zip(panels, systems):
        for x, n in enumerate(threads):
            if (point := points.get((workload.name, system.tm, n))) is not None:
                stack(
                    axes,
                    x,
                    [(ns / 1000, colours[phase]) for phase, ns in time_of(point)[kind].items()],
                )


def overhead_row(
    canvas: Canvas, place: SubplotSpec, points: Points, workload: plan.Workload, threads: list[int]
) -> None:
    """Lines on a logarithmic scale: overheads span five orders of magnitude."""
    systems = with_phases(points, workload)
    for axes, system in zip(
        small_panels(
            canvas,
            place,
            systems,
            threads,
            logarithmic(threads),
            "time beyond the body",
            "% of the body",
        ),
        systems,
    ):
        lines: dict[str, list[tuple[float, float]]] = {phase: [] for phase in (*PHASES, "ro_wait")}
        for x, n in zip(logarithmic(threads), threads):
            if (point := points.get((workload.name, system.tm, n))) is None:
                continue
            ns, body = point.phases_ns, plain_ns(point.phases_ns)
            for phase in PHASES:
                lines[phase].append((x, 100 * ns.get(phase, 0) / body if body > 0 else 0))
            lines["ro_wait"].append(
                (x, 100 * ns["ro_wait"] / ns["ro_body"] if ns["ro_body"] else 0)
            )
        for phase, line in lines.items():
            if shown := [(x, y) for x, y in line if y >= 0.1]:
                axes.plot(
                    *zip(*shown),
                    color=PHASES[phase][1] if phase in PHASES else READ_WAIT[1],
                    marker=PHASE_MARKERS.get(phase, "x"),
                    markersize=3,
                    linewidth=1.2,
                    linestyle="-" if phase in PHASES else "--",
                )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda percent, _: f"{percent:g}")
        axes.axhline(100, color="#b0b0b0", linewidth=0.7)
        axes.minorticks_off()


def legend(canvas: Canvas, figure: plan.Figure, height: float) -> None:
    """Of the small panels' colours; systems are named where they are."""
    handles: list[Artist] = []
    if figure.outcomes:
        handles += [Patch(color=colour, label=name) for name, colour in OUTCOMES.values()]
    if figure.profile == "time":
        handles += [
            Patch(color=colour, label=name) for name, colour in (BODY, *PHASES.values(), READ_WAIT)
        ]
    if figure.profile == "overhead":
        handles += [
            Line2D([], [], color=colour, marker=PHASE_MARKERS[phase], label=name)
            for phase, (name, colour) in PHASES.items()
        ]
        handles.append(
            Line2D(
                [],
                [],
                color=READ_WAIT[1],
                marker="x",
                linestyle="--",
                label="durability wait of read-only transactions, of theirs",
            )
        )
    if handles:
        canvas.legend(
            handles=handles,
            loc="lower center",
            bbox_to_anchor=(0.5, 0.34 / height),
            ncol=5,
            fontsize=8,
            frameon=False,
        )


def rows_of(figure: plan.Figure) -> int:
    return figure.outcomes + {"": 0, "time": 2, "overhead": 1}[figure.profile]


def detailed(figure: plan.Figure, points: Points, threads: list[int]) -> Canvas:
    """A band for each workload: throughput, and right of it the rows of small panels."""
    systems = max(len(measured_systems(points, workload)) for workload in figure.workloads)
    rows = rows_of(figure)
    # Inches: throughput, its labels, the small panels; a row of those, and the space between bands.
    left, labels, right, band, between = (
        3.7,
        2.35,
        max(PER_PANEL * systems, 4.6),
        1.9 * max(rows, 1.5),
        1.0,
    )
    width, height = (
        0.7 + left + labels + right + 0.15,
        (band + between) * len(figure.workloads) - between + 2.2,
    )
    canvas = pyplot.figure(figsize=(width, height))
    bands = canvas.add_gridspec(
        len(figure.workloads),
        2,
        width_ratios=[left, right],
        left=0.7 / width,
        right=1 - 0.15 / width,
        top=1 - 0.75 / height,
        bottom=1.45 / height,
        wspace=2 * labels / (left + right),
        hspace=between / band,
    )
    for k, workload in enumerate(figure.workloads):
        throughput_panel(canvas.add_subplot(bands[k, 0]), points, workload, threads)
        inner = GridSpecFromSubplotSpec(rows, 1, bands[k, 1], hspace=0.62)
        places = [inner[row] for row in range(rows)]
        if figure.outcomes:
            outcomes_row(canvas, places.pop(0), points, workload, threads)
        if figure.profile == "overhead":
            overhead_row(canvas, places.pop(0), points, workload, threads)
        if figure.profile == "time":
            time_row(canvas, places.pop(0), points, workload, threads, "read-only")
            time_row(canvas, places.pop(0), points, workload, threads, "update")
    return canvas


def plain(figure: plan.Figure, points: Points, threads: list[int]) -> Canvas:
    """Throughput alone, up to three panels side by side."""
    columns = min(len(figure.workloads), 3)
    rows = math.ceil(len(figure.workloads) / columns)
    # Inches: a panel, its labels, and the space between rows.
    panel, labels, high, between = 3.6 if columns > 1 else 5.0, 2.35, 3.0, 0.9
    width = 0.65 + (panel + labels) * columns - 0.5
    height = (high + between) * rows - between + 1.75
    canvas = pyplot.figure(figsize=(width, height))
    grid = canvas.add_gridspec(
        rows,
        columns,
        left=0.65 / width,
        right=1 - (labels - 0.5) / width,
        top=1 - 0.75 / height,
        bottom=1.0 / height,
        wspace=labels / panel,
        hspace=between / high,
    )
    for k, workload in enumerate(figure.workloads):
        axes = canvas.add_subplot(grid[k // columns, k % columns])
        throughput_panel(axes, points, workload, threads)
    return canvas


def draw(figure: plan.Figure, points: Points, caption: str, path: Path) -> None:
    """Of the workloads that have points, which one must."""
    measured = {name for name, _, _ in points}
    figure = replace(
        figure,
        workloads=tuple(workload for workload in figure.workloads if workload.name in measured),
    )
    shown = {workload.name for workload in figure.workloads}
    points = {key: point for key, point in points.items() if key[0] in shown}
    threads = sorted({threads for _, _, threads in points})
    with pyplot.rc_context(STYLE):
        canvas = (detailed if rows_of(figure) else plain)(figure, points, threads)
        height = canvas.get_figheight()
        left = 0.12 / canvas.get_figwidth()
        canvas.suptitle(
            f"Figure {figure.number}. {figure.title}",
            x=left,
            y=1 - 0.1 / height,
            ha="left",
            va="top",
            fontsize=12,
            fontweight="bold",
        )
        canvas.text(left, 0.1 / height, caption, fontsize=8, color="#444444", va="bottom")
        legend(canvas, figure, height)
        part = path.with_suffix(".part")
        canvas.savefig(part, format="png")
        os.replace(part, path)
        pyplot.close(canvas)
