# SPDX-License-Identifier: BSD-3-Clause
"""The paper's facts as data: each with its computation from the measured points, and the table that
compares."""
from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import plan
from results import Point, Points, Refused, mean

EXPLANATIONS = Path(__file__).with_name("explanations.toml")
AGREES_WITHIN = 0.30
LEVEL_WITHIN = 0.01  # no order
PERSISTENT = ("spht", "pisces", "specpmt")
FUR = ("fur-opacity", "fur-snapshot")
# The end of a workload's name, and the keys of the mix.
TREE_MIXES = (("-authors", "the authors'"), ("", "random"))
FULL_HARDWARE = ("htm", "spht", "fur-opacity")


class NotMeasured(Exception):
    """A fact needs a point that is not there; says which."""


class Figures:
    """The points, by the questions that facts ask."""

    def __init__(self, points: Points) -> None:
        self.points = points

    def at(self, workload: str, tm: str, threads: int) -> float:
        return self._point(workload, tm, threads).throughput

    def _point(self, workload: str, tm: str, threads: int) -> Point:
        try:
            return self.points[workload, tm, threads]
        except KeyError:
            raise NotMeasured(f"{tm}, {threads} thread{'s' * (threads > 1)}") from None

    def threads(self, workload: str, tm: str) -> list[int]:
        found = sorted(
            threads for name, system, threads in self.points if (name, system) == (workload, tm)
        )
        if not found:
            raise NotMeasured(tm)
        return found

    def shared(self, workload: str, *tms: str) -> list[int]:
        """Numbers of threads that all these systems were measured with."""
        return sorted(set.intersection(*(set(self.threads(workload, tm)) for tm in tms)))

    def peak(self, workload: str, *tms: str) -> float:
        """The best of these systems at any number of threads; all of them must be there."""
        return max(
            self.at(workload, tm, threads) for tm in tms for threads in self.threads(workload, tm)
        )

    def peak_threads(self, workload: str, tm: str) -> float:
        return max(self.threads(workload, tm), key=lambda threads: self.at(workload, tm, threads))

    def best(self, workload: str, threads: int, *tms: str) -> float:
        return max(self.at(workload, tm, threads) for tm in tms)

    def mean_ratio(self, workload: str, above: str, below: str) -> float:
        return mean(
            [
                self.at(workload, above, n) / self.at(workload, below, n)
                for n in self.shared(workload, above, below)
            ]
        )

    def capacity_share(self, workload: str, tm: str, threads: int) -> float:
        """Of all attempts, those that a lack of capacity aborted."""
        point = self._point(workload, tm, threads)
        return point.aborts["capacity"] / (sum(point.commits.values()) + sum(point.aborts.values()))

    def lock_share(self, workload: str, tm: str, threads: int) -> float:
        point = self._point(workload, tm, threads)
        return point.lock_commits / sum(point.commits.values())

    def read_wait_ns(self, workload: str, tm: str, threads: int) -> float:
        """The durability wait of a read-only transaction."""
        point = self._point(workload, tm, threads)
        return point.phases_ns["ro_wait"] / sum(
            point.commits.get(kind, 0) for kind in plan.READ_ONLY
        )

    def most_read_wait(self, workload: str, tm: str) -> float:
        """Over the body of the read-only transactions, where it is longest."""
        return max(
            point.phases_ns["ro_wait"] / point.phases_ns["ro_body"]
            for point in (
                self._point(workload, tm, threads) for threads in self.threads(workload, tm)
            )
        )

    def overhead(self, workload: str, tm: str, threads: int, *phases: str) -> float:
        ns = self._point(workload, tm, threads).phases_ns
        return sum(ns[phase] for phase in phases) / plain_ns(ns)


def plain_ns(phases: dict[str, float]) -> float:
    """Updates from begin to commit, with aborted attempts, but without waiting for the lock."""
    return phases["body"] - phases.get("lock_wait", 0)


