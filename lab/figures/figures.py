#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# The system's python3, not one that comes first in PATH: the package python3-matplotlib is for it.
"""Re-make a paper's figures: run the benchmarks, draw, and compare with the paper. It is the FUR
paper unless --paper names another; the rest of this text is about the FUR paper.

The results are files in a directory: runs.jsonl, the journal of finished runs, from which a stopped
measurement continues; a PNG for each figure; figures.md, with tables of the paper's facts next to
the measured values. Pictures and page are written when a figure is complete. Runs that differ only
in what loading does not fix share it, whatever their figures.
"""
from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

try:
    import matplotlib  # noqa: F401
except ImportError:
    print(
        "figures.py: matplotlib is not there: apt-get install python3-matplotlib", file=sys.stderr
    )
    sys.exit(2)

import plan  # first: it lets the modules of bench/common be found
import ccslt
import facts
import oltpim
import plots
import pul
import tide
from results import (
    Failure,
    Journal,
    Points,
    Programs,
    Record,
    Refused,
    Runner,
    gather,
    write_atomically,
)

ROOT = Path(__file__).resolve().parents[2]


def numbers(text: str) -> list[int]:
    try:
        values = sorted({int(part) for part in text.split(",")})
    except ValueError:
        values = [0]
    if values[0] < 1:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a list of positive numbers: use for example 1,8,64"
        )
    return values


def figure_numbers(text: str) -> list[int]:
    values = numbers(text)
    for value in values:
        if value not in plan.FIGURES:
            raise argparse.ArgumentTypeError(
                f"there is no figure {value}: use {', '.join(map(str, plan.FIGURES))}"
            )
    return values


def system_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in plan.SYSTEM:
            raise argparse.ArgumentTypeError(
                f"there is no system '{name}': use {', '.join(plan.SYSTEM)}"
            )
    return [name for name in plan.SYSTEM if name in names]


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number")
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}; see --help")


def add_selection(parser: Parser) -> None:
    """The options that say which runs to make."""
    parser.add_argument(
        "--paper",
        choices=("fur", "ccslt", "pul", "pim-tide", "oltpim"),
        default="fur",
        help="ccslt: locks that a host and a coherent device share, on the machine ccix-ndp; pul: "
        "preload near the memory, on upmem and pul-ndp; pim-tide: transactions on modules, on "
        "upmem-sdk; oltpim: indexes and versions on modules with processors; all with --quick, "
        "--build, --out and --plot-only alone, ccslt also with --machine; default: %(default)s",
    )
    parser.add_argument(
        "--figure", type=figure_numbers, metavar="N,...", help="figures; default: all"
    )
    parser.add_argument(
        "--systems",
        type=system_names,
        metavar="TM,...",
        help="systems, and schemes of replay; default: all that the programs have",
    )
    parser.add_argument(
        "--threads",
        type=numbers,
        metavar="N,...",
        help="numbers of threads; default: 1,2,4,8,16,32,48,64, and TPC-C by its own "
        "rules 1,8,32,64; natively 1,2; for Figure 10, threads that wrote the logs: 1,8,32,64",
    )
    parser.add_argument(
        "--machine",
        help="an emulated machine, in virtual time; default: power9, or ccix-ndp",
    )
    parser.add_argument(
        "--native",
        action="store_const",
        const="native",
        dest="machine",
        help="this machine, in real time, one run at a time",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a smoke test of a few minutes: few threads, short runs, a small database",
    )


def add_execution(parser: Parser) -> None:
    """The options that say how to make them, and where the files are."""
    parser.add_argument(
        "--seeds",
        type=positive,
        metavar="N",
        help="runs of each point, whose mean is taken; default: 1, natively 3",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help="programs at a time, up to 6 GB each; default: 2",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build",
        metavar="DIR",
        help="build directory; default: %(default)s",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("figures"),
        metavar="DIR",
        help="directory of the results; default: %(default)s",
    )
    parser.add_argument(
        "--plot-only", action="store_true", help="run nothing: draw what the journal has"
    )


