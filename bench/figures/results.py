# SPDX-License-Identifier: BSD-3-Clause
"""Runs and their results: each finished run is a line of a journal, on disk before the next starts.

A stopped measurement continues from the journal (runs.jsonl). A run is identified by
its command and the version of its program; a line that a kill cut short does not count.
"""
from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import plan

LIMIT_SECONDS = 1800  # a run that takes longer does not end
RESULT_HAS = {"seconds", "throughput", "pm_latency_ns", "pm_gap_ns"}


class Refused(Exception):
    """What was asked for cannot be: one line, exit status 2."""


def write_atomically(path: Path, text: str) -> None:
    """All of it or nothing, whatever happens."""
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


class Programs:
    """The benchmark programs of a build directory."""

    def __init__(self, build: Path, machine: str, names: set[str]) -> None:
        self.build, self.machine = build, machine
        if not build.is_dir():
            raise Refused(
                f"{build}: no such build directory: meson setup {build} -Demulated=enabled && "
                f"ninja -C {build}, or name another with --build"
            )
        for name in sorted(names):
            for path in [self.path(name)] + (
                [self.emulated(name, "")] if machine != "native" else []
            ):
                if not os.access(path, os.X_OK):
                    raise Refused(
                        f"{path}: no such program: build with -Demulated=enabled: ninja -C {build}"
                    )
        self.versions: dict[tuple[str, bool], str] = {}

    def path(self, name: str) -> Path:
        return self.build / plan.PROGRAMS[name].path

    def emulated(self, name: str, tm: str) -> Path:
        return Path(f"{self.path(name)}-{'fur-paper' if tm == 'fur-paper' else 'emulated'}")

    def version(self, name: str, tm: str) -> str:
        """Changes when the program, the library or the machine's description does."""
        key = (name, tm == "fur-paper")
        if key not in self.versions:
            parts = [self.path(name)]
            if self.machine == "native":
                parts.append(self.build / "src/libfur.so.0")
            else:
                description = (
                    Path(__file__).resolve().parents[2] / f"emulator/machines/{self.machine}.toml"
                )
                parts += [
                    self.emulated(name, tm),
                    description if description.is_file() else Path(self.machine),
                ]
            digest = hashlib.sha256()
            for part in parts:
                digest.update(part.read_bytes() if part.is_file() else b"-")
            self.versions[key] = digest.hexdigest()
        return self.versions[key]

    def refusal(self, name: str, tm: str) -> str | None:
        """Why a program does not run with a system on this machine, in its own words."""
        program = plan.PROGRAMS[name]
        command = [
            str(self.path(name)),
            "--machine",
            self.machine,
            program.option,
            tm,
            *program.probe,
            "--json",
            "-",
        ]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        return last_line(done.stderr) if done.returncode == 2 else None


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it says nothing"


@dataclass(frozen=True)
class Record:
    """A finished run, as it is in the journal."""

    command: str
    version: str
    host_seconds: float
    result: dict[str, Any]

    @property
    def program(self) -> str:
        return Path(self.command.split()[0]).name


