# SPDX-License-Identifier: BSD-3-Clause
"""Figures 3 and 4 of the paper on PIM-TIDE: TPC-C on up to 2,048 modules, next to TinySTM on the
emulated host.  The modules of one rank run, with the transactions that they have in the whole
machine; the slowest of all modules is drawn from those.  All 2,048 run once, for the record."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from results import Fact
from tide_runs import (
    COLOURS,
    FITTED,
    LARGEST,
    MANY_LOCKS,
    MIXES,
    PROFILES,
    RANKS,
    Change,
    Mix,
    Runs,
)

BUSY_CYCLES, BYTE_CYCLES, MHZ = 33, 0.5, 350  # of upmem-sdk
WHOLE_SHARE, WHOLE_RECORDS = 15, 32  # of the run of all modules, STD
# Of the host's description: what a TPC-C transaction waits for, estimates.
ESTIMATES = {"memory": ("47.5", "190.0"), "transfer_same_socket": ("30.0", "120.0")}
ALL: dict[str, Mix] = {**MIXES, **PROFILES}


def gain(runs: Runs, mix: Mix, share: int = 0) -> float:
    """Of the largest machine over the CPU."""
    modules, cpu = runs.modules(mix, share), runs.cpu(mix, share, LARGEST)
    return float(modules["throughput"] / cpu["throughput"])


def by_trees(
    runs: Runs, mix: Mix, before: str = "", after: str = "", change: Change = None
) -> dict[str, Any]:
    """Of modules that find rows by trees, with more options."""
    return runs.modules(mix, 0, f"{before} --trees{after}", change, runs.points.few)


def gain_by_trees(runs: Runs, mix: Mix) -> float:
    cpu = runs.cpu(mix, 0, LARGEST, " --trees")
    return float(by_trees(runs, mix)["throughput"] / cpu["throughput"])


def gain_over_trees(runs: Runs, mix: Mix) -> float:
    """Of modules whose tables are arrays over a CPU that finds rows by trees."""
    cpu = runs.cpu(mix, 0, LARGEST, " --trees")
    return float(runs.modules(mix, 0)["throughput"] / cpu["throughput"])


def changed_gain(runs: Runs, mix: Mix, of_modules: Change = None, of_cpu: Change = None) -> float:
    modules = runs.modules(mix, 0, "", of_modules, runs.points.some)
    return float(modules["throughput"] / runs.cpu(mix, 0, LARGEST, "", of_cpu)["throughput"])


def of_size(result: dict[str, Any], size: int = LARGEST) -> dict[str, Any]:
    """The times of a machine with this number of modules."""
    (found,) = (each for each in result["machines"] if each["of"] == size)
    return dict(found)


def speed(runs: Runs, mix: Mix, share: int, size: int) -> float:
    return float(of_size(runs.modules(mix, share), size)["throughput"])


COLOURS_OF_SHARES = (*COLOURS, "#cc79a7")
MOST = 1000.0  # where there is no upper limit


OF_NEW_ORDER = "most of a module's time is NewOrder's, whose gain is smaller (Figure 4)"


def of_tables(profile: str) -> Callable[[Runs], str]:
    def why(runs: Runs) -> str:
        mix = PROFILES[profile]
        return (
            f"the tables: {gain_by_trees(runs, mix):.2g} if both sides find rows by trees, and "
            f"{gain_over_trees(runs, mix):.2g} if the CPU does"
        )

    return why


FACTS: tuple[Fact[[Runs]], ...] = (
    Fact(
        "3",
        "2,048 modules are faster than the CPU: the least gain",
        "above 1",
        1,
        MOST,
        lambda r: min(gain(r, m, s) for m in MIXES.values() for s in r.points.shares),
    ),
    Fact(
        "3",
        "and so are 512: the least gain",
        "above 1",
        1,
        MOST,
        lambda r: min(
            speed(r, m, s, r.points.sizes[0]) / r.cpu(m, s, r.points.sizes[0])["throughput"]
            for m in MIXES.values()
            for s in r.points.shares
        ),
        "as below: a quarter of the modules has a quarter of the gain",
    ),
    Fact("3", "STD, 0 %: gain", "6.75", 4.5, 10, lambda r: gain(r, MIXES["STD"]), OF_NEW_ORDER),
    Fact(
        "3",
        "STD, 15 %: gain",
        "6.75",
        4.5,
        10,
        lambda r: gain(r, MIXES["STD"], r.points.shares[1]),
        OF_NEW_ORDER,
    ),
    Fact("3", "CUST, 0 %: gain", "6.75", 4.5, 10, lambda r: gain(r, MIXES["CUST"]), OF_NEW_ORDER),
    Fact(
        "3",
        "CUST, 75 %: gain",
        "4.78",
        3.2,
        7.2,
        lambda r: gain(r, MIXES["CUST"], r.points.shares[-1]),
        OF_NEW_ORDER,
    ),
    Fact(
        "3",
        "STD: the gain at 75 % over that at 0 %",
        "below 1",
        0,
        1,
        lambda r: gain(r, MIXES["STD"], r.points.shares[-1]) / gain(r, MIXES["STD"]),
    ),
    Fact(
        "3",
        "CUST: the gain at 75 % over that at 0 %",
        "below 1",
        0,
        1,
        lambda r: gain(r, MIXES["CUST"], r.points.shares[-1]) / gain(r, MIXES["CUST"]),
    ),
    Fact(
        "3",
        "CUST is faster than STD: the least over all shares",
        "above 1",
        1,
        MOST,
        lambda r: min(
            speed(r, MIXES["CUST"], s, LARGEST) / speed(r, MIXES["STD"], s, LARGEST)
            for s in r.points.shares
        ),
    ),
    Fact(
        "3",
        "it scales: the least of twice the modules, over 512",
        "nearly 2",
        1.7,
        2.2,
        lambda r: min(scaling(r, m, s) for m in MIXES.values() for s in r.points.shares),
    ),
    Fact(
        "4",
        "OrderStatus: gain",
        "above 10",
        7,
        MOST,
        lambda r: gain(r, PROFILES["OrderStatus"]),
        of_tables("OrderStatus"),
    ),
    Fact(
        "4",
        "NewOrder: gain",
        "about 9",
        6,
        13,
        lambda r: gain(r, PROFILES["NewOrder"]),
        of_tables("NewOrder"),
    ),
    Fact(
        "4",
        "Payment: gain",
        "below 2",
        0,
        2.5,
        lambda r: gain(r, PROFILES["Payment"]),
        of_tables("Payment"),
    ),
    Fact(
        "4",
        "OrderStatus gains more than NewOrder: by",
        "above 1",
        1,
        MOST,
        lambda r: gain(r, PROFILES["OrderStatus"]) / gain(r, PROFILES["NewOrder"]),
    ),
    Fact(
        "4",
        "NewOrder gains more than Payment: by",
        "above 1",
        1,
        MOST,
        lambda r: gain(r, PROFILES["NewOrder"]) / gain(r, PROFILES["Payment"]),
        "as the two above",
    ),
)


LOG_FACT: Fact[[Runs]] = Fact(
    "log",
    "with the command log over without: the least of all below",
    "0.9 or more",
    0.9,
    1,
    lambda r: min(kept(r.logged(m, s)) for m in MIXES.values() for s in logged_shares(r)),
)


def logged_shares(runs: Runs) -> tuple[int, ...]:
    shares = runs.points.shares
    return tuple(dict.fromkeys((shares[0], shares[1], shares[-1])))


def kept(logged: dict[str, Any]) -> float:
    """Of the throughput without a log"""
    return float(logged["throughput"] / logged["unlogged_throughput"])


def scaling(runs: Runs, mix: Mix, share: int) -> float:
    """From the smallest machine to the next one, by a doubling."""
    small, large = runs.points.sizes[:2]
    ratio = speed(runs, mix, share, large) / speed(runs, mix, share, small)
    return float(ratio ** (1 / log2(large / small)))


# -------------------------------------------------------------------------- drawing


def draw_mixes(runs: Runs, path: Path) -> None:
    canvas, grid = pyplot.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
    xs = runs.points.sizes
    for axes, (name, mix) in zip(grid, MIXES.items()):
        for k, share in enumerate(runs.points.shares):
            style = {"color": COLOURS_OF_SHARES[k], "marker": "osv^"[k]}
            modules = [speed(runs, mix, share, n) / 1e6 for n in xs]
            axes.plot(xs, modules, label=f"{share} % remote", **style)
            cpu = [runs.cpu(mix, share, n)["throughput"] / 1e6 for n in xs]
            axes.plot(xs, cpu, linestyle="--", **style)
        axes.set(title=f"{name}: modules, and the CPU (dashed)", xlabel="modules")
        axes.set_xticks(xs)
    grid[0].set_ylim(0, None)  # of both
    grid[0].set_ylabel("million transactions a second")
    grid[0].legend(frameon=False)
    canvas.savefig(path)
    pyplot.close(canvas)


def draw_profiles(runs: Runs, path: Path) -> None:
    canvas, axes = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    gains = {
        "arrays": [gain(runs, mix) for mix in PROFILES.values()],
        "trees": [gain_by_trees(runs, mix) for mix in PROFILES.values()],
    }
    for k, (label, found) in enumerate(gains.items()):
        places = [x + (k - 0.5) * 0.36 for x in range(len(found))]
        bars = axes.bar(places, found, 0.34, color=COLOURS[k], label=f"rows by {label}")
        axes.bar_label(bars, [f"{each:.2g}" for each in found])
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(PROFILES)), list(PROFILES))
    axes.set(ylabel=f"{LARGEST:,} modules over the CPU")
    axes.legend(frameon=False)
    canvas.savefig(path)
    pyplot.close(canvas)


FIGURES: dict[int, Callable[[Runs, Path], None]] = {3: draw_mixes, 4: draw_profiles}

# --------------------------------------------------------------------------- tables


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fact_row(fact: Fact[[Runs]], runs: Runs) -> str:
    measured = fact.computed(runs)
    why = fact.explained(measured, runs)
    return f"| {fact.claim} | {fact.paper} | {fact.shown(measured)} | {why} |"


def fact_table(figure: str, runs: Runs) -> str:
    head = "| the paper says | paper | mended | why they differ |\n" + "| --- " * 4 + "|\n"
    return head + "\n".join(fact_row(fact, runs) for fact in FACTS if fact.figure == figure)


def throughput_table(runs: Runs) -> str:
    rows = []
    for name, mix in MIXES.items():
        for size in runs.points.sizes:
            found = [
                f"{speed(runs, mix, s, size) / 1e6:.1f} / "
                f"{runs.cpu(mix, s, size)['throughput'] / 1e6:.1f}"
                for s in runs.points.shares
            ]
            rows.append([f"{name}, {size:,} modules", *found])
    return table(["remote payments", *(f"{s} %" for s in runs.points.shares)], rows)


def profile_row(name: str, r: dict[str, Any]) -> list[str]:
    """Where the cycles of the modules go, and the time of a batch."""
    cycles = r["mean_us"] * MHZ * r["modules"] * r["batches"]
    engine = BUSY_CYCLES * r["transfers"] + BYTE_CYCLES * r["transferred_bytes"]
    done = r["transactions"] / LARGEST * r["modules"]
    machine = of_size(r)
    copies = (machine["copies_us"] + machine["handing_us"]) / machine["batch_us"]
    return [
        name,
        f"{1 / (1 - r['abort_rate']):.1f}",
        f"{r['instructions'] / done:,.0f}",
        f"{r['transfers'] / done:.0f}",
        f"{r['instructions'] / cycles:.0%}",
        f"{engine / cycles:.0%}",
        f"{machine['slowest_us'] / r['mean_us']:.2f}",
        f"{copies:.1%}",
    ]


def one_tasklet(runs: Runs, profile: str) -> dict[str, Any]:
    return runs.modules(PROFILES[profile], 0, " --tasklets 1", ran=runs.points.few)


def profile_table(runs: Runs) -> str:
    head = (
        "",
        "attempts",
        "instructions",
        "transfers",
        "cycles with an instruction",
        "with the engine busy",
        "slowest module over the mean",
        "of a batch: copies",
    )
    rows = [profile_row(name, runs.modules(mix, 0)) for name, mix in ALL.items()]
    rows += [
        profile_row(f"{name}, one tasklet", one_tasklet(runs, name))
        for name in ("Payment", "NewOrder")
    ]
    rows += [profile_row(f"{name}, trees", by_trees(runs, mix)) for name, mix in PROFILES.items()]
    return table(head, rows)


def tree_table(runs: Runs) -> str:
    rows = []
    for name, mix in PROFILES.items():
        for rows_by, modules, cpu in (
            ("arrays", runs.modules(mix, 0), runs.cpu(mix, 0, LARGEST)),
            ("trees", by_trees(runs, mix), runs.cpu(mix, 0, LARGEST, " --trees")),
        ):
            rows.append(
                [
                    f"{name}, {rows_by}",
                    f"{modules['throughput'] / 1e6:.3g}",
                    f"{cpu['throughput'] / 1e6:.3g}",
                    f"{modules['abort_rate']:.1%}",
                    f"{cpu['abort_rate']:.1%}",
                ]
            )
    head = ("million transactions a second", "modules", "CPU", "aborts: modules", "CPU")
    return table(head, rows)


def tables_table(runs: Runs) -> str:
    rows = []
    for name, mix in ALL.items():
        both = f"{gain_by_trees(runs, mix):.2g}" if name in PROFILES else ""
        rows.append([name, f"{gain(runs, mix):.2g}", both, f"{gain_over_trees(runs, mix):.2g}"])
    head = ("gain", "arrays", "trees", "arrays over the CPU's trees")
    return table(head, rows)


def sensitivity_table(runs: Runs) -> str:
    rows = []
    for name, mix in ALL.items():
        changes = [("busy_cycles", str(FITTED[each])) for each in ("half", "double")]
        found = [changed_gain(runs, mix)]
        found += [changed_gain(runs, mix, of_modules=change) for change in changes]
        for key, values in ESTIMATES.items():
            found += [changed_gain(runs, mix, of_cpu=(key, value)) for value in values]
        rows.append([name, *(f"{each:.3g}" for each in found)])
    head = ["gain", "as it is", "`busy_cycles` half", "double"]
    for key in ESTIMATES:
        head += [f"`{key}` half", "double"]
    return table(head, rows)


@dataclass(frozen=True)
class Whole:
    """All ranks of the largest machine, one after the other, with a small batch."""

    ranks: list[dict[str, Any]]

    @staticmethod
    def of(runs: Runs) -> Whole:
        firsts = range(0, LARGEST, runs.points.rank)
        mix = MIXES["STD"]
        return Whole(
            [
                runs.modules(mix, WHOLE_SHARE, f" --first {first}", records=WHOLE_RECORDS)
                for first in firsts
            ]
        )

    def slowest_us(self) -> float:
        return float(max(r["slowest_seen_us"] for r in self.ranks))

    def throughput(self) -> float:
        one = of_size(self.ranks[0])
        batch_us = self.slowest_us() + float(one["copies_us"] + one["handing_us"])
        return float(self.ranks[0]["transactions"] * 1e6 / batch_us)

    def mean_us(self) -> float:
        return float(sum(r["mean_us"] for r in self.ranks) / len(self.ranks))


def whole_text(runs: Runs) -> str:
    if not runs.points.whole:
        return ""
    whole = Whole.of(runs)
    sampled = [float(r["throughput"]) for r in whole.ranks]
    slowest = [float(of_size(r)["slowest_us"]) / 1000 for r in whole.ranks]
    ratios = [each / whole.throughput() for each in sampled]
    mean = [float(r["mean_us"]) / 1000 for r in whole.ranks]
    rows = [
        ["mean module: ms", f"{min(mean):.1f} to {max(mean):.1f}", f"{whole.mean_us() / 1000:.1f}"],
        [
            "slowest module: ms",
            f"{min(slowest):.1f} to {max(slowest):.1f}",
            f"{whole.slowest_us() / 1000:.1f}",
        ],
        [
            "million transactions a second",
            f"{min(sampled) / 1e6:.1f} to {max(sampled) / 1e6:.1f}",
            f"{whole.throughput() / 1e6:.1f}",
        ],
    ]
    return f"""
