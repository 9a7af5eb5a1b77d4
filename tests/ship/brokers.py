#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real brokers of Apache Kafka for tests: three nodes on this machine's loopback, each a broker and
a controller, which end with this program.

    brokers.py [--nodes N] [--limit SECONDS] [--keep DIRECTORY] [--share] COMMAND [ARGUMENT...]

Starts the brokers, runs COMMAND, and ends them.  COMMAND finds in its environment

    FUR_KAFKA            HOST:PORT,HOST:PORT,...
    FUR_KAFKA_SECURE     the same, of listeners with TLS, and SASL's mechanism PLAIN for the user
                         "fur" with the password "secret"; only where openssl is there
    FUR_KAFKA_CA         the file of the authority that has signed the brokers' certificate
    FUR_KAFKA_CONTROL    a Unix socket: a line "kill N", "pause N", "resume N" or "start N" does
                         that to node N = 1, 2 ...; "wait" waits until all nodes that run are ready.
                         Each is answered by a line "ok" or "failed: ..."

With --share, a brokers.py that COMMAND runs takes these brokers in place of its own, if it wants
the same version and number of nodes.  Where there are none, COMMAND runs without them.

Kafka comes from Maven, once: its jars stay in $XDG_CACHE_HOME/libfur, or ~/.cache/libfur, beside
what Java has made of their classes.

FUR_KAFKA_VERSION in the environment is the version of Kafka: usual, newest, or a number.

Every node dies with the process that started it, however that ends, and after SECONDS.

Exit status: COMMAND's; 77 if Java, Maven or Kafka cannot be had here, with a line that says which;
1 if the brokers do not start, or the limit was reached.
"""
from __future__ import annotations

import argparse
import base64
import contextlib
import ctypes
import os
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from types import TracebackType

from relay import Relay

KAFKA = "kafka_2.13"
# The versions in use, here and nowhere else.  FUR_KAFKA_VERSION is a word of these, or a number.
VERSIONS = {"usual": "4.1.2", "newest": "4.4.0"}
ASKED = os.environ.get("FUR_KAFKA_VERSION", "usual")
VERSION = VERSIONS.get(ASKED, ASKED)
SKIPPED = 77
READY_S = 120
DOWNLOAD_S = 240
LIMIT_S = 600
NODES = 3
SHARED = "FUR_KAFKA_SHARED"  # the version of brokers that --share has started

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>libfur</groupId>
  <artifactId>brokers</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>{artifact}</artifactId>
      <version>{version}</version>
    </dependency>
  </dependencies>
</project>
"""

# Short times: a broker that is gone is noticed after 3 s.
PROPERTIES = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{secure}{listen}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{secure}{advertise}
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL{map}
log.dirs={data}
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
controller.quorum.election.timeout.ms=1000
controller.quorum.fetch.timeout.ms=2000
replica.lag.time.max.ms=5000
controlled.shutdown.enable=false
num.network.threads=2
num.io.threads=2
background.threads=2
log.cleaner.enable=false
group.coordinator.threads=1
share.coordinator.threads=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
offsets.topic.replication.factor={nodes}
transaction.state.log.replication.factor={nodes}
"""

SECURE_PROPERTIES = """\
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_fur="secret";
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={place}/broker.pem
"""

JVM = ["-Xms96m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
JVM += ["-XX:+IgnoreUnrecognizedVMOptions"]


class Missing(Exception):
    """What brokers need is not here."""


class Broken(Exception):
    """The brokers do not what they should."""


# ------------------------------------------------------------------ Kafka's jars


def cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "libfur"


def classes() -> Path:
    """An archive of Kafka's classes.  With it Java starts in two thirds of the processor time.
    Java ignores a file that is not there, or that another Java has made."""
    return cache() / f"kafka-{VERSION}.jsa"


def made_here() -> Path:
    return classes().with_suffix(f".{os.getpid()}")


def jars() -> Path:
    """The folder with Kafka's jars, which Maven fills if it is not there."""
    if VERSION == "none":
        raise Missing("FUR_KAFKA_VERSION is none")
    for program, package in (("java", "default-jre-headless"), ("mvn", "maven")):
        if not shutil.which(program):
            raise Missing(f"there is no {program}: install the package {package}")
    folder = cache() / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    try:
        cache().mkdir(parents=True, exist_ok=True)
        scratch = tempfile.mkdtemp(prefix="fetch-", dir=cache())
    except OSError as error:
        raise Missing(f"no folder for Kafka's jars: {error}") from error
    try:
        fetch(Path(scratch))
        # Two that fetch at a time: one of them comes first, and has the same.
        with contextlib.suppress(OSError):
            os.rename(f"{scratch}/lib", folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return folder


def fetch(scratch: Path) -> None:
    (scratch / "pom.xml").write_text(POM.format(artifact=KAFKA, version=VERSION))
    command = ["mvn", "-B", "-q", "-Dstyle.color=never", f"-Dmaven.repo.local={scratch}/repository"]
    command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={scratch}/lib"]
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DOWNLOAD_S,
        )
    except subprocess.TimeoutExpired as late:
        raise Missing(f"Maven has not fetched Kafka {VERSION} in {DOWNLOAD_S} s") from late
    if done.returncode or not list(scratch.glob("lib/kafka-server-*.jar")):
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        why = lines[0].strip() if lines else "it says nothing"
        raise Missing(f"Maven does not fetch Kafka {VERSION}: {why[:200]}")


