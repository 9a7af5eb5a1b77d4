# SPDX-License-Identifier: BSD-3-Clause
"""The systems of peers.py: how the nodes of each start on this machine's loopback, and how one run
of small commits is measured.  Each keeps its files in a directory of its own, and every process
dies with this one, however that ends."""
from __future__ import annotations

import contextlib
import functools
import http.client
import json
import math
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/common"))
sys.path.insert(0, str(ROOT / "tests/ship"))

import brokers  # noqa: E402
from brokers import Missing, die_with_parent, free_ports  # noqa: E402
from script import Failed  # noqa: E402

HOST = "127.0.0.1"
READY_S = 60
LIMIT_S = 600  # what a program may take beyond its run
DAY_S = 86400
CELLS = 64  # of each client, as in ship.cpp and put.cpp

Result = dict[str, float]


@dataclass(frozen=True)
class Settings:
    build: Path
    postgres: Path | None  # the folder of its programs
    seconds: float


# ------------------------------------------------------------------------------- processes


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[-300:] if lines else "it says nothing"


def run(
    command: list[str],
    env: dict[str, str] | None = None,
    user: str | None = None,
    cwd: Path | None = None,
) -> str:
    """Its standard output.  `env`: more than this process has."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            user=user,
            cwd=cwd,
            env={**os.environ, **(env or {})},
            preexec_fn=die_with_parent,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(str(error)) from error
    if done.returncode:
        raise Failed(f"{' '.join(command)}: {last_line(done.stdout + done.stderr)}")
    return done.stdout


def result_of(command: list[str], env: dict[str, str] | None = None) -> dict[str, Any]:
    """Of a program of this folder: its JSON."""
    result: dict[str, Any] = json.loads(run([*command, "--json", "-"], env))
    return result


def begin_node() -> None:
    """In a child, before it runs its program.  Ctrl-C at the terminal is for this process alone;
    but the session is the same, as Linux may share the cores out by sessions."""
    os.setpgrp()
    die_with_parent()


@dataclass
class Node:
    name: str
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def running(
    name: str,
    command: list[str],
    log: Path,
    user: str | None = None,
    end: signal.Signals = signal.SIGKILL,
) -> Iterator[Node]:
    """A server, ended however the block is left."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            user=user,
            preexec_fn=begin_node,
        )
    try:
        yield Node(name, process, log)
    finally:
        process.send_signal(end)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_ready(nodes: list[Node], ready: Callable[[], bool]) -> None:
    until = time.monotonic() + READY_S
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, Failed):
            if ready():
                return
        for node in nodes:
            if node.process.poll() is not None:
                said = last_line(node.log.read_text(errors="replace"))
                raise Failed(f"{node.name} has ended: {said}")
        if time.monotonic() > until:
            raise Failed(f"{nodes[0].name} is not ready after {READY_S} s")
        time.sleep(0.05)


def need(program: str, package: str) -> str:
    if not shutil.which(program):
        raise Missing(f"there is no {program}: apt-get install {package}")
    return program


# --------------------------------------------------------------------------------- systems


class Cluster:
    """Nodes that run until `stack` is closed, and one or several systems that use them."""

    systems: dict[str, str] = {}  # its name, and where an update is when its commit returns

    def __init__(self, settings: Settings, place: Path):
        self.settings = settings
        self.place = place

    def start(self, stack: ExitStack) -> str:
        """Returns the version; raises Missing, with the remedy."""
        raise NotImplementedError

    def measure(self, system: str, clients: int) -> Result:
        raise NotImplementedError

    def program(self, name: str) -> str:
        program = self.settings.build / "bench/ship" / name
        if not os.access(program, os.X_OK):
            raise Failed(f"{program} is missing: build it: ninja -C {self.settings.build}")
        return str(program)

    def length(self, clients: int, option: str) -> list[str]:
        return [option, str(clients), "--seconds", str(self.settings.seconds)]


class Fur(Cluster):
    systems = {"fur-file": "the heap's disk and a log's, of one machine"}

    def start(self, stack: ExitStack) -> str:
        self.place.mkdir()
        return "libfur " + run([self.program("ship"), "--version"]).split()[-1]

    def commits(self, clients: int, options: list[str], libraries: str = "") -> Result:
        command = [self.program("ship"), "--commits", "--pm", "sync"]
        command += ["--directory", str(self.place), *self.length(clients, "--threads")]
        return result_of(
            [*command, *options], {"LD_LIBRARY_PATH": libraries} if libraries else None
        )

    def measure(self, system: str, clients: int) -> Result:
        return self.commits(clients, ["--engine", "file"])