All 2,048 modules ran once, for the record, rank after rank: STD with {WHOLE_SHARE} % remote
payments, one batch of {whole.ranks[0]["transactions"]:,} transactions, {WHOLE_RECORDS} instead of
128 a tasklet.

{table(["", "sampled, by each rank alone", "all"], rows)}

So a sampled number of modules is {min(ratios):.2f} to {max(ratios):.2f} of the true one: the
slowest of all is slower than the slowest of a rank. Customers of all modules together paid what
their warehouses received ({sum(r["paid"] for r in whole.ranks):,}).
"""


def of_mean_module(runs: Runs, mix: Mix) -> float:
    """The gain, if a batch ended with the mean module."""
    r = runs.modules(mix, 0)
    machine = of_size(r)
    of_mean = machine["batch_us"] - machine["slowest_us"] + r["mean_us"]
    return gain(runs, mix) * float(machine["batch_us"] / of_mean)


def over_eleven(runs: Runs, before: str, after: str = "", change: Change = None) -> float:
    """NewOrder with trees and more options over the same without them."""
    new_order = PROFILES["NewOrder"]
    changed = by_trees(runs, new_order, before, after, change)
    return float(changed["throughput"] / by_trees(runs, new_order)["throughput"])


def instructions(result: dict[str, Any]) -> str:
    done = result["transactions"] / LARGEST * result["modules"]
    return f"{result['instructions'] / done:,.0f}"


def figures_text(runs: Runs) -> str:
    return f"""## Figure 3. TPC-C on many modules, and payments of two of them

