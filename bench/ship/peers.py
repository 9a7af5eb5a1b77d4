#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure small commits that return when another node has them too: libfur's, and those of
PostgreSQL, Redis and etcd, in alternation, on one machine and one disk.

All nodes of all systems keep their files in a directory below DIR, which must lie on a disk, and
run from the first round to the last.  In each round every system runs once with one client and once
with --clients of them, and each round begins with another system.  A client waits for each commit.
The table has medians of the rounds; a ratio is of two runs of the same round.

What is not installed is left out, with a line that says what to install.

Exit status: 0 done, 1 a run failed, 2 wrong usage, 130 stopped.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/common"))

import script  # noqa: E402
from clusters import CLUSTERS, SYSTEMS, Cluster, Missing, Result, Settings  # noqa: E402
from script import Refused  # noqa: E402
from servers import say_progress, seconds, sync_us, whole  # noqa: E402

BASE = "fur-file"  # runs always: ratios and round trips come from it
FIGURES = ("commits_per_second", "p50_us", "p99_us")


def say(text: str) -> None:
    script.say("peers.py", text)


# --------------------------------------------------------------------------------- measuring


@dataclass
class Measured:
    clusters: dict[str, Cluster] = field(default_factory=dict)  # by system
    versions: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    runs: dict[str, list[dict[str, Result]]] = field(default_factory=dict)
    syncs_us: list[float] = field(default_factory=list)
    trips_ns: list[float] = field(default_factory=list)


def start_clusters(options: argparse.Namespace, place: Path, stack: ExitStack) -> Measured:
    settings = Settings(options.build, options.postgres, options.seconds)
    m = Measured()
    for kind in CLUSTERS:
        wanted = [name for name in kind.systems if name in options.systems]
        if not wanted:
            continue
        cluster = kind(settings, place / kind.__name__.lower())
        say_progress(f"starting {', '.join(wanted)}")
        try:
            m.versions.append(cluster.start(stack))
        except Missing as missing:
            m.skipped.update((name, str(missing)) for name in wanted)
            say(f"without {' and '.join(wanted)}: {missing}")
            continue
        m.clusters.update((name, cluster) for name in wanted)
    return m


def measure_round(options: argparse.Namespace, m: Measured, k: int, place: Path) -> None:
    names = list(m.clusters)
    m.syncs_us.append(sync_us(str(place)))
    for name in names[k % len(names) :] + names[: k % len(names)]:
        say_progress(f"round {k + 1} of {options.rounds}, {name}")
        cluster = m.clusters[name]
        result = {
            "one": cluster.measure(name, 1),
            "many": cluster.measure(name, options.clients),
        }
        m.runs.setdefault(name, []).append(result)
        trip: Any = result["one"].get("round_trip_ns")
        if trip:  # of ship.cpp, on more than one core
            m.trips_ns.append(trip["median"])


def measure(options: argparse.Namespace) -> Measured:
    with tempfile.TemporaryDirectory(prefix="ship-peers-", dir=options.directory) as directory:
        os.chmod(directory, 0o711)  # PostgreSQL runs as another user
        place = Path(directory).resolve()
        with ExitStack() as stack:
            m = start_clusters(options, place, stack)
            for k in range(options.rounds):
                measure_round(options, m, k, place)
    say_progress("")
    return m


# ----------------------------------------------------------------------------------- results


def spread(values: list[float]) -> dict[str, float] | None:
    """The median, and the least and the greatest."""
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def row_of(name: str, runs: list[dict[str, Result]]) -> dict[str, Any]:
    row: dict[str, Any] = {"system": name, "where": SYSTEMS[name]}
    for who in ("one", "many"):
        for figure in FIGURES:
            row[f"{who}_{figure}"] = spread([run[who][figure] for run in runs])
    return row


def ratios_of(m: Measured) -> list[dict[str, Any]]:
    """Each peer over each of libfur's systems."""
    ratios: list[dict[str, Any]] = []
    ours = [name for name in m.runs if name.startswith("fur-")]
    for peer in [name for name in m.runs if name not in ours]:
        for base in ours:
            pairs = list(zip(m.runs[peer], m.runs[base]))
            ratio: dict[str, Any] = {"system": peer, "over": base}
            for who, figure in (("one", "p50_us"), ("many", "commits_per_second")):
                over = [theirs[who][figure] / fur[who][figure] for theirs, fur in pairs]
                ratio[f"{who}_{figure}"] = spread(over)
            ratios.append(ratio)
    return ratios


def print_row(cells: list[str]) -> None:
    print("| " + " | ".join(cells) + " |")


def range_of(values: dict[str, float]) -> str:
    return f"{values['median']:.2f} ({values['min']:.2f} to {values['max']:.2f})"