@dataclass(frozen=True)
class Fact:
    """`paper`: the paper's number; None: the paper claims an order only, `above` 1 or below."""

    figure: int
    name: str
    claim: str
    computed: Callable[[Figures], float]
    paper: float | None = None
    above: bool = True

    def agrees(self, measured: float) -> bool:
        if self.paper is None:
            return measured > 1 + LEVEL_WITHIN if self.above else measured < 1 - LEVEL_WITHIN
        return (
            abs(measured / self.paper - 1) <= AGREES_WITHIN
            and (measured - 1) * (self.paper - 1) >= 0
        )


Computed = Callable[[Figures], float]


def over(workload: str, threads: int, above: tuple[str, ...], below: tuple[str, ...]) -> Computed:
    """The best of some systems over the best of others, at a number of threads."""
    return lambda f: f.best(workload, threads, *above) / f.best(workload, threads, *below)


def peaks(workload: str, above: tuple[str, ...], below: tuple[str, ...]) -> Computed:
    return lambda f: f.peak(workload, *above) / f.peak(workload, *below)


def beyond_cores(workload: str, tm: str) -> Computed:
    """64 threads over 32, which have a core each."""
    return lambda f: f.at(workload, tm, 64) / f.at(workload, tm, 32)


def growth(workload: str, scheme: str) -> Computed:
    """Logs that 64 threads wrote over those of one."""
    return lambda f: f.at(workload, scheme, 64) / f.at(workload, scheme, 1)


def lesser_fur(workload: str) -> Computed:
    return lambda f: min(f.peak(workload, tm) for tm in FUR) / f.peak(workload, *PERSISTENT)


def durability(tm: str) -> Computed:
    """Log flush and durability wait together: systems draw the line between the two elsewhere."""
    return lambda f: f.overhead("payment", tm, 8, "log", "flush", "durability_wait")


def capacity(tm: str) -> Computed:
    return lambda f: f.capacity_share("delivery", tm, 1)


def wait_cascade(f: Figures) -> float:
    workload, tms = "orderstatus95", ("spht-sihtm", "spht")
    waits = [
        [f.read_wait_ns(workload, tm, threads) for tm in tms]
        for threads in f.shared(workload, *tms)
    ]
    ratios = [naive / plain for naive, plain in waits if plain]
    if not ratios:
        raise NotMeasured("a durability wait of spht")
    return max(ratios)


