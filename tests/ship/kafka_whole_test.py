#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A primary, a standby and a fail-over over Apache Kafka, with the programs of a user: an update
that has returned is in the heap that takes over, and the old primary follows it.

    brokers.py kafka_whole_test.py FUR_SHIP FUR_STANDBY FUR_COPY SHIPPED_HEAP
"""
import os
import signal
import socket
import sys
import tempfile
import time

from programs import PATIENCE_S, Recorded, newest, refused, run

ship, standby, copier, heap_program = [os.path.abspath(path) for path in sys.argv[1:5]]
PROMOTED = 4


def control(line):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE_S)
        s.connect(os.environ["FUR_KAFKA_CONTROL"])
        s.sendall((line + "\n").encode())
        answer = s.makefile("r").readline().strip()
    assert answer == "ok", (line, answer)


def more_than(n):
    return lambda text: newest(text) > n


def make_pair(place):
    first, second = os.path.join(place, "first"), os.path.join(place, "second")
    log = f"kafka:{os.environ['FUR_KAFKA']}/whole.{os.getpid()}"
    run(heap_program, "make", first)
    assert "primary, node" in run(ship, "--init", first, "--log", log)
    run(copier, "--for-standby", first, second)
    return first, second


def refuse_setting(first):
    """A setting that librdkafka does not take ends fur-ship at its start, without a program."""
    refused("the setting no.such.key=1: ", ship, first, "-X", "no.such.key=1")
    print("ok, a wrong setting is refused", flush=True)


def fail_over(place, first, second):
    """A broker and then the primary's programs are killed; returns the value that must be there."""
    shipper = Recorded(place, ship, first)
    shipper.until(lambda text: "waiting for a program" in text, "no shipper")
    follower = Recorded(place, standby, second, "--takeover", "8000")
    writer = Recorded(place, heap_program, "write", first, "replicated", "0")
    writer.until(more_than(200), "nothing is acknowledged")
    control("kill 1")
    at = newest(writer.said())
    writer.until(more_than(at + 200), "nothing is acknowledged without a broker")
    control("start 1")
    at = newest(writer.said())
    writer.until(more_than(at + 200), "nothing is acknowledged with the broker again")
    said = writer.kill()
    shipper.kill()
    print("ok, killed after", newest(said), flush=True)
    follower.end(PROMOTED)
    return newest(said)


def go_on(place, first, second, returned):
    """The standby is the primary; the old one follows."""
    there = int(run(heap_program, "show", second))
    assert there >= returned, (there, returned)
    print("ok, the standby has", there, flush=True)
    shipper = Recorded(place, ship, second)
    shipper.until(lambda text: "waiting for a program" in text, "no shipper")
    follower = Recorded(place, standby, first)
    last = int(run(heap_program, "write", second, "replicated", "100").split()[-1])
    assert last == there + 100, (last, there)
    # It applies the position with the updates: it has them when it ends after it has read them.
    end = time.monotonic() + PATIENCE_S
    while True:
        time.sleep(1)
        follower.end(0, signal.SIGTERM)
        shown = int(run(heap_program, "show", first))
        if shown == last:
            break
        assert time.monotonic() < end, (shown, last, follower.said())
        follower = Recorded(place, standby, first)
    print("ok, the old primary follows, and has", shown, flush=True)
    shipper.end(0, signal.SIGTERM)


with tempfile.TemporaryDirectory(
    dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
) as directory:
    control("wait")
    first_heap, second_heap = make_pair(directory)
    refuse_setting(first_heap)
    value = fail_over(directory, first_heap, second_heap)
    go_on(directory, first_heap, second_heap, value)
