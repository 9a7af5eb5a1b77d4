#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A heap on two machines, played on one: three brokers of Apache Kafka, a primary, a standby, and
two failures.  Takes about a minute.

    ninja -C build && examples/replicated/demo.py [BUILD]

BUILD is the folder of a build with libfur-kafka (default: build).  Needs Java and Maven, which
fetches Kafka once.  Prints each command that you would run, and what came of it.

Exit status: 0 no transfer was lost; 1 something went wrong; 77 Kafka cannot be had here.
"""
from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PATIENCE_S = 100
PROMOTED = 4

sys.path.insert(0, str(TREE / "tests/ship"))
import brokers  # noqa: E402


def say(text: str) -> None:
    print(text, flush=True)


class Wrong(Exception):
    """One line."""


class Programs:
    """Their short names, and where they are."""

    def __init__(self, build: Path):
        self.path = {
            "fur-ship": build / "src/fur_ship/fur-ship",
            "fur-standby": build / "src/fur_standby/fur-standby",
            "fur-copy": build / "tools/fur-copy",
            "ledger": build / "examples/replicated/ledger",
        }
        for file in [*self.path.values(), build / "src/libfur-kafka.so.0"]:
            if not file.exists():
                raise Wrong(f"there is no {file}: build it, or name another build")
        self.env = dict(os.environ, LD_LIBRARY_PATH=str(build / "src"))

    def words(self, command: str) -> list[str]:
        name, *arguments = shlex.split(command)
        return [str(self.path[name]), *arguments]

    def run(self, command: str) -> str:
        say(f"$ {command}")
        done = subprocess.run(
            self.words(command),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        print(done.stdout, end="", flush=True)
        if done.returncode:
            raise Wrong(f"{command}: exit status {done.returncode}")
        return done.stdout

    def start(self, command: str) -> Running:
        say(f"$ {command} &")
        return Running(self, command)


class Running:
    """A program in the background, whose output is in a file."""

    def __init__(self, programs: Programs, command: str):
        self.command = command
        self.file = tempfile.NamedTemporaryFile("w+")
        self.process = subprocess.Popen(
            programs.words(command),
            env=programs.env,
            stdin=subprocess.DEVNULL,
            stdout=self.file,
            stderr=subprocess.STDOUT,
            preexec_fn=brokers.die_with_parent,
        )

    def said(self) -> str:
        return Path(self.file.name).read_text()

    def until(self, condition: Callable[[str], bool], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition(self.said()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Wrong(f"{self.command}: {what}: {self.said()[-500:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, status: int = 0) -> None:
        if status == 0:
            self.process.send_signal(signal.SIGTERM)
        if self.process.wait(PATIENCE_S) != status:
            raise Wrong(f"{self.command}: exit status {self.process.returncode}: {self.said()}")


def printed(ledger: Running) -> int:
    """The newest transfer that has returned; the last line may be a part of one."""
    return int(ledger.said().rpartition("\n")[0].rpartition("\n")[2] or 0)


def await_more(ledger: Running, there: int = 0) -> None:
    want = max(there, printed(ledger)) + 300
    ledger.until(lambda _: printed(ledger) >= want, "no transfer returns any more")
    say(f"  {printed(ledger)} transfers have returned")


def transfers_in(p: Programs, heap: str) -> int:
    return int(p.run(f"ledger show {heap}").split()[0])


def play(p: Programs, cluster: brokers.Cluster, one: str, two: str) -> None:
    say("\n--- A primary, and a standby that begins as a copy of it.")
    p.run(f"ledger create {one}")
    p.run(f"fur-ship --init {one} --log kafka:{cluster.brokers}/ledger")
    p.run(f"fur-copy --for-standby {one} {two}")
    ship = p.start(f"fur-ship {one}")
    ship.until(lambda text: "waiting for a program" in text, "it does not begin")
    standby = p.start(f"fur-standby {two} --takeover 6000")
    ledger = p.start(f"ledger run {one}")
    await_more(ledger)

    say("\n--- A broker is killed.  The others notice it after 3 s, and go on.")
    cluster.node(1).kill()
    await_more(ledger)

    say("\n--- The primary's machine fails: its programs are killed.  The standby takes over.")
    ledger.kill()
    ship.kill()
    returned = printed(ledger)
    say(f"  {returned} transfers have returned")
    standby.end(PROMOTED)
    print(standby.said(), end="", flush=True)
    there = transfers_in(p, two)
    if there < returned:
        raise Wrong(f"{returned - there} transfers are lost")

    say("\n--- It is the primary now, and the old one its standby, without a copy.")
    ship = p.start(f"fur-ship {two}")
    ship.until(lambda text: "waiting for a program" in text, "it does not begin")
    standby = p.start(f"fur-standby {one}")
    ledger = p.start(f"ledger run {two}")
    await_more(ledger, there)
    ledger.end()
    there = transfers_in(p, two)
    until = time.monotonic() + PATIENCE_S
    while transfers_in(p, one) < there:
        if time.monotonic() > until:
            raise Wrong("the old primary does not follow")
        time.sleep(1)
    standby.end()
    ship.end()
    say("\nNo transfer was lost.")


def main() -> int:
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 2
    build = Path(sys.argv[1] if len(sys.argv) == 2 else TREE / "build").resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        programs = Programs(build)
        say("--- Three brokers of Apache Kafka.")
        with brokers.Cluster() as cluster, tempfile.TemporaryDirectory() as place:
            play(programs, cluster, f"{place}/one", f"{place}/two")
        return 0
    except brokers.Missing as missing:
        print(f"skipped: {missing}")
        return brokers.SKIPPED
    except (Wrong, brokers.Broken, subprocess.TimeoutExpired) as wrong:
        print(f"demo.py: {wrong}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
