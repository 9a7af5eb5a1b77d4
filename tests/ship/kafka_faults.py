#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A primary and a standby over Apache Kafka, while something fails that a seed chooses.

    kafka_faults.py PART BUILD [--seed N] [--rounds N]

starts its own brokers, as brokers.py does, and takes the programs of BUILD.  PART is one of

    kills       each of the program, fur-ship, fur-standby and a broker is killed, --rounds times
                (ship_kills.cpp)
    partitions  the network between the brokers and the primary, the standby, one broker of both, or
                all is cut, swallows, delays or tears: whatever has returned as replicated is at the
                standby, also if it takes over meanwhile, and then the old primary is fenced
    disks       the disks of one broker, and of two, are full
    retention   the topic has lost what a standby, or the primary, has not read: it says so, and
                applies nothing
    clusters    another cluster answers, whose topic has the same name: all that come say so
    clocks      the wall clock jumps, back and forth, under fur-ship, fur-standby and the program

What happens when depends on the machine as well, so a seed repeats the faults, not their instants.

Exit status: 0; 77 if Java, Maven or Kafka cannot be had here, with a line that says which; 1.
"""
import argparse
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time

import brokers
from programs import Recorded, newest, run, until

FENCED, PROMOTED, FAILED = 3, 4, 3
PRIMARY, STANDBY = 0, 1  # sides of the relays


class Place:
    """What all parts use: the programs, the brokers, a folder for heaps, and chance."""

    def __init__(self, build, cluster, folder, seed):
        self.build, self.cluster, self.folder = build, cluster, folder
        self.random = random.Random(seed)
        self.ship = f"{build}/src/fur_ship/fur-ship"
        self.standby = f"{build}/src/fur_standby/fur-standby"
        self.copier = f"{build}/tools/fur-copy"
        self.info = f"{build}/tools/fur-info"
        self.heap = f"{build}/tests/ship/shipped-heap"
        self.env = dict(os.environ)

    def start(self, *args):
        return Recorded(self.folder, *args, env=self.env)

    def shown(self, path):
        return int(run(self.heap, "show", path))

    def log(self, topic, side=None):
        at = self.cluster.brokers if side is None else self.cluster.brokers_of(side)
        return f"kafka:{at}/{topic}"


def write_more(program, n=100):
    """Until n more updates of the program have returned."""
    at = newest(program.said())
    program.until(lambda text: newest(text) >= at + n, "no update returns")


class Pair:
    """A primary and its standby, each with its name of the log, and the programs beside them."""

    ship: Recorded
    keeper: Recorded
    program: Recorded

    def __init__(self, place, name, sides=False):
        self.place, self.topic = place, name
        self.paths = [os.path.join(place.folder, name + end) for end in ("-first", "-second")]
        self.logs = [place.log(name, n if sides else None) for n in (PRIMARY, STANDBY)]
        self.started: list[Recorded] = []
        run(place.heap, "make", self.primary)
        run(place.ship, "--init", self.primary, "--log", self.logs[0])
        self.copy()

    @property
    def primary(self):
        return self.paths[0]

    @property
    def standby(self):
        return self.paths[1]

    def copy(self):
        """A new standby."""
        if os.path.exists(self.standby):
            os.unlink(self.standby)
        run(self.place.copier, "--for-standby", self.primary, self.standby)
        run(self.place.heap, "log", self.standby, self.logs[1])

    def begin(self, *args):
        self.started.append(self.place.start(*args))
        return self.started[-1]

    def start_ship(self):
        self.ship = self.begin(self.place.ship, self.primary)

    def start_keeper(self, *options):
        self.keeper = self.begin(self.place.standby, self.standby, *options)
        self.keeper.until(lambda text: "follows" in text, "it does not follow")

    def start_program(self, level):
        self.program = self.begin(self.place.heap, "write", self.primary, level, "0")
        write_more(self.program, 20)

    def start(self, level="replicated", *options):
        self.start_ship()
        self.start_keeper(*options)
        self.start_program(level)

    def await_closed(self):
        until(
            lambda: "\nclosed\n" in run(self.place.ship, "--status", self.primary),
            f"the primary is not recovered: {self.ship.said()}",
        )

    def stop(self):
        """The program is killed, and the standby gets all that there is: both heaps are equal.
        Everything has ended then."""
        returned = newest(self.program.kill())
        self.await_closed()
        last = self.place.shown(self.primary)
        assert last >= returned, (last, returned, "lost")
        until(lambda: self.place.shown(self.standby) == last, self.keeper.said())
        self.keeper.end(0, signal.SIGTERM)
        self.ship.end(0, signal.SIGTERM)
        run(self.place.heap, "compare", self.primary, self.standby)

    def kill(self):
        for each in self.started:
            each.kill()

    def check_fail_over(self):
        """The standby takes over while the primary cannot see that; heal() lets it see."""
        run(self.place.standby, "--promote", self.standby)
        self.keeper.end(PROMOTED)
        return self.place.shown(self.standby)

    def check_fenced(self, there):
        """The old primary, when it sees the log again: what has returned is in the new one."""
        self.ship.end(FENCED)
        said = self.program.end(FAILED)
        assert "error -24" in said, said[-300:]
        returned = newest(said.partition("error")[0])
        assert there >= returned, (there, returned, "lost")

    def swap(self):
        self.paths.reverse()
        self.logs.reverse()


# ------------------------------------------------------------------------- kills


def kills(place, rounds, seed):
    command = [f"{place.build}/tests/ship/ship-kills", "--kills", str(rounds), "--seed", str(seed)]
    command += ["--log", place.log("kills"), "--directory", place.folder, "--verbose"]
    status = brokers.run_beside(place.cluster, command)
    assert status == 0, f"ship-kills: status {status}"


# -------------------------------------------------------------------- partitions

WHERE = ("the primary", "the standby", "one broker", "all")
FAULTS = ("cut", "swallow", "delay", "tear")


def relays_of(place, where, first):
    """first: the side of the primary."""
    relays = [node.relays for node in place.cluster.nodes]
    if where == "one broker":
        return place.random.choice(relays)
    sides = {"the primary": [first], "the standby": [1 - first]}.get(where, [0, 1])
    return [of_node[side] for of_node in relays for side in sides]


def one_partition(place, pair, first, where, fault):
    """Returns whether the standby has taken over."""
    relays = relays_of(place, where, first)
    seconds = 1 + 3 * place.random.random()
    for relay in relays:
        relay.set(fault, seconds)
    time.sleep(8 * place.random.random())
    takes_over = where == "the primary" and fault != "tear" and place.random.random() < 0.7
    there = pair.check_fail_over() if takes_over else 0
    for relay in relays:
        relay.set("pass")
    if takes_over:
        pair.check_fenced(there)
        return True
    write_more(pair.program)
    pair.stop()
    return False


def partitions(place, rounds, _seed):
    pair = Pair(place, "partitions", sides=True)
    cases = [(where, fault) for where in WHERE for fault in FAULTS]
    order: list[tuple[str, str]] = []
    first = PRIMARY
    try:
        for _ in range(rounds):
            order = order or place.random.sample(cases, len(cases))
            where, fault = order.pop()
            level = "replicated" if where == "the primary" else place.random.choice(LEVELS)
            print(f"{fault}: {where}, {level}", flush=True)
            pair.start(level)
            if one_partition(place, pair, first, where, fault):
                print("    the standby has taken over", flush=True)
                pair.swap()
                first = 1 - first
    finally:
        pair.kill()


LEVELS = ("replicated", "local")

# ------------------------------------------------------------------------- disks


def fill_disk(node):
    """Its files do not grow beyond the largest of its logs and a few bytes."""
    logs = [path.stat().st_size for path in (node.place / "data").rglob("*.log")]
    most = max(logs) + 20000
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (most, most))


def disks(place, rounds, _seed):
    pair = Pair(place, "disks")
    try:
        for round_ in range(rounds):
            pair.start()
            full = place.random.sample(place.cluster.nodes, 1 + round_ % 2)
            for node in full:
                fill_disk(node)
            # Kafka ends a broker whose only folder cannot be written.
            for node in full:
                until(lambda n=node: not n.runs, "a broker with a full disk goes on")
            if len(full) == 1:
                write_more(pair.program)
            print(f"{len(full)} full, {newest(pair.program.said())} returned", flush=True)
            for node in full:
                node.start(place.cluster.classpath)
            place.cluster.wait()
            write_more(pair.program)
            pair.stop()
    finally:
        pair.kill()


# --------------------------------------------------------------------- retention


def forget(place, topic, before):
    """The topic forgets its oldest messages; the broker that leads it has to be asked."""

    def forgotten():
        ports = [node.port for node in place.cluster.nodes]
        return 0 in [brokers.delete_records(port, topic, before) for port in ports]

    until(forgotten, "no broker forgets")


def says(place, program, path, text):
    """It says in one line what is wrong, and tries again: somebody may mend it."""
    before = place.shown(path)
    daemon = place.start(program, path, "--quiet")
    daemon.until(lambda said: text in said and "trying again" in said, "it says nothing")
    said = daemon.kill()
    assert said.count("\n") == 1, said
    assert place.shown(path) == before, "it has applied something"
    print(f"    {said.strip()}", flush=True)


def refuses(place, program, path, text):
    """It says so in one line with the remedy, and changes nothing.  May begin before it does."""
    before = place.shown(path)
    daemon = place.start(program, path, "--quiet")
    said = daemon.end(1)
    assert text in said and said.count("\n") == 1, said
    assert place.shown(path) == before, "it has applied something"
    print(f"    {said.strip()}", flush=True)


NEW_COPY = "start again from a newer copy of the heap"


def primary_refuses(pair, text):
    """fur-ship looks when a program opens the heap; no update begins."""
    pair.start_ship()
    program = pair.begin(pair.place.heap, "write", pair.primary, "impatient", "1")
    assert "start fur-ship" in program.end(FAILED)
    said = pair.ship.end(1)
    assert text in said, said


def offset_of(place, path):
    """From where a primary reads the log if it is recovered, and where its copies begin."""
    return json.loads(run(place.info, path, "--json"))["shipping"]["offset"] or 0


def retention(place, rounds, _seed):
    for round_ in range(rounds):
        pair = Pair(place, f"retention-{round_}")
        try:
            pair.start(place.random.choice(LEVELS))
            write_more(pair.program, 10 + place.random.randrange(200))
            pair.keeper.end(0, signal.SIGTERM)
            at = int(run(place.heap, "at", pair.standby))
            write_more(pair.program, 100 + place.random.randrange(200))
            # The standby has read the message at `at`, and no more.
            first = at + 2 + place.random.randrange(20)
            print(f"round {round_}: the standby was at {at}, the log begins at {first}", flush=True)
            forget(place, pair.topic, first)
            refuses(place, place.standby, pair.standby, NEW_COPY)
            # The program does not care.  The primary's position follows, and so copies are newer.
            until(lambda n=first: offset_of(place, pair.primary) > n, "its position does not move")
            pair.copy()
            pair.start_keeper()
            write_more(pair.program)
            pair.stop()
            # The primary was off meanwhile.
            forget(place, pair.topic, -1)
            primary_refuses(pair, NEW_COPY)
        finally:
            pair.kill()


# ---------------------------------------------------------------------- clusters


WENT_BACK = "the stream went back"


def clusters(place, rounds, _seed):
    for round_ in range(rounds):
        name = f"clusters-{round_}"
        pair = Pair(place, name)
        other = os.path.join(place.folder, name + "-other")
        try:
            pair.start()
            write_more(pair.program, 50 + place.random.randrange(100))
            pair.stop()
            place.cluster.make_another()
            print(f"round {round_}: no such topic", flush=True)
            says(place, place.standby, pair.standby, "see whether the name is right")
            run(place.heap, "make", other)
            run(place.ship, "--init", other, "--log", pair.logs[0])
            print(f"round {round_}: a shorter topic", flush=True)
            refuses(place, place.standby, pair.standby, WENT_BACK)
            stranger = place.start(place.ship, other)
            assert run(place.heap, "write", other, "replicated", "2000").endswith("\n2000\n")
            stranger.end(0, signal.SIGTERM)
            print(f"round {round_}: a longer topic", flush=True)
            refuses(place, place.standby, pair.standby, WENT_BACK)
            primary_refuses(pair, WENT_BACK)
        finally:
            pair.kill()


# ------------------------------------------------------------------------ clocks


TAKEOVER_MS = 30000


class Clock:
    """The wall clock of programs that jumping_clock.so is loaded into."""

    def __init__(self, place):
        self.name = os.path.join(place.folder, "clock")
        self.jump_to(0)
        place.env["FUR_CLOCK"] = self.name
        place.env["LD_PRELOAD"] = f"{place.build}/tests/ship/jumping-clock.so"

    def jump_to(self, seconds):
        """From the machine's own."""
        with open(self.name, "r+b" if os.path.exists(self.name) else "w+b") as file:
            file.write(struct.pack("<q", seconds))