![Figure 3](pim-tide-figure-3.png)

STD is 44 % Payment, 43 % NewOrder and 13 % OrderStatus; CUST is 25, 25 and 50 %. A module has a
warehouse. Numbers of modules are *sampled*: {runs.points.rank} modules, one rank, run a batch, with
the transactions that they have in a machine of 2,048. A batch ends with the slowest module of all.
Its time is that of the largest of 2,048 draws from the times of those that ran, on average; or of
512 or 1,024. The host copies to all ranks at once, and ranks on one channel wait for each other. It
makes a batch while another one runs, as in the paper, at no time.

The CPU is the emulated `xeon-5320` with 52 threads and a warehouse for each module. `tide-cpu` runs
the same transactions. Its transactional memory stands for TinySTM: it is libfur's `specpmt`
baseline without its log.

{fact_table("3", runs)}

Million transactions a second, of modules / of the CPU:

{throughput_table(runs)}
{whole_text(runs)}
## Figure 4. 2,048 modules over the CPU, by transaction

![Figure 4](pim-tide-figure-4.png)

{fact_table("4", runs)}
"""


def tables_text(runs: Runs) -> str:
    many = over_eleven(runs, "", " --many-locks", ("scratch_bytes", "524288"))
    return f"""**Rows by trees.** The tables of TPC-C are arrays here. In the ports that the paper