FACTS = (
    Fact(
        1,
        "htm-smt",
        "HTM falls beyond 32 threads: 64 over 32",
        beyond_cores("payment-orderstatus", "htm"),
        above=False,
    ),
    Fact(
        1,
        "spht-smt",
        "SPHT falls beyond 32 threads: 64 over 32",
        beyond_cores("payment-orderstatus", "spht"),
        above=False,
    ),
    Fact(
        1,
        "spht-waits",
        "SPHT pays for waits before that: over HTM, 32 threads",
        over("payment-orderstatus", 32, ("spht",), ("htm",)),
        above=False,
    ),
    Fact(
        1,
        "pisces-best",
        "Pisces is the best of the old: over the better of HTM and SPHT, 64 threads",
        over("payment-orderstatus", 64, ("pisces",), ("htm", "spht")),
    ),
    Fact(
        4,
        "naive-union",
        "SPHT+SI-HTM is below SPHT: peaks",
        peaks("orderstatus95", ("spht-sihtm",), ("spht",)),
        above=False,
    ),
    Fact(
        4,
        "wait-cascade",
        "SPHT+SI-HTM's readers wait up to 7 times as long for durability as SPHT's",
        wait_cascade,
        7,
    ),
    Fact(
        6,
        "stocklevel-pisces",
        "stocklevel: FUR over Pisces, 64 threads",
        over("stocklevel", 64, FUR, ("pisces",)),
        1.18,
    ),
    Fact(
        6,
        "stocklevel-specpmt",
        "stocklevel: FUR over SpecPMT, 64 threads",
        over("stocklevel", 64, FUR, ("specpmt",)),
        1.84,
    ),
    Fact(
        6,
        "stocklevel-specpmt-paper",
        "the same, SpecPMT as the paper measures it",
        over("stocklevel", 64, FUR, ("specpmt-paper",)),
        1.84,
    ),
    Fact(
        6,
        "stocklevel-htm-capacity",
        "stocklevel: HTM always aborts for capacity: share under the lock, 64 threads",
        lambda f: f.lock_share("stocklevel", "htm", 64),
        1,
    ),
    Fact(
        6,
        "stocklevel-spht-capacity",
        "stocklevel: SPHT always aborts for capacity: share under the lock, 64 threads",
        lambda f: f.lock_share("stocklevel", "spht", 64),
        1,
    ),
    Fact(
        6,
        "orderstatus-htm",
        "orderstatus: FUR over HTM, 32 threads",
        over("orderstatus", 32, FUR, ("htm",)),
        1.30,
    ),
    Fact(
        6,
        "orderstatus-spht",
        "orderstatus: FUR over SPHT, 32 threads",
        over("orderstatus", 32, FUR, ("spht",)),
        1.30,
    ),
    Fact(
        6,
        "orderstatus-htm-smt",
        "orderstatus: HTM collapses beyond 32 threads: 64 over 32",
        beyond_cores("orderstatus", "htm"),
        above=False,
    ),
    Fact(
        6,
        "orderstatus-spht-smt",
        "orderstatus: SPHT collapses beyond 32 threads: 64 over 32",
        beyond_cores("orderstatus", "spht"),
        above=False,
    ),
    Fact(
        7,
        "payment-specpmt",
        "payment: SpecPMT over the best FUR, peaks",
        peaks("payment", ("specpmt",), FUR),
        1.31,
    ),
    Fact(
        7,
        "payment-specpmt-paper",
        "the same, SpecPMT as the paper measures it",
        peaks("payment", ("specpmt-paper",), FUR),
        1.31,
    ),
    Fact(
        7,
        "payment-opacity",
        "payment: FUR opacity over SPHT, mean over threads",
        lambda f: f.mean_ratio("payment", "fur-opacity", "spht"),
        1.15,
    ),
    Fact(
        7,
        "payment-snapshot",
        "payment: FUR snapshot over SPHT, mean over threads",
        lambda f: f.mean_ratio("payment", "fur-snapshot", "spht"),
        1.13,
    ),
    Fact(
        7,
        "payment-peak",
        "payment: threads at the peak of FUR opacity",
        lambda f: f.peak_threads("payment", "fur-opacity"),
        8,
    ),
    *(
        Fact(
            7,
            f"payment-durability-{tm}",
            f"payment, 8 threads: log flush ({flush}) and durability wait ({wait}) of "
            f"{plan.SYSTEM[tm].label}, of the body",
            durability(tm),
            paper,
        )
        for tm, flush, wait, paper in (
            ("fur-opacity", "1 %", "60 to 76 %", 0.69),
            ("fur-snapshot", "1 %", "60 to 76 %", 0.69),
            ("spht", "55 %", "174 %", 2.29),
        )
    ),
    *(
        Fact(
            7,
            f"delivery-capacity-{tm}",
            f"delivery, 1 thread: attempts of {plan.SYSTEM[tm].label} aborted for capacity",
            capacity(tm),
            0.81,
        )
        for tm in FULL_HARDWARE
    ),
    Fact(
        7,
        "delivery-capacity-fur-snapshot",
        "delivery, 1 thread: attempts of FUR snapshot aborted for capacity, about half",
        capacity("fur-snapshot"),
        0.5,
    ),
    Fact(
        7,
        "delivery-software",
        "delivery: software leads full HTM up to 12 threads: the better over the best, 8 threads",
        over("delivery", 8, ("pisces", "specpmt"), FULL_HARDWARE),
    ),
    Fact(
        7,
        "delivery-snapshot",
        "delivery: FUR snapshot leads from 12 threads: over the best other, 16 threads",
        over("delivery", 16, ("fur-snapshot",), (*PERSISTENT, "fur-opacity")),
    ),
    *(
        Fact(
            8,
            f"read-dominated-{tm}",
            f"read-dominated: FUR over {plan.SYSTEM[tm].label}, peaks",
            peaks("read-dominated", FUR, (tm,)),
            paper,
        )
        for tm, paper in (
            ("spht", 3.68),
            ("pisces", 3.99),
            ("specpmt", 6.17),
            ("specpmt-paper", 6.17),
        )
    ),
    Fact(
        8,
        "read-dominated-wait",
        "read-dominated: SPHT's readers wait up to 10 times as long as they work",
        lambda f: f.most_read_wait("read-dominated", "spht"),
        10,
    ),
    Fact(
        8,
        "standard-first",
        "standard mix: FUR snapshot is first: over the best other, peaks",
        peaks("standard", ("fur-snapshot",), (*PERSISTENT, "fur-opacity")),
    ),
    *(
        Fact(
            9,
            f"tree-level-{percent}{mix}",
            f"{percent} % updates, {keys} keys: both variants are level: FUR opacity over FUR "
            "snapshot, peaks",
            peaks(f"rbtree-{percent}{mix}", ("fur-opacity",), ("fur-snapshot",)),
            1,
        )
        for mix, keys in TREE_MIXES
        for percent in (1, 10, 50)
    ),
    *(
        Fact(
            9,
            f"tree-ahead-{percent}{mix}",
            f"{percent} % updates, {keys} keys: well ahead of every persistent baseline: the "
            "lesser FUR over the best, peaks",
            lesser_fur(f"rbtree-{percent}{mix}"),
        )
        for mix, keys in TREE_MIXES
        for percent in (1, 10, 50)
    ),
    *(
        fact
        for workload, where in (("replay", ""), ("replay-order", ", write-backs at 1 ns"))
        for fact in (
            Fact(
                10,
                f"{workload}-scan",
                f"scan falls as threads grow: logs of 64 over those of 1{where}",
                growth(workload, "scan"),
                above=False,
            ),
            Fact(
                10,
                f"{workload}-linked",
                f"linked does not: 64 over 1{where}",
                growth(workload, "linked"),
                1,
            ),
            Fact(
                10,
                f"{workload}-ring",
                f"ring does not: 64 over 1{where}",
                growth(workload, "ring"),
                1,
            ),
            Fact(
                10,
                f"{workload}-level",
                f"ring and linked are level: ring over linked, 64 threads{where}",
                over(workload, 64, ("ring",), ("linked",)),
                1,
            ),
            Fact(
                10,
                f"{workload}-ahead",
                f"ring is ahead of scan: 64 threads{where}",
                over(workload, 64, ("ring",), ("scan",)),
            ),
        )
    ),
)


