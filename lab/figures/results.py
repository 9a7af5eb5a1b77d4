# SPDX-License-Identifier: BSD-3-Clause
"""Runs and their results: each finished run is a line of a journal, on disk before the next starts.

A stopped measurement continues from the journal (runs.jsonl). A run is identified by
its command and the version of its program; a line that a kill cut short does not count.
The journals of the other papers (ccslt.jsonl, pul.jsonl) have the same form, without versions.
"""
from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, ParamSpec, TypeVar

import plan

LIMIT_SECONDS = 1800  # a run that takes longer does not end
RESULT_HAS = {"seconds", "throughput", "pm_latency_ns", "pm_gap_ns"}
T = TypeVar("T")
P = ParamSpec("P")


class Refused(Exception):
    """What was asked for cannot be: one line, exit status 2."""


@dataclass(frozen=True)
class Fact(Generic[P]):
    """What a paper says, and the numbers that are accepted for it, from `least` to `most`."""

    figure: str
    claim: str
    paper: str
    least: float
    most: float
    computed: Callable[P, float]  # from the runs
    why: str | Callable[P, str] = ""  # the measured number is not accepted

    def accepts(self, measured: float) -> bool:
        return self.least <= measured <= self.most

    def shown(self, measured: float) -> str:
        """Bold if it is not accepted."""
        number = "never" if math.isinf(measured) else f"{float(f'{measured:.3g}'):g}"
        return number if self.accepts(measured) else f"**{number}**"

    def explained(self, measured: float, *args: P.args, **kwargs: P.kwargs) -> str:
        if self.accepts(measured):
            return ""
        return self.why if isinstance(self.why, str) else self.why(*args, **kwargs)


def write_atomically(path: Path, text: str) -> None:
    """All of it or nothing, whatever happens."""
    part = path.with_name(path.name + ".part")
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def journal_line(run: dict[str, Any]) -> str:
    """A run in a journal: its command, its result, and what else its reader keeps of it."""
    return json.dumps(run) + "\n"


def read_journal(path: Path, make: Callable[..., T], advice: str) -> list[T]:
    """What `make` makes of the fields of each run; what it raises means that the line is damaged.
    A last line without its end does not count: a kill cut it short."""
    *lines, _cut_short = path.read_bytes().split(b"\n")
    made = []
    for number, line in enumerate(lines, 1):
        try:
            made.append(make(**json.loads(line)))
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            raise Refused(f"{path}:{number}: damaged, not the result of a run: {advice}") from error
    return made


def recall(path: Path, is_good: Callable[[dict[str, Any]], bool]) -> dict[str, dict[str, Any]]:
    """The results in a journal without versions, by their commands. One that is not good means that
    its line is damaged."""

    def finished_run(command: str, result: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if not is_good(result):
            raise ValueError("no result, or a wrong one")
        return command, result

    advice = "leave out --plot-only to measure"
    try:
        return dict(read_journal(path, finished_run, advice))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}: {advice}") from error


def write_journal(path: Path, known: dict[str, dict[str, Any]]) -> None:
    """What recall() reads."""
    lines = [journal_line({"command": c, "result": r}) for c, r in known.items()]
    write_atomically(path, "".join(lines))


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