def refuse_others(parser: Parser, options: argparse.Namespace) -> None:
    """Options that the papers on ccSLT and PUL have no use for."""
    for name in ("figure", "systems", "threads", "seeds", "jobs"):
        if getattr(options, name) is not None:
            parser.error(f"--{name} is for --paper fur: leave it out")
    if options.machine == "native":
        parser.error(f"--native: the device of --paper {options.paper} is emulated: leave it out")
    if options.paper == "pul" and options.machine:
        parser.error("--machine: --paper pul is about upmem and pul-ndp: leave it out")
    if options.paper == "pim-tide" and options.machine:
        parser.error("--machine: --paper pim-tide is about upmem-sdk: leave it out")
    if options.paper == "oltpim" and options.machine:
        parser.error("--machine: --paper oltpim has machines of its own: leave it out")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="figures.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_selection(parser)
    add_execution(parser)
    options = parser.parse_args(arguments)
    if options.paper != "fur":
        refuse_others(parser, options)
        options.machine = options.machine or ccslt.MACHINE
        return options
    options.machine = options.machine or "power9"
    options.systems = options.systems or list(plan.SYSTEM)
    native = options.machine == "native"
    options.setting = plan.setting(options.machine, options.quick)
    options.producers = options.threads or list(plan.PRODUCERS)
    options.threads = options.threads or list(options.setting.threads)
    options.seeds = options.seeds or (3 if native else 1)
    options.jobs = 1 if native else options.jobs or 2
    return options


def say(text: str) -> None:
    print(f"figures.py: {text}", flush=True)


def wanted_figures(options: argparse.Namespace) -> list[plan.Figure]:
    return [
        figure
        for number, figure in plan.FIGURES.items()
        if number in (options.figure or plan.FIGURES)
    ]