class FurKafka(Fur):
    systems = {
        "fur-kafka": "the heap's disk, the memory of 3 brokers",
        "fur-kafka-flush": "the heap's disk, the disks of 3 brokers",
    }

    def start(self, stack: ExitStack) -> str:
        self.place.mkdir()
        if not (self.settings.build / "src/libfur-kafka.so.0").exists():
            raise Missing(
                "there is no libfur-kafka.so.0: apt-get install librdkafka-dev, then "
                f"meson setup --reconfigure {self.settings.build} and ninja -C "
                f"{self.settings.build} src/libfur-kafka.so.0"
            )
        try:
            cluster = brokers.Cluster(limit_s=DAY_S, keep=str(self.place / "brokers"))
            self.log = "kafka:" + stack.enter_context(cluster).brokers + "/peers"
        except brokers.Broken as error:
            raise Failed(str(error)) from error
        return f"Apache Kafka {brokers.VERSION}"

    def measure(self, system: str, clients: int) -> Result:
        options = ["--engine", "kafka", "--log", self.log]
        if system == "fur-kafka-flush":
            options += ["--set", "flush.messages=1"]
        libraries = f"{self.settings.build.resolve()}/src"
        return self.commits(clients, options, libraries)


# ------------------------------------------------------------------------------- PostgreSQL

WORDS = 8  # of 8 bytes, as ship.cpp's updates
TABLE = f"""
CREATE TABLE cell (id int PRIMARY KEY, {", ".join(f"w{k} bigint" for k in range(WORDS))})
    WITH (fillfactor = 50);
INSERT INTO cell SELECT k, {", ".join(["0"] * WORDS)} FROM generate_series(0, %d) k;
"""
SCRIPT = f"""\
\\set cell :client_id * {CELLS} + random(0, {CELLS - 1})
\\set word random(1, 1000000000)
UPDATE cell SET {", ".join(f"w{k} = :word" for k in range(WORDS))} WHERE id = :cell;
"""