def run_program(
    build: Path, name: str, arguments: list[str], limit_seconds: float
) -> tuple[str, dict[str, Any]]:
    """The command, as a reader can repeat it, and the JSON that the program prints."""
    command = " ".join((name, *arguments))
    program = build / name
    try:
        done = subprocess.run(
            [program, *arguments],
            capture_output=True,
            text=True,
            timeout=limit_seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise Refused(
            f"{program}: not there: build it, or name the build directory with --build"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise Refused(f"{command}: not finished after {limit_seconds:g} s") from error
    if done.returncode:
        raise Refused(f"{command}: {last_line(done.stderr)}")
    result: dict[str, Any] = json.loads(done.stdout)
    return command, result


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


def finished_run(**fields: Any) -> Record:
    record = Record(**fields)
    if not RESULT_HAS | plan.PROGRAMS[record.program].result_has <= record.result.keys():
        raise ValueError("no result")
    return record


class Journal:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "runs.jsonl"
        self.records: dict[tuple[str, str], Record] = {}
        self.latest: dict[str, Record] = {}
        self._read()

    def _read(self) -> None:
        advice = "remove that line, or the file to measure all again"
        try:
            for record in read_journal(self.path, finished_run, advice):
                self._keep(record)
        except FileNotFoundError:
            return
        except OSError as error:
            raise Refused(
                f"{self.path}: cannot read it: {error.strerror}: make it readable, or name another "
                "directory with --out"
            ) from error

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
        line = journal_line(record.__dict__)
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


def groups_of(runs: list[plan.Run], machine: str) -> list[list[plan.Run]]:
    """Runs that share their loading; in the order of the first of each group."""
    groups: dict[object, list[plan.Run]] = {}
    for run in runs:
        alone = machine == "native" or not run.line
        groups.setdefault(run if alone else (run.program, run.loaded), []).append(run)
    return list(groups.values())


class Loaded:
    """A program that has loaded, and makes runs one by one."""

    def __init__(self, program: Path, runs: list[plan.Run], lines: bool) -> None:
        self.lines, self.late = lines, False
        arguments = (*runs[0].loaded, "--runs", "-") if lines else runs[0].arguments
        # A file, for a pipe could fill up.
        self.errors: IO[str] = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            start_new_session=True,
        )

    def result(self, run: plan.Run) -> str:
        """A line; empty if the program has ended without one."""
        limit = threading.Timer(LIMIT_SECONDS, self._too_late)
        limit.start()
        try:
            assert self.process.stdin and self.process.stdout
            if self.lines:
                self.process.stdin.write(" ".join(run.line) + "\n")
                self.process.stdin.flush()
            return self.process.stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            limit.cancel()

    def failure(self, run: plan.Run) -> Failure:
        """After an empty result."""
        status = self.process.wait()
        if self.late:
            return Failure(run, f"not finished after {LIMIT_SECONDS} s", False)
        if status < 0:
            why = f"ended by a signal: {signal.strsignal(-status)} (memory? use fewer --jobs)"
            return Failure(run, why, False)
        self.errors.seek(0)
        return Failure(run, last_line(self.errors.read()), status == 2)

    def close(self) -> None:
        """Ends the program when it has no more runs to make."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        self.process.wait()
        self.errors.close()

    def kill(self) -> None:
        """The program and its run."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        # What a program that ends by itself removes: its heap.
        Path(f"/dev/shm/fur-bench-{self.process.pid}").unlink(missing_ok=True)

    def _too_late(self) -> None:
        self.late = True
        self.kill()


class Runner:
    """Makes runs, some groups at a time, and writes down what comes of them."""

    def __init__(
        self,
        programs: Programs,
        journal: Journal,
        jobs: int,
        finished: Callable[[plan.Run, float], None],
    ) -> None:
        self.programs, self.journal, self.jobs, self.finished = programs, journal, jobs, finished
        self.failures: list[Failure] = []
        self.under_way: set[Loaded] = set()
        self.stopping = False
        self.mutex = threading.Lock()

    def run_all(self, runs: list[plan.Run], group_done: Callable[[], None]) -> None:
        waiting = groups_of(runs, self.programs.machine)[::-1]
        with ThreadPoolExecutor(self.jobs) as pool:
            under_way: set[Future[None]] = set()
            try:
                while waiting or under_way:
                    while waiting and len(under_way) < self.jobs:
                        under_way.add(pool.submit(self._run_group, waiting.pop()))
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    group_done()
            except BaseException:
                self._kill()
                raise

    def _run_group(self, runs: list[plan.Run]) -> None:
        """After a run that took its program with it, the others load again."""
        while runs and not self.stopping:
            runs = self._load_and_run(runs)

    def _load_and_run(self, runs: list[plan.Run]) -> list[plan.Run]:
        """Returns the runs that are left."""
        started = time.monotonic()
        lines = self.programs.machine != "native" and bool(runs[0].line)
        loaded = Loaded(self.programs.path(runs[0].program), runs, lines)
        with self.mutex:
            self.under_way.add(loaded)
            stopping = self.stopping
        if stopping:
            loaded.kill()
        try:
            for number, run in enumerate(runs):
                text = loaded.result(run)
                if self.stopping:
                    return []
                if not text:
                    # What ends the program before its first result, ends it each time.
                    ended = runs if number == 0 else [run]
                    for each in ended:
                        self._came(each, loaded.failure(each))
                    return runs[number + len(ended) :]
                seconds = round(time.monotonic() - started, 3)
                self._came(run, self._outcome(run, text, seconds))
                started = time.monotonic()
            return []
        finally:
            with self.mutex:
                self.under_way.discard(loaded)
            loaded.close()

    def _outcome(self, run: plan.Run, text: str, seconds: float) -> Record | Failure:
        try:
            result = json.loads(text)
        except ValueError:
            return Failure(run, "its result is not JSON", False)
        if "error" in result:
            return Failure(run, result["error"], result["status"] == 2)
        if not result.get("verified", True):
            return Failure(run, "not verified", False)
        version = self.programs.version(run.program, run.tm)
        return Record(run.command, version, seconds, result)

    def _came(self, run: plan.Run, outcome: Record | Failure) -> None:
        with self.mutex:
            if isinstance(outcome, Failure):
                self.failures.append(outcome)
            else:
                self.journal.append(outcome)
            self.finished(run, outcome.host_seconds if isinstance(outcome, Record) else 0)

    def _kill(self) -> None:
        with self.mutex:
            self.stopping = True
            for loaded in self.under_way:
                loaded.kill()


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