def check_writable(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise Refused(
            f"{directory}: cannot write there: {error.strerror}: make it writable, or name another "
            "directory with --out"
        ) from error


def planned(
    figures: list[plan.Figure], systems: dict[str, list[str]], options: argparse.Namespace
) -> list[plan.Run]:
    """The runs of the figures, each once."""
    runs = []
    for figure in figures:
        program = figure.workloads[0].program
        threads = options.producers if program == "replay" else options.threads
        runs += plan.runs_of(
            figure, systems[program], threads, options.machine, options.setting, options.seeds
        )
    return list(dict.fromkeys(runs))


def available(programs: Programs, names: set[str], systems: list[str]) -> dict[str, list[str]]:
    """The systems that each program runs with; prints which are left out, and why."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        refusals = {tm: programs.refusal(name, tm) for tm in plan.PROGRAMS[name].among(systems)}
        found[name] = [tm for tm, why in refusals.items() if why is None]
        if refusals and not found[name]:
            raise Refused(next(iter(refusals.values())))
        for tm, why in refusals.items():
            if why is not None:
                say(f"{tm} is left out: {why}")
    return found


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line a run."""

    def __init__(self, todo: list[plan.Run], known: list[Record], done: int, jobs: int) -> None:
        self.left, self.total, self.done, self.jobs = list(todo), len(todo) + done, done, jobs
        self.seconds: dict[str, list[float]] = {}
        for record in known:
            self._learn(record.program, record.host_seconds)
        self.terminal = sys.stdout.isatty()

    def _learn(self, program: str, seconds: float) -> None:
        self.seconds.setdefault(program, []).append(seconds)

    def finished(self, run: plan.Run, seconds: float) -> None:
        self.left.remove(run)
        self.done += 1
        self._learn(run.program, seconds)
        text = (
            f"{self.done}/{self.total} runs, {self._remaining()} left: "
            f"{run.workload} {run.tm} {run.threads}"
        )
        if self.terminal:
            filled = 30 * self.done // self.total
            print(
                f"\r[{'#' * filled}{' ' * (30 - filled)}] {text:<70.70}",
                end="" if self.left else "\n",
                flush=True,
            )
        else:
            say(text)

    def _remaining(self) -> str:
        every = [seconds for values in self.seconds.values() for seconds in values]
        estimate = (
            sum(
                sum(values) / len(values)
                for values in (self.seconds.get(run.program, every) for run in self.left)
            )
            / self.jobs
        )
        return (
            f"about {estimate / 3600:.1f} h"
            if estimate >= 5400
            else f"about {max(round(estimate / 60), 1)} min"
            if self.left
            else "nothing"
        )


def measure(
    options: argparse.Namespace,
    figures: list[plan.Figure],
    journal: Journal,
    show: Callable[[list[plan.Figure], list[plan.Figure], dict[plan.Run, Record]], None],
) -> tuple[dict[plan.Run, Record], list[Failure]]:
    """Calls `show` when figures are complete, with all that are, the new ones, and their runs."""
    names = {workload.program for figure in figures for workload in figure.workloads}
    programs = Programs(options.build, options.machine, names)
    journal.open_to_append()
    systems = available(programs, names, options.systems)
    runs = planned(figures, systems, options)
    keys = {run: (run.command, programs.version(run.program, run.tm)) for run in runs}
    todo = [run for run in runs if keys[run] not in journal.records]
    say(f"{len(runs)} runs, {len(runs) - len(todo)} of them done before; results in {options.out}")
    known = [journal.records[key] for key in keys.values() if key in journal.records]
    progress = Progress(todo, known, len(known), options.jobs)
    runner = Runner(programs, journal, options.jobs, progress.finished)
    shown: list[plan.Figure] = []

    def finished() -> dict[plan.Run, Record]:
        return {run: journal.records[keys[run]] for run in runs if keys[run] in journal.records}

    def show_whole() -> None:
        """The figures that the last group has completed."""
        left = {run.workload for run in progress.left}
        new = [
            figure
            for figure in figures
            if figure not in shown and not left & {workload.name for workload in figure.workloads}
        ]
        if new:
            shown.extend(new)
            whole = [figure for figure in figures if figure in shown]
            names = {workload.name for figure in whole for workload in figure.workloads}
            done = {run: record for run, record in finished().items() if run.workload in names}
            show(whole, new, done)

    show_whole()
    runner.run_all(todo, show_whole)
    return finished(), runner.failures


def recall(
    options: argparse.Namespace, figures: list[plan.Figure], journal: Journal
) -> dict[plan.Run, Record]:
    """The runs of the plan that the journal has, of any version of the programs."""
    every = {name: program.among(options.systems) for name, program in plan.PROGRAMS.items()}
    return {
        run: journal.latest[run.command]
        for run in planned(figures, every, options)
        if run.command in journal.latest
    }


def caption_of(options: argparse.Namespace, figure: plan.Figure, results: list[dict]) -> str:
    where = (
        "This machine, real time"
        if options.machine == "native"
        else f"Emulated {options.machine}, virtual time"
    )
    # A write-back of specpmt-paper has one delay, whatever its length.
    latencies = sorted(
        {
            (result["pm_latency_ns"], result["pm_gap_ns"])
            for result in results
            if result.get("tm") != "specpmt-paper"
        }
    )
    memory = "; or ".join(
        f"write latency of persistent memory {latency} ns a line, {gap} ns from line to line"
        if latency
        else "write-backs are this machine's own"
        for latency, gap in reversed(latencies)
    )
    program = figure.workloads[0].program
    database = f"{options.setting.database_text}. " if program == "tpcc" else ""
    windows = sorted(result["seconds"] * 1000 for result in results)
    measured = (
        f"Windows of {windows[0]:.3g} to {windows[-1]:.3g} ms"
        if program != "replay"
        else replayed_text(results)
    )
    seeds = f", means of {options.seeds} runs" if options.seeds > 1 else ""
    return f"{where}; {memory}.\n{database}{measured}{seeds}.{weaker_text(results)}"


def weaker_text(results: list[dict]) -> str:
    measured = {result.get("tm") for result in results}
    labels = [
        system.label
        for system in plan.SYSTEMS
        if not system.durably_opaque and system.tm in measured
    ]
    return f"\nDashed: not durably opaque ({', '.join(labels)})." if labels else ""


def replayed_text(results: list[dict]) -> str:
    updates = sorted({result["updates"] for result in results})
    numbers_of_updates = " or ".join(f"{n:,}" for n in updates)
    return f"{numbers_of_updates} updates of 1 to 20 words at random addresses of a heap of 128 MiB"


def throughput_tables(figure: plan.Figure, points: Points) -> str:
    """The numbers of the picture: for each workload, throughput by system and threads."""
    tables = []
    for workload in figure.workloads:
        shown = {
            (tm, n): point.throughput
            for (name, tm, n), point in points.items()
            if name == workload.name
        }
        if not shown:
            continue
        scale, unit = plots.unit_of(shown.values())
        threads = sorted({n for _, n in shown})
        rows = [
            f"| {unit} {plan.PROGRAMS[workload.program].counted} a second: {workload.title} | "
            + " | ".join(map(str, threads))
            + " |",
            "| --- |" + " --- |" * len(threads),
        ]
        for system in plots.measured_systems(points, workload):
            cells = (
                f"{shown[system.tm, n] / scale:.3g}" if (system.tm, n) in shown else ""
                for n in threads
            )
            rows.append(f"| {system.label} | " + " | ".join(cells) + " |")
        tables.append("\n".join(rows))
    return "\n\n".join(tables)


def present(
    options: argparse.Namespace,
    figures: list[plan.Figure],
    runs: dict[plan.Run, Record],
    explanations: dict[str, str],
    drawn: list[plan.Figure],
) -> None:
    """Writes the page of `figures`, and draws the pictures of `drawn`."""
    points: Points = gather(figures, runs)
    comparisons = facts.compare(points, explanations)
    comparisons = [c for c in comparisons if c.fact.figure in {figure.number for figure in figures}]
    pages = ["# The paper's figures, measured\n"]
    for figure in figures:
        names = {workload.name for workload in figure.workloads}
        results = [record.result for run, record in runs.items() if run.workload in names]
        if not results:
            if figure in drawn:
                say(f"Figure {figure.number} is left out: no run of it has finished")
            continue
        caption = caption_of(options, figure, results)
        image = f"figure-{figure.number}-{Path(options.machine).stem}.png"
        if figure in drawn:
            plots.draw(figure, points, caption, options.out / image)
        pages.append(
            f"## Figure {figure.number}. {figure.title}\n\n"
            f"![Figure {figure.number}]({image})\n\n{caption}\n\n"
            f"{facts.table(figure, comparisons)}\n\n{throughput_tables(figure, points)}\n"
        )
    write_atomically(options.out / "figures.md", "\n".join(pages))


def say_replayed(runs: dict[plan.Run, Record]) -> None:
    """Points that are not what they should be."""
    for run, record in runs.items():
        if record.result.get("replays"):
            say(
                f"{run.command}: log or ring were full, "
                f"{record.result['replays']} replays are in this throughput"
            )


def report(failures: list[Failure]) -> int:
    for failure in failures:
        print(
            f"figures.py: {failure.run.command}: "
            f"{'left out' if failure.refused else 'FAILED'}: {failure.why}",
            file=sys.stderr,
        )
    return 1 if any(not failure.refused for failure in failures) else 0


def interrupt(*_: int | FrameType | None) -> None:
    raise KeyboardInterrupt


def run(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.paper == "ccslt":
        check_writable(options.out)
        ccslt.make(options.build, options.machine, options.out, options.quick, options.plot_only)
        say(f"{options.out}/ccslt.md")
        return 0
    if options.paper == "pul":
        check_writable(options.out)
        pul.make(options.build, options.out, options.quick, options.plot_only)
        say(f"{options.out}/pul.md")
        return 0
    if options.paper == "pim-tide":
        check_writable(options.out)
        tide.make(options.build, options.out, options.quick, options.plot_only)
        say(f"{options.out}/pim-tide.md")
        return 0
    if options.paper == "oltpim":
        check_writable(options.out)
        oltpim.make(options.build, options.out, options.quick, options.plot_only)
        say(f"{options.out}/oltpim.md")
        return 0
    explanations = facts.read_explanations()
    check_writable(options.out)
    journal = Journal(options.out)
    figures = wanted_figures(options)
    failures: list[Failure] = []
    if not figures:
        return 0
    if options.plot_only:
        runs = recall(options, figures, journal)
        present(options, figures, runs, explanations, figures)
    else:
        runs, failures = measure(
            options,
            figures,
            journal,
            lambda done, new, runs: present(options, done, runs, explanations, new),
        )
    say_replayed(runs)
    say(f"{options.out}/figures.md")
    return report(failures)


def main() -> int:
    signal.signal(signal.SIGTERM, interrupt)
    try:
        return run(sys.argv[1:])
    except Refused as refused:
        print(f"figures.py: {refused}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nfigures.py: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    except OSError as error:
        print(
            f"figures.py: {error}: what was finished is kept, the same command goes on from here",
            file=sys.stderr,
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