builds on they are trees; its Algorithm 2 finds rows in arrays. With `--trees` a transaction looks
for each customer, order and item of stock in a search tree first, node by node, by its
transactional memory. Nothing is inserted. ({runs.points.few} modules run.)

{tree_table(runs)}

{tables_table(runs)}

A search costs the CPU lines that are in no cache, and a module words that are as near as all its
others. So the tables decide more than anything else. With trees on both sides OrderStatus and
Payment gain what they gain in the paper. NewOrder does so if only the CPU has them, and the mixes
gain more than in the paper then. No single choice gives all three.

NewOrder with trees reads 400 words. Each of the 10 other tasklets has taken up to 33 of 8,192
locks, and a reader of 400 words meets one of them nearly always, although the words differ. One
tasklet, which meets none, is {over_eleven(runs, " --tasklets 1"):.2f} times as fast as eleven. With
{MANY_LOCKS:,} locks, which need a scratchpad of 512 KiB that no DPU has, eleven are
{many:.2f} times as fast as with 8,192.
"""


def why_text(runs: Runs) -> str:
    std = MIXES["STD"]
    payment, new_order = (runs.modules(PROFILES[p], 0) for p in ("Payment", "NewOrder"))
    return f"""## Why Figures 3 and 4 differ

Four measurements. None of them was used to change a value.

