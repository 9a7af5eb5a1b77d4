# SPDX-License-Identifier: BSD-3-Clause
"""Figures of the paper on PIM-TIDE, transactions over the modules of a near-memory machine: an
access to 8 bytes (section 3.1), TPC-C on up to 2,048 modules (Figures 3 and 4, tide_machine.py),
Bank with and without an order (Figure 6), and one module with 1 to 11 tasklets (Figure 7).  The
page names what is missing.

The results are pim-tide.jsonl, the journal, with a run and its command on each line; pim-tide.md,
the page; a picture a figure."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from matplotlib import pyplot

import tide_machine
from charts import STYLE
from results import Fact, Refused, recall, write_atomically, write_journal
from tide_runs import (
    ACCESS,
    COLOURS,
    CPU_PROGRAM,
    FITTED,
    LOCAL,
    LOCKS,
    LOG_PROGRAM,
    MENDED,
    MOST_TASKLETS,
    PRINTED,
    PROFILES,
    PROGRAM,
    QUICK,
    USUAL,
    Points,
    Runs,
    Way,
)

# ---------------------------------------------------------------------------- facts


def rises(values: Iterable[float]) -> float:
    """The least step from one value to the next."""
    all_values = list(values)
    return min(b - a for a, b in zip(all_values, all_values[1:]))


AGAIN = "a part runs again and again while the next ones wait for its turn (below)"
# Computed by the variant; one about local transactions alone has the same number for both.
FACTS: tuple[Fact[[Runs, str]], ...] = (
    Fact(
        "text",
        "8 bytes of the module's own memory: ns",
        "231",
        231 * 0.95,
        231 * 1.05,
        lambda r, _: float(r.measured(ACCESS)["own_ns"]),
    ),
    Fact(
        "text",
        "8 bytes of another module, through the CPU: us",
        "331",
        150,
        500,
        lambda r, _: float(r.measured(ACCESS)["another_us"]),
    ),
    Fact(
        "6",
        "small transactions: local over deterministic, 2 accounts",
        "about 1.1",
        1.03,
        1.2,
        lambda r, mode: r.gain(mode, r.points.accounts[0]),
        AGAIN,
    ),
    Fact(
        "6",
        "large ones: local over deterministic, 50 accounts",
        "up to 1.5",
        1.3,
        1.7,
        lambda r, mode: r.gain(mode, r.points.accounts[-2]),
        AGAIN,
    ),
    Fact(
        "6",
        "the largest: local over deterministic, 100 accounts",
        "up to 1.5",
        1.3,
        1.7,
        lambda r, mode: r.gain(mode, r.points.accounts[-1]),
        "98 of 100 local attempts fail here, and none of them has the right of way; of ordered "
        "ones the first always has it. With eight times the locks local ones are ahead (below)",
    ),
    Fact(
        "6",
        "the abort rate of local transactions rises: the least step",
        "above 0",
        0,
        1,
        lambda r, _: rises(r.aborts(LOCAL, n) for n in r.points.accounts),
    ),
    Fact(
        "6",
        "the abort rate of deterministic ones rises: the least step",
        "above 0",
        0,
        1,
        lambda r, mode: rises(r.aborts(mode, n) for n in r.points.accounts),
    ),
    Fact(
        "6",
        "deterministic ones abort more at large sizes: 50 accounts, the difference",
        "above 0",
        0,
        1,
        lambda r, mode: r.aborts(mode, r.points.accounts[-2])
        - r.aborts(LOCAL, r.points.accounts[-2]),
    ),
    Fact(
        "6",
        "and slightly less at small ones: 2 accounts, the difference",
        "below 0",
        -1,
        0,
        lambda r, mode: r.aborts(mode, r.points.accounts[0])
        - r.aborts(LOCAL, r.points.accounts[0]),
        "a part that waits for its turn keeps its locks, and others meet them; with 4 tasklets "
        "fewer wait, and ordered ones abort less (below)",
    ),
    Fact(
        "7",
        "OrderStatus, local: 11 tasklets over one",
        "nearly linear",
        7,
        11.5,
        lambda r, _: r.scaling(LOCAL, "OrderStatus"),
    ),
    Fact(
        "7",
        "OrderStatus, deterministic: 11 tasklets over one",
        "nearly linear",
        7,
        11.5,
        lambda r, mode: r.scaling(mode, "OrderStatus"),
    ),
    Fact(
        "7",
        "OrderStatus, 11 tasklets: deterministic over local",
        "alike",
        0.9,
        1.1,
        lambda r, mode: float(
            r.tpcc(mode, "OrderStatus", MOST_TASKLETS)["throughput"]
            / r.tpcc(LOCAL, "OrderStatus", MOST_TASKLETS)["throughput"]
        ),
    ),
    Fact(
        "7",
        "Payment, local: 11 tasklets over one",
        "flat",
        0.8,
        1.3,
        lambda r, _: r.scaling(LOCAL, "Payment"),
    ),
    Fact(
        "7",
        "Payment, deterministic: 11 tasklets over one",
        "falls",
        0,
        0.9,
        lambda r, mode: r.scaling(mode, "Payment"),
        "it falls, but less than by the tenth that is accepted",
    ),
    Fact(
        "7",
        "Payment, 11 tasklets, local: abort rate",
        "above 0.9",
        0.8,
        1,
        lambda r, _: r.tpcc_aborts(LOCAL, "Payment"),
    ),
    Fact(
        "7",
        "Payment, 11 tasklets, deterministic: abort rate",
        "above 0.9",
        0.8,
        1,
        lambda r, mode: r.tpcc_aborts(mode, "Payment"),
    ),
    Fact(
        "7",
        "NewOrder, local: 11 tasklets over one",
        "limited",
        0,
        2,
        lambda r, _: r.scaling(LOCAL, "NewOrder"),
        "rows lie in arrays here; if they are found by trees, eleven tasklets are slower than one "
        "(*Rows by trees*)",
    ),
    Fact(
        "7",
        "NewOrder, deterministic: 11 tasklets over one",
        "limited",
        0,
        2,
        lambda r, mode: r.scaling(mode, "NewOrder"),
        "as for local ones",
    ),
    Fact(
        "7",
        "NewOrder, 11 tasklets, local: abort rate",
        "above 0.8",
        0.7,
        1,
        lambda r, _: r.tpcc_aborts(LOCAL, "NewOrder"),
    ),
    Fact(
        "7",
        "NewOrder, 11 tasklets, deterministic: abort rate",
        "above 0.8",
        0.7,
        1,
        lambda r, mode: r.tpcc_aborts(mode, "NewOrder"),
    ),
)
MODES = ((LOCAL, "local", "o"), (PRINTED, "deterministic, as published", "s"))
MODES_ALL = (*MODES, (MENDED, "deterministic, mended", "^"))


# -------------------------------------------------------------------------- drawing


def draw_bank(runs: Runs, path: Path) -> None:
    canvas, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    xs = runs.points.accounts
    for k, (mode, label, marker) in enumerate(MODES_ALL):
        if mode != LOCAL:
            gains = [runs.gain(mode, n) for n in xs]
            left.plot(xs, gains, color=COLOURS[k], marker=marker, label=label)
        rates = [runs.aborts(mode, n) for n in xs]
        right.plot(xs, rates, color=COLOURS[k], marker=marker, label=label)
    left.set(title="Local over deterministic", xlabel="accounts", xscale="log", ylabel="speed-up")
    right.set(title="Abort rate", xlabel="accounts", xscale="log", ylim=(0, 1))
    for axes in (left, right):
        axes.set_xticks(xs, [str(x) for x in xs])
        axes.minorticks_off()
        axes.legend(frameon=False)
    canvas.savefig(path)
    pyplot.close(canvas)


def draw_profiles(runs: Runs, path: Path) -> None:
    canvas, grid = pyplot.subplots(2, 3, figsize=(11, 6), layout="constrained", sharex=True)
    xs = runs.points.tasklets
    for column, profile in enumerate(PROFILES):
        for k, (mode, label, marker) in enumerate(MODES_ALL):
            found = [runs.tpcc(mode, profile, n) for n in xs]
            style = {"color": COLOURS[k], "marker": marker, "label": label}
            grid[0][column].plot(xs, [r["throughput"] / 1000 for r in found], **style)
            grid[1][column].plot(xs, [r["abort_rate"] for r in found], **style)
        grid[0][column].set(title=profile, ylim=(0, None))
        grid[1][column].set(xlabel="tasklets", ylim=(0, 1))
    grid[0][0].set_ylabel("thousand transactions a second")
    grid[1][0].set_ylabel("abort rate")
    grid[0][0].legend(frameon=False)
    canvas.savefig(path)
    pyplot.close(canvas)


# --------------------------------------------------------------------------- page


def fact_table(figure: str, runs: Runs) -> str:
    rows = [
        "| the paper says | paper | as published | mended | why they differ |",
        "| --- " * 5 + "|",
    ]
    for fact in FACTS:
        if fact.figure == figure:
            numbers = {mode: fact.computed(runs, mode) for mode in (PRINTED, MENDED)}
            cells = " | ".join(fact.shown(n) for n in numbers.values())
            # The reason, or nothing, for either
            why = {fact.explained(n, runs, mode) for mode, n in numbers.items()}
            rows.append(f"| {fact.claim} | {fact.paper} | {cells} | {max(why)} |")
    return "\n".join(rows)


SENSITIVE: tuple[tuple[str, Callable[[Runs, str], float]], ...] = (
    ("Bank, 2 accounts: local over ordered, as published", lambda r, b: r.gain(PRINTED, 2, b)),
    ("Bank, 2 accounts: local over ordered, mended", lambda r, b: r.gain(MENDED, 2, b)),
    ("OrderStatus, local: 11 tasklets over one", lambda r, b: r.scaling(LOCAL, "OrderStatus", b)),
    ("Payment, local: 11 tasklets over one", lambda r, b: r.scaling(LOCAL, "Payment", b)),
    ("NewOrder, local: 11 tasklets over one", lambda r, b: r.scaling(LOCAL, "NewOrder", b)),
)


def sensitivity_table(runs: Runs) -> str:
    rows = ["| | half | as it is | double |", "| --- " * 4 + "|"]
    for name, computed in SENSITIVE:
        values = [computed(runs, b) for b in (str(FITTED["half"]), "", str(FITTED["double"]))]
        rows.append(f"| {name} | " + " | ".join(f"{v:.3g}" for v in values) + " |")
    return "\n".join(rows)


WAYS = {
    "11 tasklets": USUAL,
    "8": Way(" --tasklets 8"),
    "4": Way(" --tasklets 4"),
    "11, 65,536 locks": LOCKS,
}


def ways_table(runs: Runs) -> str:
    """Of Figure 6, by tasklets and locks."""
    rows = []
    for n in (runs.points.accounts[0], *runs.points.accounts[-2:]):
        for mode, name in ((PRINTED, "as published"), (MENDED, "mended")):
            gains = [f"{runs.gain(mode, n, way=way):.2f}" for way in WAYS.values()]
            more = [
                f"{100 * (runs.aborts(mode, n, way) - runs.aborts(LOCAL, n, way)):+.1f}"
                for way in WAYS.values()
            ]
            rows.append([f"{n} accounts, {name}", *gains, *more])
    titles = list(WAYS)
    head = ["", f"local over ordered: {titles[0]}", *titles[1:]]
    head += [f"more aborts of ordered, %: {titles[0]}", *titles[1:]]
    return tide_machine.table(head, rows)


def cycles(result: dict[str, Any]) -> float:
    """Of the module's processor, between two commits"""
    return float(result["kernel_us"] * 350 / result["transactions"])