def print_tables(result: dict[str, Any]) -> None:
    clients = result["clients"]
    heads = ["system", "an update is on", "commits/s", "p50, µs", "p99, µs"]
    heads += [f"commits/s, {clients} clients", f"p50, µs, {clients} clients"]
    print_row(heads)
    print("| --- | --- |" + " ---: |" * (len(heads) - 2))
    for row in result["rows"]:
        figures = [f"one_{figure}" for figure in FIGURES]
        figures += ["many_commits_per_second", "many_p50_us"]
        print_row([row["system"], row["where"], *(f"{row[f]['median']:,.0f}" for f in figures)])
    if not result["ratios"]:
        return
    print()
    print_row(["system over libfur's", "p50", f"commits/s, {clients} clients"])
    print("| --- | ---: | ---: |")
    for ratio in result["ratios"]:
        figures = ["one_p50_us", "many_commits_per_second"]
        names = f"{ratio['system']} over {ratio['over']}"
        print_row([names, *(range_of(ratio[f]) for f in figures)])


def print_machine(result: dict[str, Any]) -> None:
    machine = result["machine"]
    sync, trip = machine["fdatasync_us"], machine["round_trip_ns"]
    trips = f"{trip['median']:.0f} ns ({trip['min']:.0f} to {trip['max']:.0f})" if trip else "none"
    load = " to ".join(f"{load:.1f}" for load in machine["load"])
    print("; ".join(result["versions"]))
    print(
        f"{result['rounds']} rounds of {result['seconds']:g} s; {machine['cores']} cores, round "
        f"trip between two of them {trips}; fdatasync {sync['median']:.0f} µs "
        f"({sync['min']:.0f} to {sync['max']:.0f}); load {load}\n"
    )


# ------------------------------------------------------------------------------ command line


def systems(text: str) -> set[str]:
    names = set(text.split(","))
    if not names <= set(SYSTEMS):
        unknown = sorted(names - set(SYSTEMS))[0]
        raise argparse.ArgumentTypeError(f"'{unknown}' is no system: use {', '.join(SYSTEMS)}")
    return names | {BASE}


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = script.parser_of("peers.py", __doc__)
    add = parser.add_argument
    add("directory", metavar="DIR", help="a directory on the disk to measure")
    add("--build", type=Path, default=ROOT / "build", metavar="DIR", help="the build to measure")
    every = ",".join(SYSTEMS)
    add("--systems", type=systems, default=every, metavar="A,B,...", help=f"of {every}; default: "
        f"all. {BASE} always runs")  # fmt: skip
    add("--rounds", type=whole, default=9, metavar="N", help="default: %(default)s")
    add("--seconds", type=seconds, default=1.0, metavar="S", help="of each run; default: 1")
    add("--clients", type=whole, default=8, metavar="N", help="up to 64; default: %(default)s")
    add("--postgres", type=Path, metavar="DIR", help="the folder with initdb and pgbench; default: "
        "the newest in /usr/lib/postgresql, else that of PATH")  # fmt: skip
    add("--json", metavar="FILE", help="write all results to this file too")
    options = parser.parse_args(arguments)
    if options.clients > 64:
        raise Refused(f"--clients {options.clients}: use at most 64")
    check_directory(options.directory)
    check_programs(options.build)
    return options


def check_directory(directory: str) -> None:
    if not os.path.isdir(directory):
        raise Refused(f"{directory} is no directory")
    device = os.stat(directory).st_dev
    place = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        mount, system = line.split(" - ", 1)
        if mount.split()[2] == place and system.split()[0] == "tmpfs":
            raise Refused(
                f"{directory} is in a tmpfs, where fdatasync does nothing: name one on a disk"
            )


def check_programs(build: Path) -> None:
    for program in ("bench/ship/ship", "bench/ship/put"):
        if not os.access(build / program, os.X_OK):
            raise Refused(
                f"{build}/{program} is missing: build it: ninja -C {build} bench/ship/ship "
                "bench/ship/put src/libfur-kafka.so.0"
            )


def run(arguments: list[str]) -> int:
    options = parse(arguments)
    load = os.getloadavg()[0]
    if load > 0.5:
        say(f"other programs run on this machine (load {load:.1f}): expect noise")
    m = measure(options)
    result = {
        "workload": "ship-peers",
        "rounds": options.rounds,
        "seconds": options.seconds,
        "clients": options.clients,
        "versions": m.versions,
        "skipped": m.skipped,
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "fdatasync_us": spread(m.syncs_us),
            "round_trip_ns": spread(m.trips_ns),
            "load": [load, os.getloadavg()[0]],
        },
        "rows": [row_of(name, m.runs[name]) for name in m.clusters],
        "ratios": ratios_of(m),
    }
    print_machine(result)
    print_tables(result)
    if options.json:
        text = json.dumps({**result, "runs": m.runs}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(script.run_script("peers.py", run))