class Journal:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "runs.jsonl"
        self.records: dict[tuple[str, str], Record] = {}
        self.latest: dict[str, Record] = {}
        self._read()

    def _read(self) -> None:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused(
                f"{self.path}: cannot read it: {error.strerror}: make it readable, or name another "
                "directory with --out"
            ) from error
        *lines, _cut_short = text.split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                record = Record(**json.loads(line))
                if (
                    not RESULT_HAS | plan.PROGRAMS[record.program].result_has
                    <= record.result.keys()
                ):
                    raise ValueError("no result")
            except (ValueError, TypeError, AttributeError, LookupError) as error:
                raise Refused(
                    f"{self.path}:{number}: damaged, not the result of a run: remove that line, or "
                    "the file to measure all again"
                ) from error
            self._keep(record)

    def _keep(self, record: Record) -> None:
        self.records[record.command, record.version] = record
        self.latest[record.command] = record

    def open_to_append(self) -> None:
        """Cuts off what a kill left of the last line."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a+b") as file:
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
        except OSError as error:
            raise Refused(
                f"{self.path}: cannot write it: {error.strerror}: make it writable, or name "
                "another directory with --out"
            ) from error

    def append(self, record: Record) -> None:
        line = json.dumps(record.__dict__) + "\n"
        with open(self.path, "ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self._keep(record)


@dataclass(frozen=True)
class Failure:
    run: plan.Run
    why: str
    refused: bool  # wrong usage, by the program's own word; else it went wrong


class Runner:
    """Runs programs, some at a time, and writes down what comes of them."""

    def __init__(self, programs: Programs, journal: Journal, jobs: int) -> None:
        self.programs, self.journal, self.jobs = programs, journal, jobs
        self.children: set[subprocess.Popen[str]] = set()
        self.stopping = False

    def run_all(
        self, runs: list[plan.Run], finished: Callable[[plan.Run, float], None]
    ) -> list[Failure]:
        failures, waiting = [], list(reversed(runs))
        with ThreadPoolExecutor(self.jobs) as pool:
            under_way: dict[Future[Record | Failure], plan.Run] = {}
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < self.jobs:
                        run = waiting.pop()
                        under_way[pool.submit(self._run, run)] = run
                    done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        run, came = under_way.pop(future), future.result()
                        if isinstance(came, Failure):
                            failures.append(came)
                        else:
                            self.journal.append(came)
                        finished(run, came.host_seconds if isinstance(came, Record) else 0)
            except BaseException:
                self._kill()
                raise
        return failures

    def _run(self, run: plan.Run) -> Record | Failure:
        started = time.monotonic()
        with subprocess.Popen(
            [self.programs.path(run.program), *run.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        ) as child:
            self.children.add(child)
            if self.stopping:
                self._end(child)
            try:
                out, errors = child.communicate(timeout=LIMIT_SECONDS)
            except subprocess.TimeoutExpired:
                self._end(child)
                return Failure(run, f"not finished after {LIMIT_SECONDS} s", False)
            finally:
                self.children.discard(child)
        if child.returncode:
            return Failure(run, last_line(errors), child.returncode == 2)
        try:
            result = json.loads(out)
        except ValueError:
            return Failure(run, "its result is not JSON", False)
        return Record(
            run.command,
            self.programs.version(run.program, run.tm),
            round(time.monotonic() - started, 3),
            result,
        )

    @staticmethod
    def _end(child: subprocess.Popen[str]) -> None:
        child.send_signal(signal.SIGKILL)
        child.wait()
        # What a program that ends by itself removes: its heap.
        Path(f"/dev/shm/fur-bench-{child.pid}").unlink(missing_ok=True)

    def _kill(self) -> None:
        self.stopping = True
        for child in list(self.children):
            self._end(child)


@dataclass(frozen=True)
class Point:
    """The runs of one workload, system and number of threads together: means over seeds."""

    throughput: float
    commits: dict[str, float]
    aborts: dict[str, float]
    lock_commits: float
    phases_ns: dict[str, float]
    results: list[dict[str, Any]]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def mean_of(results: list[dict[str, Any]], key: str) -> dict[str, float]:
    return {name: mean([result[key][name] for result in results]) for name in results[0][key]}


def point_of(workload: plan.Workload, results: list[dict[str, Any]]) -> Point:
    if workload.program == "replay":
        return Point(mean([result["throughput"] for result in results]), {}, {}, 0, {}, results)

    def throughput(result: dict[str, Any]) -> float:
        return (
            sum(
                n
                for kind, n in result["commits"].items()
                if not workload.shows or kind in workload.shows
            )
            / result["seconds"]
        )

    return Point(
        mean([throughput(result) for result in results]),
        mean_of(results, "run_commits"),
        mean_of(results, "aborts"),
        mean([result["lock_commits"] for result in results]),
        mean_of(results, "phases_ns"),
        results,
    )


# The points of a measurement: by name of workload, --tm, and threads.
Points = dict[tuple[str, str, int], Point]


def gather(figures: list[plan.Figure], runs: dict[plan.Run, Record]) -> Points:
    workloads = {workload.name: workload for figure in figures for workload in figure.workloads}
    results: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for run, record in runs.items():
        results.setdefault((run.workload, run.tm, run.threads), []).append(record.result)
    return {key: point_of(workloads[key[0]], values) for key, values in results.items()}