{tables_text(runs)}
**Where the time goes**, of the modules, at 2,048 and 0 %. Instructions and transfers are those of a
committed transaction, with all its attempts:

{profile_table(runs)}

OrderStatus fills the pipeline. Payment and NewOrder fill it as well, but with attempts that fail
and with waits: one tasklet, whose attempts all succeed, executes
{instructions(one_tasklet(runs, "Payment"))} and {instructions(one_tasklet(runs, "NewOrder"))}
instructions a transaction, and eleven {instructions(payment)} and {instructions(new_order)}.
Their attempts meet in the rows of the warehouse and its districts. So do the paper's, with abort
rates above 90 % and 80 %.

**The slowest module.** If a batch ended with the mean module, STD would gain
{of_mean_module(runs, std):.2g} instead of {gain(runs, std):.2g}.

**Values of the machines.** Half and double of `busy_cycles` (its double cut to 61), the only value
that was fitted, and of two estimates of the host's description: the latency of its memory, and of a
line that another core has written. {runs.points.some} modules run, of which the slowest varies by
a tenth with any change.

{sensitivity_table(runs)}

Payment on the CPU waits for one line, the clock of its transactional memory. OrderStatus waits for
the memory. The emulated CPU has no misses of the TLB, and its memory no limit of bandwidth: a real
one is slower, above all where it touches gigabytes at random.
"""


def page(runs: Runs) -> str:
    return figures_text(runs) + "\n" + why_text(runs)


def log_row(name: str, r: dict[str, Any]) -> list[str]:
    return [
        name,
        f"{r['batch_us'] / 1000:.1f}",
        f"{r['log_bytes'] / 1e6:.0f}",
        f"{r['parts_us'] / 1000:.1f}",
        f"{r['turns_us'] / 1000:.2f}",
        f"{r['unlogged_throughput'] / 1e6:.1f}",
        f"{r['throughput'] / 1e6:.1f}",
        f"{kept(r):.3f}",
    ]


def turns_text(usual: dict[str, Any], alone: dict[str, Any]) -> str:
    usual_ms, alone_ms = (r["turns_us"] / 1000 for r in (usual, alone))
    return (
        f"A thread keeps its turns in {alone_ms:.2f} ms if it has a core of its own, as the only "
        f"rank of\n`--of {alone['of']}` has. Two threads of a core take longer, {usual_ms:.2f} ms, "
        f"and the slowest counts: {RANKS} ranks\nrun on 26 cores "
        "([notes](../benchmarks-notes.md#pim-tide-the-turns-of-the-log)). A turn has 4 bytes,\n"
        "and a distributed part has none: with more remote payments there are fewer of them."
    )


def log_text(runs: Runs) -> str:
    std, share = MIXES["STD"], runs.points.shares[1]
    rows = [
        log_row(f"{name}, {s} %", runs.logged(mix, s))
        for name, mix in MIXES.items()
        for s in logged_shares(runs)
    ]
    usual = runs.logged(std, share)
    after = usual["batch_us"] / (usual["batch_us"] + usual["parts_us"] + usual["turns_us"])
    slow = runs.logged(std, share, "", ("write_gap_ns", "200"))
    head = (
        "2,048 modules",
        "a batch: ms",
        "logged: MB",
        "parts: ms",
        "turns: ms",
        "without, million a second",
        "with",
        "over it",
    )
    ways = [
        ["as above", f"{kept(usual):.3f}"],
        ["parts and turns are kept when the modules have ended", f"{after:.3f}"],
        [
            "one heap for the logs of all ranks (`--one-heap`)",
            f"{kept(runs.logged(std, share, ' --one-heap')):.3f}",
        ],
        [
            "a thread writes back a line each 200 ns at most, all of them 10 GB/s",
            f"{kept(slow):.3f}",
        ],
    ]
    return f"""## New. Throughput with the command log

    build/lab/tide/tide-log --payment 44 --new-order 43 --remote 15 --verify

