#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run redis-benchmark against kvserver (examples/kvserver) and redis-server in alternation, and
print medians, ratios and latencies.

Both keep their files in DIR, which should lie on a disk.  Redis runs with `appendonly yes` and
without snapshots.  Each round runs every command against both servers, one right after the other,
and the order changes from round to round; so whatever else the machine does meets both alike.  A
run takes as many requests as Redis served in the given time at the beginning.  A ratio is that of
two medians; next to it are the least and the greatest ratio within one round.  A latency is the
median of the rounds.

redis-server, redis-benchmark: apt-get install redis-server redis-tools

Exit status: 0 done, 1 a run failed, 2 wrong usage, 130 stopped.
"""
from __future__ import annotations

import argparse
import csv
import itertools
import math
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))

import script  # noqa: E402
from script import Failed, Refused  # noqa: E402
from servers import say_progress, seconds, sync_us, whole  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SERVERS = ("redis", "kvserver")
COMMANDS = ("set", "get", "incr")
KEYS, BYTES = 100000, 64
LIMIT_SECONDS = 600
LATENCIES = ("p50", "p99")


# ----------------------------------------------------------------------------------- servers


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def server_command(name: str, options: argparse.Namespace, fsync: str, place: str) -> list[str]:
    port = str(free_port())
    if name == "kvserver":
        program = str(options.build / "examples/kvserver/kvserver")
        return [program, "--port", port, "--fsync", fsync, f"{place}/heap.fur"]
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", place]
    return [*command, "--save", "", "--appendonly", "yes", "--appendfsync", fsync]


def await_port(port: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(400):
        if process.poll() is not None:
            break
        try:
            socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise Failed(f"{process.args!r} does not serve: run it by hand")


@contextmanager
def serving(command: list[str]) -> Iterator[str]:
    """A server in a process of its own, ended however the block is left; its port."""
    port = command[command.index("--port") + 1]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C at the terminal is for this process alone
    )
    try:
        await_port(port, process)
        yield port
    finally:
        process.terminate()
        process.wait()


# --------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Case:
    fsync: str
    depth: int
    command: str


def run_benchmark(port: str, clients: int, case: Case, requests: int) -> dict[str, float]:
    """Requests per second, and latencies in milliseconds."""
    command = ["redis-benchmark", "-p", port, "-c", str(clients), "-P", str(case.depth)]
    command += ["-n", str(requests), "-t", case.command, "-d", str(BYTES), "-r", str(KEYS)]
    try:
        done = subprocess.run(
            [*command, "--csv"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(str(error)) from error
    rows = list(csv.reader(done.stdout.splitlines()))
    if done.returncode or len(rows) != 2 or "rps" not in rows[0]:
        raise Failed(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-200:]}")
    row = dict(zip(rows[0], rows[1]))
    # redis-benchmark counts whole milliseconds, and divides by none if so few requests take less.
    if not math.isfinite(float(row["rps"])):
        return run_benchmark(port, clients, case, requests * 8)
    return {
        "throughput": float(row["rps"]),
        "p50": float(row["p50_latency_ms"]),
        "p99": float(row["p99_latency_ms"]),
    }


Results = dict[Case, dict[str, list[dict[str, float]]]]


def requests_of(case: Case, port: str, options: argparse.Namespace) -> int:
    """How many requests Redis serves in the given time, about."""
    least = options.clients * case.depth * 4
    first = run_benchmark(port, options.clients, case, least * 4)
    return max(least, int(first["throughput"] * options.seconds))


def measure_mode(options: argparse.Namespace, fsync: str, place: str, results: Results) -> None:
    cases = [Case(fsync, *rest) for rest in itertools.product(options.depths, COMMANDS)]
    commands = {name: server_command(name, options, fsync, place) for name in SERVERS}
    with serving(commands["redis"]) as redis, serving(commands["kvserver"]) as kvserver:
        ports = {"redis": redis, "kvserver": kvserver}
        for port in ports.values():  # the keys
            run_benchmark(port, options.clients, Case(fsync, 64, "set"), options.fill)
        numbers = {case: requests_of(case, redis, options) for case in cases}
        for k, case in itertools.product(range(options.rounds), cases):
            say_progress(f"{fsync}, round {k + 1} of {options.rounds}, {case.command}")
            for name in SERVERS if k % 2 == 0 else SERVERS[::-1]:
                result = run_benchmark(ports[name], options.clients, case, numbers[case])
                results.setdefault(case, {}).setdefault(name, []).append(result)


def measure(options: argparse.Namespace) -> Results:
    results: Results = {}
    for fsync in options.fsync:
        with tempfile.TemporaryDirectory(prefix="kvserver-", dir=options.directory) as place:
            measure_mode(options, fsync, place, results)
    say_progress("")
    return results


# ------------------------------------------------------------------------------- the machine


def echo_bytes(core: int, here: int, there: int) -> NoReturn:
    os.sched_setaffinity(0, {core})
    while byte := os.read(here, 1):
        os.write(there, byte)
    os._exit(0)


def round_trip_us() -> float | None:
    """A byte through a pipe to a process on another core, and back; the median.  Nothing on a
    machine with one core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None
    to_read, to_write = os.pipe()
    back_read, back_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(to_write)
        echo_bytes(cores[1], to_read, back_write)
    os.sched_setaffinity(0, {cores[0]})
    times = []
    for _ in range(2000):
        began = time.perf_counter()
        os.write(to_write, b"x")
        os.read(back_read, 1)
        times.append(time.perf_counter() - began)
    os.sched_setaffinity(0, set(cores))
    for end in (to_write, to_read, back_read, back_write):
        os.close(end)
    os.waitpid(child, 0)
    return statistics.median(times) * 1e6