def large_text(runs: Runs) -> str:
    n = runs.points.accounts[-2]
    one = cycles(runs.bank(MENDED, n, way=Way(" --tasklets 1")))
    eleven, local = (cycles(runs.bank(mode, n)) for mode in (MENDED, LOCAL))
    return (
        f"With {n} accounts, one tasklet alone takes {one:,.0f} cycles for an ordered transaction. "
        f"Of eleven,\nmended, one commits each {eleven:,.0f} cycles: a part that is told to roll "
        "back runs again, and all\nbehind it wait for its turn. Local ones commit each "
        f"{local:,.0f} cycles."
    )


def turn_cycles(runs: Runs, mode: str) -> float:
    return cycles(runs.bank(mode, runs.points.accounts[0]))


def small_aborts(runs: Runs, mode: str) -> float:
    return runs.aborts(mode, runs.points.accounts[0])


def cells(runs: Runs, value: Callable[[Runs, str], float], form: str) -> str:
    return " | ".join(format(value(runs, mode), form) for mode in (LOCAL, PRINTED, MENDED))


MISSING = """## Missing

- **Figures 3 and 4, as published**: a mix of local and distributed transactions does not end on
  some module, for no part reaches a rank that local transactions have moved
  (`TideAsPublished.ARankThatNobodyReaches`).
- **Figure 5** (energy): not reproduced. It is the speed-up times two constants of power.
- **Runs again**: those of all 2,048 modules, and those with the log but for the one of a rank
  alone, are of a kernel whose parts validated at their turns what they hold. Figure 3's runs
  changed by less than a hundredth when it stopped to, and recovery's by three.
"""