The paper has no log. Here a heap of libfur for each rank keeps a command log. A rank's thread
appends the parts of a batch while the modules execute them, and their turns when the modules have
ended; then results are released. Both appends, with their write-backs and the wait until they are
durable, run on the emulated `xeon-5320`, all ranks at once, each with what the sampled rank has.
The slowest thread counts: a batch takes as long as the slowest module or the parts, whichever is
longer, then the copies, and the turns. The log of each of these runs was replayed, and gave the
same data.

| throughput | accepted | measured | why they differ |
| --- | --- | --- | --- |
{fact_row(LOG_FACT, runs)}

{table(head, rows)}

{turns_text(usual, runs.logged(std, share, ranks=1))}

STD, {share} %, other ways:

{table(("with the log, over without", ""), ways)}

A block of the log is larger than a redo log, so an update appends it with its heap's turn to
publish: in one heap the ranks append one after the other. The emulated persistent memory has no
limit of bandwidth; the last row has one.
"""


def recovery_text(runs: Runs) -> str:
    rows = []
    for name, mix in MIXES.items():
        share = runs.points.shares[1]
        first = of_size(runs.modules(mix, share))["batch_us"]
        again = of_size(runs.modules(mix, share, " --deterministic"))["batch_us"]
        rows.append(
            [
                f"{name}, {share} %",
                f"{first / 1000:.1f}",
                f"{again / 1000:.1f}",
                f"{1e6 / again:.3g}",
            ]
        )
    head = ("2,048 modules", "a batch at first: ms", "in recovery: ms", "batches a second")
    return f"""## New. Recovery

The log brings the modules' data back. Recovery executes the batches again, in the logged order also
the local transactions:

{table(head, rows)}
"""