def clocks(place, rounds, _seed):
    clock = Clock(place)
    clock.jump_to(1000000)
    date = place.start("date", "+%s")
    assert int(date.end(0)) > time.time() + 900000, "the clock does not jump"
    clock.jump_to(0)
    pair = Pair(place, "clocks")
    try:
        for _ in range(rounds):
            level = place.random.choice(LEVELS)
            pair.start(level, "--takeover", str(TAKEOVER_MS))
            for _ in range(6):
                seconds = place.random.choice((-1, 1)) * int(10 ** (5 * place.random.random()))
                clock.jump_to(seconds)
                write_more(pair.program)
                last = newest(pair.program.said())
                until(lambda n=last: place.shown(pair.standby) >= n, "the standby stands still")
                print(f"the clock differs by {seconds} s: {last} returned", flush=True)
            # It has not taken the primary for silent, and does so when it is.
            returned = newest(pair.program.kill())
            pair.ship.kill()
            clock.jump_to(-100000)
            pair.keeper.end(PROMOTED)
            there = place.shown(pair.standby)
            print(f"the standby has taken over, with {there}", flush=True)
            assert there >= (returned if level == "replicated" else last), (there, returned)
            pair.swap()
            clock.jump_to(0)
    finally:
        pair.kill()


# -------------------------------------------------------------------------- main

PARTS = {
    "kills": kills,
    "partitions": partitions,
    "disks": disks,
    "retention": retention,
    "clusters": clusters,
    "clocks": clocks,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=PARTS, metavar="PART")
    parser.add_argument("build", metavar="BUILD")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=2, metavar="N")
    parser.add_argument("--limit", type=float, default=7200, metavar="SECONDS")
    parser.add_argument("--keep", metavar="DIRECTORY", help="the brokers' files stay there")
    a = parser.parse_args()
    build = os.path.abspath(a.build)
    os.environ["LD_LIBRARY_PATH"] = f"{build}/src"
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    # The brokers end, and their folders.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"{a.part}, seed {a.seed}, {a.rounds} rounds, Kafka {brokers.VERSION}", flush=True)
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="fur-faults-", dir=memory) as folder:
            with brokers.Cluster(3, a.limit, a.keep, sides=2) as cluster:
                PARTS[a.part](Place(build, cluster, folder, a.seed), a.rounds, a.seed)
    except brokers.Missing as missing:
        print(f"skipped: {missing}")
        return brokers.SKIPPED
    print(f"ok, {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