def read_explanations(path: Path = EXPLANATIONS) -> dict[str, str]:
    try:
        explanations = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Refused(f"{path}: {error}: correct it") from error
    known = {fact.name for fact in FACTS}
    for name, text in explanations.items():
        if name not in known or not isinstance(text, str):
            raise Refused(
                f'{path}: {name}: not a fact with its text: use NAME = "TEXT" with a name from '
                "facts.py"
            )
    return explanations


@dataclass(frozen=True)
class Comparison:
    fact: Fact
    measured: float | None
    agrees: bool | None
    why: str


def compare(points: Points, explanations: dict[str, str]) -> list[Comparison]:
    figures, comparisons = Figures(points), []
    for fact in FACTS:
        try:
            measured = fact.computed(figures)
        except NotMeasured as missing:
            comparisons.append(Comparison(fact, None, None, f"without {missing}"))
            continue
        agrees = fact.agrees(measured)
        comparisons.append(
            Comparison(
                fact,
                measured,
                agrees,
                "" if agrees else explanations.get(fact.name, "not explained yet"),
            )
        )
    return comparisons


def row(c: Comparison) -> str:
    paper = (
        f"{c.fact.paper:.3g}"
        if c.fact.paper is not None
        else "above 1"
        if c.fact.above
        else "below 1"
    )
    measured = (
        "not measured"
        if c.measured is None
        else f"{c.measured:.3g}"
        if c.agrees
        else f"**{c.measured:.3g}**"
    )
    return f"| {c.fact.claim} | {paper} | {measured} | {' '.join(c.why.split())} |"


def table(figure: plan.Figure, comparisons: list[Comparison]) -> str:
    rows = [row(c) for c in comparisons if c.fact.figure == figure.number]
    return "\n".join(
        [
            "| the paper says | paper | measured | why they differ |",
            "| --- | --- | --- | --- |",
            *rows,
        ]
    )