def machine(directory: str) -> dict[str, Any]:
    trip = round_trip_us()
    return {
        "cores": len(os.sched_getaffinity(0)),
        "round_trip_us": None if trip is None else round(trip, 1),
        "fdatasync_us": round(sync_us(directory)),
        "load": round(os.getloadavg()[0], 1),
    }


# ----------------------------------------------------------------------------------- results


def median_of(runs: list[dict[str, float]], what: str) -> float:
    return statistics.median(run[what] for run in runs)


def summary(results: Results) -> list[dict[str, Any]]:
    rows = []
    for case, runs in results.items():
        row: dict[str, Any] = {"fsync": case.fsync, "depth": case.depth, "command": case.command}
        for name, what in itertools.product(SERVERS, ("throughput", *LATENCIES)):
            row[f"{name}_{what}"] = median_of(runs[name], what)
        row["ratio"] = row["kvserver_throughput"] / row["redis_throughput"]
        by_round = [
            ours["throughput"] / theirs["throughput"]
            for theirs, ours in zip(runs["redis"], runs["kvserver"])
        ]
        row["median_of_ratios"] = statistics.median(by_round)
        row["min"], row["max"] = min(by_round), max(by_round)
        rows.append(row)
    return rows


def print_table(rows: list[dict[str, Any]]) -> None:
    heads = ["fsync, depth, command", "Redis/s", "kvserver/s", "ratio", "of rounds", "min", "max"]
    heads += [f"{what} {name}, ms" for what in LATENCIES for name in ("Redis", "kvserver")]
    print("| " + " | ".join(heads) + " |")
    print("| --- |" + " ---: |" * (len(heads) - 1))
    for row in rows:
        cells = [f"{row['fsync']}, {row['depth']}, {row['command'].upper()}"]
        cells += [f"{row[name + '_throughput']:,.0f}" for name in SERVERS]
        cells += [f"{row[what]:.2f}" for what in ("ratio", "median_of_ratios", "min", "max")]
        cells += [f"{row[f'{name}_{what}']:.2f}" for what in LATENCIES for name in SERVERS]
        print("| " + " | ".join(cells) + " |")


# ------------------------------------------------------------------------------ command line


def whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(whole(part) for part in text.split(","))


def modes(text: str) -> tuple[str, ...]:
    if not set(text.split(",")) <= {"always", "everysec"}:
        raise argparse.ArgumentTypeError(f"'{text}': use always, everysec")
    return tuple(text.split(","))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = script.parser_of("against_redis.py", __doc__)
    add = parser.add_argument
    add("directory", metavar="DIR", help="a directory on the disk to measure")
    add("--build", type=Path, default=ROOT / "build", metavar="DIR", help="the build to measure")
    add("--rounds", type=whole, default=9, metavar="N", help="default: %(default)s")
    add("--seconds", type=seconds, default=1.0, metavar="S", help="of each run; default: 1")
    add("--clients", type=whole, default=50, metavar="N", help="default: %(default)s")
    add("--depths", type=whole_numbers, default=(1, 16), metavar="N,...", help="default: 1,16")
    add("--fsync", type=modes, default=("always", "everysec"), metavar="MODE,...")
    add("--fill", type=whole, default=500000, metavar="N", help="SETs before; default 500000")
    add("--json", metavar="FILE", help="write all results to this file too")
    options = parser.parse_args(arguments)
    if not os.path.isdir(options.directory):
        raise Refused(f"{options.directory} is no directory")
    check_programs(options.build)
    return options


def check_programs(build: Path) -> None:
    for program in ("redis-server", "redis-benchmark"):
        if not shutil.which(program):
            raise Refused(f"{program} is not installed: apt-get install redis-server redis-tools")
    if not os.access(build / "examples/kvserver/kvserver", os.X_OK):
        raise Refused(
            f"{build}/examples/kvserver/kvserver is missing: build it: ninja -C {build} "
            "examples/kvserver/kvserver"
        )


def say(text: str) -> None:
    script.say("against_redis.py", text)


def run(arguments: list[str]) -> int:
    options = parse(arguments)
    facts = machine(options.directory)
    if facts["load"] > 0.5:
        say(f"other programs run on this machine (load {facts['load']}): expect noise")
    results = measure(options)
    rows = summary(results)
    trip = "none" if facts["round_trip_us"] is None else f"{facts['round_trip_us']} µs"
    print(
        f"{options.clients} clients, {KEYS} keys, values of {BYTES} bytes, rounds: "
        f"{options.rounds}; {facts['cores']} cores, round trip of a byte between two of them by "
        f"pipes {trip}, fdatasync {facts['fdatasync_us']} µs\n"
    )
    print_table(rows)
    if options.json:
        runs = [{**vars(case), "runs": results[case]} for case in results]
        text = json.dumps({"machine": facts, "rows": rows, "runs": runs}, indent=1)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(script.run_script("against_redis.py", run))
