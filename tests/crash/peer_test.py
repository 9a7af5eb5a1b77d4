#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A peer in the IntSet benchmark: sound after a run, and after kills and reopening; options that it
cannot honour are refused before any work starts.

    peer_test.py RBTREE TPCC lmdb|libpmemobj built-in|not-built-in KILLS
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

rbtree, tpcc, peer, built_in, KILLS = sys.argv[1:]
SKIPPED = 77  # for meson
KEYS = 5000


def run(*args, program=rbtree):
    return subprocess.run(
        [program, "--tm", peer, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def right(*args):
    """The result of a run that must go well."""
    done = run("--json", "-", *(() if "--seconds" in args else ("--seconds", "0.2")), *args)
    assert done.returncode == 0, (args, done.stdout, done.stderr)
    result = json.loads(done.stdout)
    # Beside other work the counted part of a run may be too short for a transaction with syncs.
    assert result["verified"] is True and sum(result["run_commits"].values()) > 0, result
    return result


def refused(says, *args, program=rbtree):
    done = run(*args, program=program)
    assert done.returncode == 2, (args, done.returncode, done.stderr)
    assert says in done.stderr and done.stderr.count("\n") == 1, (args, done.stderr)


def runs(heap):
    for threads in "1", "2":
        for update in "0", "50", "100":
            result = right("--threads", threads, "--update", update)
            assert (
                result["pm_latency_ns"] == 0 and result["pm"] == "emulated" and result["settings"]
            ), result
    # Threads that are mostly not running hold up little memory.
    right("--threads", "16", "--update", "50", "--heap-mib", "3" if peer == "lmdb" else "9")
    # Keys that all come and go again.
    right("--keys", "1", "--update", "100", "--threads", "2")
    right("--heap", heap, "--pm", "sync", "--keys", "20", "--threads", "2")
    assert (
        right("--heap", heap, "--pm", "sync", "--keys", "20", "--threads", "2", "--reuse")["pm"]
        == "sync"
    )


def usage(heap):
    for says, args in [
        ("natively only", ["--machine", "power9"]),
        ("--pm-latency-ns", ["--pm-latency-ns", "310"]),
        ("--pm pmem", ["--pm", "pmem"]),
        ("--pm-gap-ns", ["--pm-gap-ns", "1"]),
        ("exists", ["--heap", heap]),
        ("/nonexistent/heap", ["--heap", "/nonexistent/heap"]),
        ("--heap-mib", ["--heap-mib", "1", "--keys", "100000"]),
        ("too small", ["--heap-mib", "9", "--keys", "1000000"]),
    ]:
        refused(says, *args)
    refused("IntSet only", program=tpcc)
    other = heap + "-not"
    with open(other, "wb") as f:
        f.write(b"x" * 100000)
    refused(other, "--heap", other, "--reuse")


def kills(heap):
    """Killed at random instants; the set is verified when it is opened again, and has its keys."""
    base = ["--heap", heap, "--reuse", "--threads", "2"]
    right(*base, "--keys", str(KEYS))
    for _ in range(int(KILLS)):
        child = subprocess.Popen(
            [
                rbtree,
                "--tm",
                peer,
                *base,
                "--keys",
                str(KEYS),
                "--update",
                "100",
                "--seconds",
                "60",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.1 + random.random() * 0.4)
        assert child.poll() is None, "it ended before it was killed"
        child.send_signal(signal.SIGKILL)
        child.wait()
        # Adds no keys, changes nothing.  Keys are drawn from 2 * KEYS; half of them are in the set
        # at any time, give or take a few hundred.
        result = right(*base, "--keys", "1", "--update", "0", "--seconds", "0.05")
        assert 0.8 * KEYS < result["keys_at_end"] < 1.2 * KEYS, result


if built_in != "built-in":
    refused("not built in: install lib" + peer.removeprefix("lib") + "-dev")
    refused("IntSet only", program=tpcc)
    print("skipped: " + peer + " is not built in")
    sys.exit(SKIPPED)
with tempfile.TemporaryDirectory() as place:
    runs(place + "/heap")
    usage(place + "/heap")
with tempfile.TemporaryDirectory(
    dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
) as place:
    kills(place + "/heap")
print("ok")
