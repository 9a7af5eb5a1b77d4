# SPDX-License-Identifier: BSD-3-Clause
"""What the project's plots share: their style, an axis of threads, names at the ends of lines."""
from __future__ import annotations

import math
from typing import Any, Protocol

import matplotlib
from matplotlib.axes import Axes

matplotlib.use("Agg")

STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.dpi": 130,
    "savefig.facecolor": "white",
}


def logarithmic(threads: list[int]) -> list[float]:
    """Places on an axis: twice as many threads are one unit to the right."""
    return [math.log2(n) for n in threads]


def in_turn(threads: list[int]) -> list[float]:
    """Places of stacks, which are equally wide."""
    return [float(k) for k in range(len(threads))]


def thread_axis(
    axes: Axes, threads: list[int], places: list[float], margin: float, every: bool = True
) -> None:
    """A tick for each number of threads measured; labels for all, or for every second."""
    last = len(threads) - 1
    axes.set_xticks(
        places, [str(n) if every or (last - k) % 2 == 0 else "" for k, n in enumerate(threads)]
    )
    axes.set_xlim(places[0] - margin, places[-1] + margin)


def spread(ends: list[float], least: float) -> list[float]:
    """Labels at these heights, moved apart until none covers another."""
    order = sorted(range(len(ends)), key=lambda k: ends[k])
    heights = list(ends)
    for _ in range(200):
        for low, high in zip(order, order[1:]):
            overlap = least - (heights[high] - heights[low])
            if overlap > 1e-9:
                heights[low] -= overlap / 2
                heights[high] += overlap / 2
        lift = -min(heights)
        if lift > 0:
            heights = [height + lift if height < 0 else height for height in heights]
    return heights


class Labelled(Protocol):
    """A system with a line of its own."""

    @property
    def label(self) -> str:
        ...

    @property
    def colour(self) -> str:
        ...


def annotate_end(
    axes: Axes, system: Labelled, end: tuple[float, float], place: tuple[float, float], coords: Any
) -> None:
    """The system's name at a place, and a thin line from there to the end of its line."""
    axes.annotate(
        system.label,
        end,
        place,
        textcoords=coords,
        color=system.colour,
        va="center",
        fontsize=8,
        annotation_clip=False,
        arrowprops={
            "arrowstyle": "-",
            "color": system.colour,
            "linewidth": 0.5,
            "shrinkA": 0,
            "shrinkB": 3,
            "relpos": (0, 0.5),
        },
    )
