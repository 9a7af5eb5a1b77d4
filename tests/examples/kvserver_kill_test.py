#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kill kvserver again and again while clients write: it has lost nothing that it acknowledged, and
an EXEC is there as a whole or not at all.

    kvserver_kill_test.py [--lives N] [--clients N] [--fsync everysec] [--must-lose]
                          KVSERVER DIRECTORY

Each client has keys of its own, and knows for each what the server has acknowledged last, and what
it has sent since.  With --fsync everysec the server may lose the last second, but nothing older,
and all that it keeps is still whole.  --must-lose holds everysec to what `always` promises: the
test succeeds if it finds the loss.
"""
import argparse
import random
import sys
import tempfile
import threading
import time

from kv_client import Client, Server

KEYS = 40  # of each client
LATE = 2.5  # with everysec: how old an update is that must have survived, in seconds


class Writer:
    """A client that writes until the server dies.  `sent` has, for each key, the values that it may
    have: the first is acknowledged, the others are on their way."""

    def __init__(self, number, seed):
        self.number = number
        self.random = random.Random(seed)
        self.sent = {}  # key: [(value or None, when acknowledged)]
        self.next = 0
        self.failures = []

    def key(self):
        return f"{self.number}:{self.random.randrange(KEYS)}"

    def value(self):
        """Of various sizes, and each of them once."""
        self.next += 1
        size = self.random.choice([0, 3, 60, 60, 60, 500, 5000, 40000])
        return f"{self.next}." + "x" * self.random.randrange(size + 1)

    def commands(self):
        """Some commands, and the values that they give to keys."""
        key, value = self.key(), self.value()
        kind = self.random.randrange(8)
        if kind == 0:
            return [("DEL", key)], {key: None}
        if kind == 1:
            return [("SET", key, value, "PX", 10**9)], {key: value}
        if kind == 2:
            pair = {f"{self.number}:left": value, f"{self.number}:right": value}
            sets = [("SET", *item) for item in pair.items()]
            return [("MULTI",), *sets, ("EXEC",)], pair
        if kind == 3:
            other = f"{self.number}:mset"
            return [("MSET", key, value, other, value)], {key: value, other: value}
        if kind == 4:
            counter = f"{self.number}:counter"
            was = int((self.sent.get(counter) or [("0", 0)])[-1][0] or 0)
            return [("INCR", counter)], {counter: str(was + 1)}
        return [("SET", key, value)], {key: value}

    def step(self, client):
        """A pipeline of some commands.  Its values are on their way until all are answered."""
        replies = 0
        data = []
        for _ in range(self.random.choice([1, 1, 4, 16])):
            commands, values = self.commands()
            replies += len(commands)
            data += commands
            for key, value in values.items():
                self.sent.setdefault(key, [(None, 0)]).append((value, None))
        for command in data:
            client.send(*command)
        for _ in range(replies):
            reply = client.receive()
            if isinstance(reply, Exception):
                self.failures.append(f"{reply}")
        self.acknowledge()

    def acknowledge(self):
        """All that was on its way.  Forget what is too old for everysec to fall back to."""
        now = time.monotonic()
        for key, values in self.sent.items():
            if values[-1][1] is not None:
                continue
            values = [(value, now if when is None else when) for value, when in values]
            settled = [k for k, (_, when) in enumerate(values) if when <= now - 2 * LATE]
            self.sent[key] = values[settled[-1] if settled else 0 :]

    def run(self, port):
        try:
            client = Client(port)
            while True:
                self.step(client)
        except OSError:
            pass  # killed

    def candidates(self, key, killed, late):
        """The values that a key may have after the kill."""
        values = self.sent[key]
        settled = [
            k for k, (_, when) in enumerate(values) if when is not None and when <= killed - late
        ]
        return [value for value, _ in values[settled[-1] :]]

    def check(self, client, killed, late):
        """What is lost, or wrong; and go on from what is there."""
        wrong = list(self.failures)
        found = {}
        for key in self.sent:
            data = client.call("GET", key)
            found[key] = data if data is None else data.decode()
            allowed = self.candidates(key, killed, late)
            if found[key] not in allowed:
                short = [str(value)[:20] for value in (found[key], allowed[0], allowed[-1])]
                wrong.append(f"{key} is {short[0]}, not between {short[1]} and {short[2]}")
        left, right = f"{self.number}:left", f"{self.number}:right"
        if found.get(left) != found.get(right):
            wrong.append(f"half of an EXEC: {left} and {right} differ")
        self.sent = {key: [(value, 0)] for key, value in found.items()}
        return wrong


def live(options, heap, writers, seconds):
    """A life of the server, and what the next one has lost."""
    server = Server(options.kvserver, heap, "--fsync", options.fsync, *options.server)
    threads = [threading.Thread(target=w.run, args=[server.port]) for w in writers]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    killed = time.monotonic()
    server.kill()
    for thread in threads:
        thread.join()
    server = Server(options.kvserver, heap, *options.server)
    late = 0 if options.fsync == "always" or options.must_lose else LATE
    client = server.client()
    wrong = [text for w in writers for text in w.check(client, killed, late)]
    keys = client.call("DBSIZE")
    client.close()
    server.stop()
    return wrong, keys


def parse():
    parser = argparse.ArgumentParser(description="Kill kvserver while clients write.")
    parser.add_argument("kvserver")
    parser.add_argument("directory")
    parser.add_argument("--lives", type=int, default=15)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--fsync", choices=["always", "everysec"], default="always")
    parser.add_argument("--must-lose", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # A small log, which libfur replays now and then.
    options.server = ["--log-mb", "2"]
    return options


def main():
    options = parse()
    print(f"--seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    writers = [Writer(n, rng.random()) for n in range(options.clients)]
    late = options.fsync == "everysec" and not options.must_lose
    with tempfile.TemporaryDirectory(dir=options.directory) as place:
        for life in range(options.lives):
            seconds = rng.uniform(4, 5) if late else rng.uniform(0.05, 0.6)
            wrong, keys = live(options, f"{place}/heap.fur", writers, seconds)
            if wrong and options.must_lose:
                print(f"found in life {life}: {wrong[0]}")
                return 0
            if wrong:
                print("\n".join(wrong[:20]))
                return 1
    # On a busy machine the first lives may end before anything is answered.
    steps = sum(w.next for w in writers)
    assert steps > 0 and keys > 0, (steps, keys)
    print(f"{options.lives} kills, {steps} values written")
    return 1 if options.must_lose else 0


sys.exit(main())