# ------------------------------------------------------------------ certificates


def make_certificates(place: Path) -> bool:
    """An authority (ca.pem), and a certificate of 127.0.0.1 with its key (broker.pem).  False: no
    openssl is here."""
    if not shutil.which("openssl"):
        return False
    made = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "ca.key"]
    openssl(place, "req", *made, "-out", "ca.pem", "-subj", "/CN=libfur tests")
    asked = ["-newkey", "rsa:2048", "-nodes", "-keyout", "broker.key", "-out", "broker.csr"]
    openssl(place, "req", *asked, "-subj", "/CN=127.0.0.1")
    (place / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ["-req", "-in", "broker.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2"]
    signed += ["-CAcreateserial", "-extfile", "names", "-out", "broker.crt"]
    openssl(place, "x509", *signed)
    pieces = [(place / name).read_text() for name in ("broker.key", "broker.crt", "ca.pem")]
    (place / "broker.pem").write_text("".join(pieces))
    return True


def openssl(place: Path, *words: str) -> None:
    done = subprocess.run(
        ["openssl", *words],
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise Broken(f"openssl {words[0]}: {done.stdout}")


# ------------------------------------------------------------------ nodes

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """In a child, before it runs its program."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)  # the parent has died already


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def random_id() -> str:
    """A random number as Kafka writes it; a leading '-' would look like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def receive(s: socket.socket, n: int) -> bytes:
    got = b""
    while len(got) < n:
        piece = s.recv(n - len(got))
        if not piece:
            raise OSError("closed")
        got += piece
    return got


def brokers_known_to(port: int) -> int:
    """How many brokers a broker knows: a Metadata request, version 1, for no topic."""
    request = struct.pack(">hhihi", 3, 1, 1, -1, 0)
    with socket.create_connection(("127.0.0.1", port), timeout=2) as s:
        s.settimeout(5)
        s.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", receive(s, 4))
        answer = receive(s, size)
    (brokers,) = struct.unpack(">i", answer[4:8])
    return int(brokers)


def delete_records(port: int, topic: str, before: int) -> int:
    """Ask a broker to forget messages, as retention does; returns Kafka's error, 6 if another one
    leads: a DeleteRecords request, version 1."""
    name = topic.encode()
    request = struct.pack(">hhih", 21, 1, 1, -1)
    request += struct.pack(">ih", 1, len(name)) + name
    request += struct.pack(">iiqi", 1, 0, before, 30000)
    with socket.create_connection(("127.0.0.1", port), timeout=40) as s:
        s.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", receive(s, 4))
        answer = receive(s, size)
    (error,) = struct.unpack(">h", answer[-2:])
    return int(error)


def addresses(names: list[str], ports: list[int]) -> str:
    return "".join(f",{name}://127.0.0.1:{port}" for name, port in zip(names, ports))


class Node:
    def __init__(self, number: int, port: int, secure: int, place: Path):
        self.number, self.port, self.secure, self.place = number, port, secure, place
        self.relays: list[Relay] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.paused = False

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, classpath: str) -> None:
        """Only in a thread that lives as long as the node is to live."""
        makes = self.number == 1 and not classes().exists()
        option = (
            f"ArchiveClassesAtExit={made_here()}" if makes else f"SharedArchiveFile={classes()}"
        )
        with open(self.place / "log", "ab") as log:
            self.process = subprocess.Popen(
                ["java", *JVM, f"-XX:{option}", "-cp", classpath, "kafka.Kafka", "properties"],
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        self.paused = False

    def signal(self, number: int) -> None:
        if self.process and self.runs:
            self.process.send_signal(number)
            self.paused = number == signal.SIGSTOP

    def make_classes(self) -> None:
        """Java writes the archive when it ends by SIGTERM."""
        self.signal(signal.SIGTERM)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            if self.process and self.process.wait(30) == 128 + signal.SIGTERM:
                made_here().rename(classes())

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self.process:
            self.process.wait()
        self.paused = False


class Cluster:
    """Nodes 1, 2, ... that end with the `with` block, with the process, or after `limit_s`.
    Besides, each has `sides` listeners that clients reach only through a relay of its own."""

    def __init__(
        self, nodes: int = 3, limit_s: float = LIMIT_S, keep: str | None = None, sides: int = 0
    ):
        self.limit_s, self.keep, self.sides = limit_s, keep, sides
        self.classpath = f"{jars()}/*"
        self.place = Path(keep or tempfile.mkdtemp(prefix="fur-kafka-"))
        self.nodes: list[Node] = []
        self.count = nodes
        self.timer = threading.Timer(limit_s, self.end_nodes)
        self.timer.daemon = True
        self.over = False
        self.has_secure = False

    @property
    def ca(self) -> str:
        return str(self.place / "ca.pem")

    @property
    def secure(self) -> str:
        return ",".join(f"127.0.0.1:{node.secure}" for node in self.nodes)

    @property
    def brokers(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def brokers_of(self, side: int) -> str:
        """The same, through the relays of this side."""
        return ",".join(f"127.0.0.1:{node.relays[side].port}" for node in self.nodes)

    def __enter__(self) -> Cluster:
        self.timer.start()
        try:
            self.prepare()
            for node in self.nodes:
                node.start(self.classpath)
            self.wait()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()

    def prepare(self) -> None:
        # Before the ports are free for others.
        all_relays = [[Relay() for _ in range(self.sides)] for _ in range(self.count)]
        ports = free_ports((3 + self.sides) * self.count)
        self.place.mkdir(parents=True, exist_ok=True)
        self.has_secure = make_certificates(self.place)
        voters = ",".join(f"{n + 1}@127.0.0.1:{ports[2 * n + 1]}" for n in range(self.count))
        for n in range(self.count):
            place = self.place / f"node-{n + 1}"
            place.mkdir(parents=True)
            secure = ports[2 * self.count + n]
            behind = ports[3 * self.count + n :: self.count]
            relays = all_relays[n]
            for relay, port in zip(relays, behind):
                relay.target = port
            names = [f"SIDE{side}" for side in range(self.sides)]
            text = PROPERTIES.format(
                node=n + 1,
                nodes=self.count,
                voters=voters,
                port=ports[2 * n],
                controller=ports[2 * n + 1],
                data=place / "data",
                secure=f",SECURE://127.0.0.1:{secure}" if self.has_secure else "",
                listen=addresses(names, behind),
                advertise=addresses(names, [relay.port for relay in relays]),
                map="".join(f",{name}:PLAINTEXT" for name in names),
            )
            if self.has_secure:
                text += SECURE_PROPERTIES.format(place=self.place)
            (place / "properties").write_text(text)
            self.nodes.append(Node(n + 1, ports[2 * n], secure, place))
            self.nodes[-1].relays = relays
        self.format()

    def make_another(self) -> None:
        """Another cluster takes these nodes' place, with the same addresses."""
        for node in self.nodes:
            node.kill()
            shutil.rmtree(node.place / "data")
        self.format()
        for node in self.nodes:
            node.start(self.classpath)
        self.wait()

    def format(self) -> None:
        """Kafka formats the first node's folder; a copy with a number of its own does for the
        others, and saves a start of Java each."""
        first = self.nodes[0].place
        command = ["java", *JVM, f"-XX:SharedArchiveFile={classes()}", "-cp", self.classpath]
        command += ["kafka.tools.StorageTool", "format"]
        command += ["-t", random_id(), "-c", str(first / "properties")]
        done = subprocess.run(
            command,
            cwd=first,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_parent,
            timeout=READY_S,
        )
        if done.returncode:
            raise Broken(f"Kafka does not format its folder:\n{done.stdout}")
        for node in self.nodes[1:]:
            shutil.copytree(first / "data", node.place / "data")
            file = node.place / "data" / "meta.properties"
            text = ""
            for line in file.read_text().splitlines():
                key = line.split("=", 1)[0]
                value = {"node.id": str(node.number), "directory.id": random_id()}.get(key)
                text += (f"{key}={value}" if value else line) + "\n"
            file.write_text(text)

    def wait(self, seconds: float = READY_S) -> None:
        """Until each node that runs knows all that do."""
        until = time.monotonic() + seconds
        running = [node for node in self.nodes if node.runs and not node.paused]
        for node in running:
            while True:
                with contextlib.suppress(OSError, struct.error):
                    if brokers_known_to(node.port) >= len(running):
                        break
                if not node.runs:
                    raise Broken(f"node {node.number} has ended:\n{self.tail(node)}")
                if time.monotonic() > until:
                    raise Broken(f"node {node.number} is not ready:\n{self.tail(node)}")
                time.sleep(0.2)

    def tail(self, node: Node) -> str:
        lines = (node.place / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-30:])

    def node(self, number: int) -> Node:
        if not 1 <= number <= len(self.nodes):
            raise Broken(f"there is no node {number}")
        return self.nodes[number - 1]

    def command(self, line: str) -> str:
        words = line.split()
        try:
            if words == ["wait"]:
                self.wait()
                return "ok"
            node = self.node(int(words[1]))
            if words[0] == "kill":
                node.kill()
            elif words[0] in ("pause", "resume"):
                node.signal(signal.SIGSTOP if words[0] == "pause" else signal.SIGCONT)
            elif words[0] == "start" and not node.runs and not self.over:
                node.start(self.classpath)
            else:
                return f"failed: '{line}' makes no sense now"
        except (Broken, IndexError, ValueError) as error:
            return "failed: " + str(error).replace("\n", " | ")
        return "ok"

    def end_nodes(self) -> None:
        self.over = True
        for node in self.nodes:
            node.signal(signal.SIGKILL)

    def end(self) -> None:
        self.timer.cancel()
        self.over = True
        if self.nodes and not classes().exists():
            self.nodes[0].make_classes()
        for node in self.nodes:
            node.kill()
            for relay in node.relays:
                relay.close()
        if not self.keep:
            shutil.rmtree(self.place, ignore_errors=True)


# ------------------------------------------------------------------ a command beside them


class Door:
    """The control socket: one command at a time."""

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.path = str(cluster.place / "control")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen()

    def serve(self) -> None:
        """One connection with one line."""
        connection, _ = self.socket.accept()
        connection.settimeout(10)
        with contextlib.suppress(OSError), connection:
            line = connection.makefile("r").readline().strip()
            connection.sendall((self.cluster.command(line) + "\n").encode())


def stop(child: subprocess.Popen[bytes], limit_s: float) -> int:
    child.kill()
    child.wait()
    print(f"brokers.py: not done in {limit_s:g} s", file=sys.stderr)
    return 1


def status_of(child: subprocess.Popen[bytes]) -> int:
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def run_beside(cluster: Cluster, command: list[str], share: bool = False) -> int:
    door = Door(cluster)
    env = dict(os.environ, FUR_KAFKA=cluster.brokers, FUR_KAFKA_CONTROL=door.path)
    if share:
        env[SHARED] = VERSION
    if cluster.has_secure:
        env.update(FUR_KAFKA_SECURE=cluster.secure, FUR_KAFKA_CA=cluster.ca)
    until = time.monotonic() + cluster.limit_s
    child = subprocess.Popen(command, env=env, preexec_fn=die_with_parent)
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(door.socket, selectors.EVENT_READ)
            while child.poll() is None:
                if time.monotonic() > until:
                    return stop(child, cluster.limit_s)
                if ready.select(0.1):
                    door.serve()
    except KeyboardInterrupt:
        child.terminate()  # it ends its own children, which our death would not
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(10)
        raise
    return status_of(child)


def shares(a: argparse.Namespace) -> bool:
    """Does another brokers.py share what this one is asked for?"""
    return os.environ.get(SHARED) == VERSION and a.nodes == NODES and not a.keep


def run_without(command: list[str], limit_s: float) -> int:
    """COMMAND, with what it finds in our environment."""
    child = subprocess.Popen(command, preexec_fn=die_with_parent)
    try:
        child.wait(limit_s)
    except subprocess.TimeoutExpired:
        return stop(child, limit_s)
    return status_of(child)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=NODES, choices=range(1, 6), metavar="N")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="SECONDS")
    parser.add_argument("--keep", metavar="DIRECTORY", help="the nodes' files stay there")
    parser.add_argument("--share", action="store_true", help="also with what COMMAND runs")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND")
    a = parser.parse_args()
    if not a.command:
        parser.error("which command is to run?")
    # As SIGINT does: the brokers' `with` block ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if shares(a):
            return run_without(a.command, a.limit)
        with Cluster(a.nodes, a.limit, a.keep) as cluster:
            return run_beside(cluster, a.command, a.share)
    except (Missing, Broken) as why:
        if a.share:
            return run_without(a.command, a.limit)
        if isinstance(why, Missing):
            print(f"skipped: {why}")
            return SKIPPED
        print(f"brokers.py: {why}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("brokers.py: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