def postgres_programs() -> Path | None:
    """The newest; Debian keeps them out of PATH."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda path: float(path.parent.name))
    path = shutil.which("initdb")
    return Path(path).resolve().parent if path else None


class Postgres(Cluster):
    systems = {
        "postgres-on": "the disks of two servers",
        "postgres-apply": "the disks of two servers, and readers of both find it",
    }
    levels = {"postgres-on": "on", "postgres-apply": "remote_apply"}

    def start(self, stack: ExitStack) -> str:
        programs = self.settings.postgres or postgres_programs()
        if not programs or not (programs / "pgbench").exists():
            raise Missing("there is no pgbench: apt-get install postgresql")
        self.programs = programs
        self.prepare()
        self.port, port = free_ports(2)
        primary = self.node(stack, "primary", self.port, "synchronous_standby_names=standby")
        await_ready([primary], lambda: self.query("SELECT 1") == "1")
        self.query(TABLE % (64 * CELLS - 1))
        copy = ["-d", f"host={HOST} port={self.port} user=bench", "-c", "fast", "-R"]
        self.run("pg_basebackup", *copy, "-D", str(self.place / "standby"), user=self.user)
        standby = self.node(stack, "standby", port, "cluster_name=standby")
        state = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
        await_ready([primary, standby], lambda: self.query(state) == "sync")
        return "PostgreSQL " + self.query("SHOW server_version").split()[0]

    def prepare(self) -> None:
        self.place.mkdir()
        self.user = None
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            try:
                self.user = "postgres"
                os.chown(self.place, pwd.getpwnam(self.user).pw_uid, -1)
            except KeyError as error:
                raise Missing("there is no user postgres: apt-get install postgresql") from error
            reach = ["test", "-w", str(self.place)]
            if subprocess.run(reach, user=self.user, check=False).returncode:
                raise Missing("the user postgres cannot enter its directory: name another one")
        form = ["--no-locale", "-E", "UTF8", "-A", "trust", "-U", "bench"]
        self.run("initdb", *form, "-D", str(self.place / "primary"), user=self.user)
        (self.place / "script").write_text(SCRIPT)

    def run(self, program: str, *arguments: str, user: str | None = None, level: str = "on") -> str:
        command = [str(self.programs / program), *arguments]
        env = {"PGOPTIONS": f"-c synchronous_commit={level}"}
        return run(command, env, user, self.place).strip()

    def node(self, stack: ExitStack, name: str, port: int, setting: str) -> Node:
        command = [str(self.programs / "postgres"), "-D", str(self.place / name)]
        for each in (f"listen_addresses={HOST}", f"port={port}", "unix_socket_directories="):
            command += ["-c", each]
        command += ["-c", setting]
        log = self.place / f"{name}.log"
        # Its processes end with it, and it writes nothing more.
        server = running(f"PostgreSQL's {name}", command, log, self.user, signal.SIGQUIT)
        return stack.enter_context(server)

    def where(self) -> list[str]:
        return ["-h", HOST, "-p", str(self.port), "-U", "bench"]

    def query(self, text: str) -> str:
        """Waits for no standby."""
        flags = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", text]
        return self.run("psql", *self.where(), *flags, level="local")

    def measure(self, system: str, clients: int) -> Result:
        """By pgbench, whose lengths are whole seconds."""
        with tempfile.TemporaryDirectory(dir=self.place) as times:
            command = ["-n", "-M", "prepared", "-f", str(self.place / "script"), "-c", str(clients)]
            command += ["-j", str(min(clients, os.cpu_count() or 1))]
            command += ["-T", str(math.ceil(self.settings.seconds))]
            command += ["--log", f"--log-prefix={times}/log", *self.where(), "postgres"]
            said = self.run("pgbench", *command, level=self.levels[system])
            logs = [path.read_text() for path in Path(times).iterdir()]
        # Each line: client, number, microseconds, and more.
        us = sorted(int(line.split()[2]) for log in logs for line in log.splitlines())
        rate = re.search(r"^tps = ([0-9.]+)", said, re.MULTILINE)
        if not us or not rate:
            raise Failed(f"pgbench: {last_line(said)}")
        quantiles = {f"p{share}_us": us[share * len(us) // 100] for share in (50, 99)}
        return {"commits": len(us), "commits_per_second": float(rate[1]), **quantiles}


# -------------------------------------------------------------------------- Redis and etcd


class Put(Cluster):
    """By the program `put`."""

    port = 0

    def measure(self, system: str, clients: int) -> Result:
        command = [self.program("put"), "--server", system, "--port", str(self.port)]
        return result_of([*command, *self.length(clients, "--clients")])


class Redis(Put):
    systems = {"redis": "the disk of one server, the memory of another"}

    def start(self, stack: ExitStack) -> str:
        program = need("redis-server", "redis-server")
        self.place.mkdir()
        self.port, port = free_ports(2)
        follow = ["--replicaof", HOST, str(self.port)]
        primary = self.node(stack, "primary", self.port, ["--repl-diskless-sync-delay", "0"])
        await_ready([primary], lambda: "role:master" in self.replication())
        replica = self.node(stack, "replica", port, follow)
        await_ready([primary, replica], lambda: "state=online" in self.replication())
        version = re.search(r"v=(\S+)", run([program, "--version"]))
        return f"Redis {version[1] if version else '?'}"

    def node(self, stack: ExitStack, name: str, port: int, more: list[str]) -> Node:
        place = self.place / name
        place.mkdir()
        command = ["redis-server", "--port", str(port), "--bind", HOST, "--dir", str(place)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always", *more]
        return stack.enter_context(running(f"Redis' {name}", command, place / "log"))

    def replication(self) -> str:
        with socket.create_connection((HOST, self.port), timeout=5) as s:
            s.sendall(b"INFO replication\r\nQUIT\r\n")
            return b"".join(iter(functools.partial(s.recv, 4096), b"")).decode()


class Etcd(Put):
    systems = {"etcd": "the disks of two of three members"}

    def start(self, stack: ExitStack) -> str:
        program = need("etcd", "etcd-server")
        self.place.mkdir()
        ports = free_ports(6)
        members = ",".join(f"m{k}=http://{HOST}:{port}" for k, port in enumerate(ports[:3]))
        nodes = [
            self.node(stack, f"m{k}", ports[k], ports[3 + k], members)
            for k in range(len(ports) // 2)
        ]
        await_ready(nodes, lambda: self.find_leader(ports[3:]))
        return "etcd " + run([program, "--version"]).splitlines()[0].split()[-1]

    def node(self, stack: ExitStack, name: str, peer: int, port: int, members: str) -> Node:
        command = ["etcd", "--name", name, "--data-dir", str(self.place / name)]
        command += ["--logger", "zap", "--log-level", "error", "--initial-cluster", members]
        for kind, each in (("peer", peer), ("client", port)):
            command += [f"--listen-{kind}-urls", f"http://{HOST}:{each}"]
        command += ["--advertise-client-urls", f"http://{HOST}:{port}"]
        command += ["--initial-advertise-peer-urls", f"http://{HOST}:{peer}"]
        log = self.place / f"{name}.log"
        return stack.enter_context(running(f"etcd's {name}", command, log))

    def find_leader(self, ports: list[int]) -> bool:
        """All members know the same one; the clients ask it."""
        states = [(self.status(port), port) for port in ports]
        leaders = {state["leader"] for state, _ in states}
        for state, port in states:
            if leaders == {state["header"]["member_id"]}:
                self.port = port
                return True
        return False

    def status(self, port: int) -> dict[str, Any]:
        connection = http.client.HTTPConnection(HOST, port, timeout=5)
        with contextlib.closing(connection):
            connection.request("POST", "/v3/maintenance/status", "{}")
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return {"leader": "", **answer}


CLUSTERS: tuple[type[Cluster], ...] = (Fur, FurKafka, Postgres, Redis, Etcd)
SYSTEMS = {name: where for cluster in CLUSTERS for name, where in cluster.systems.items()}