def page(runs: Runs) -> str:
    return f"""# Figures of the paper on PIM-TIDE, measured

    lab/figures/figures.py --paper pim-tide

"Accelerating Transactional Execution via Processing-In-Memory", EuroSys 2026. Emulated upmem-sdk,
virtual time ([near](../../lab/near/README.md)); the system is
[lab/tide](../../lab/tide/README.md). *As published* numbers and commits as the paper and its host
do, and is not serialisable; *mended* is. A number of local transactions is that of both. A number
in bold is outside of what is accepted. Instructions are those of RV32: a DPU's may differ by a
third, so ratios count and no absolute number does.

## Section 3.1. An access to 8 bytes

{fact_table("text", runs)}

No value was fitted to either: 231 ns are PrIM's 77 cycles and half a cycle a byte; most of the
other is three times 67 us, OLTPim's time to hand a module's memory over.

{tide_machine.page(runs)}
## Figure 6. Bank, 200,000 accounts

![Figure 6](pim-tide-figure-6.png)

{fact_table("6", runs)}

| 2 accounts | local | as published | mended |
| --- | --- | --- | --- |
| cycles of the module between two commits | {cells(runs, turn_cycles, ".0f")} |
| attempts that abort | {cells(runs, small_aborts, ".1%")} |

By the tasklets, and with eight times the locks, for which no DPU has room:

{ways_table(runs)}

{large_text(runs)}

## Figure 7. One module, 1 to 11 tasklets

![Figure 7](pim-tide-figure-7.png)

A tasklet has {runs.points.records} transactions, as many as a batch can give it.

{fact_table("7", runs)}

{tide_machine.log_text(runs)}
{tide_machine.recovery_text(runs)}
## Sensitivity

`busy_cycles` of the modules' memory is the only value that was fitted, to random accesses of PrIM.
The same numbers with half of it, and with its double (61, the most that a write leaves room for):

{sensitivity_table(runs)}

{MISSING}"""


FIGURES: dict[int, Callable[[Runs, Path], None]] = {
    **tide_machine.FIGURES,
    6: draw_bank,
    7: draw_profiles,
}


def present(runs: Runs, out: Path) -> None:
    with pyplot.rc_context(STYLE):
        for number, draw in FIGURES.items():
            draw(runs, out / f"pim-tide-figure-{number}.png")
    write_atomically(out / "pim-tide.md", page(runs))


def is_good(result: dict[str, Any]) -> bool:
    return bool(result["verified"])


def make(build: Path, out: Path, quick: bool, plot_only: bool) -> None:
    """Measures, unless only to draw, and writes results, page and pictures.  What the journal has
    is not measured again: remove it after a change of the programs."""
    journal = out / "pim-tide.jsonl"
    for program in () if plot_only else (PROGRAM, CPU_PROGRAM, LOG_PROGRAM):
        if not os.access(build / program, os.X_OK):
            raise Refused(f"{build / program}: no such program: build with -Dlab=true")
    known = recall(journal, is_good) if plot_only or journal.exists() else {}
    if not plot_only:
        write_journal(journal, known)  # without a line that a kill cut short
    present(Runs(QUICK if quick else Points(), known, None if plot_only else build, journal), out)
