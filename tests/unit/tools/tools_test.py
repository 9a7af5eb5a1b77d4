#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command lines of fur-info and fur-check: their reports on a heap in each state, one line for
each error, and the exit status.

    tools_test.py FUR_INFO FUR_CHECK RBTREE
"""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import time

info, check, rbtree = sys.argv[1:]


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def expect(status, says, *command):
    done = run(*command)
    where = done.stderr if status else done.stdout
    assert done.returncode == status and says in where, (command, done)
    if status == 1:
        assert done.stderr.count("\n") == 1 and done.stderr.startswith(
            os.path.basename(command[0]) + ": "
        ), done
    return done


def as_json(*command, status=0):
    done = run(*command, "--json")
    assert done.returncode == status, done
    return json.loads(done.stdout)


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def poke(path, offset, what):
    with open(path, "r+b") as f:
        f.seek(offset)
        f.write(what)


def usage(place):
    for tool in (info, check):
        expect(2, "HEAP is missing", tool)
        expect(2, "--nonsense", tool, "--nonsense", place)
        expect(0, "Exit status", tool, "--help")
        expect(1, place + "/none: no such file", tool, place + "/none")
        expect(1, place + ": not a regular file", tool, place) if tool == info else None
        with open(place + "/foreign", "wb") as f:
            f.write(b"x" * 100000)
        expect(1, "/foreign: not a libfur heap", tool, place + "/foreign")
        open(place + "/empty", "wb").close()
        expect(1, "/empty: the file is empty", tool, place + "/empty")


def closed(heap):
    before = contents(heap)
    expect(0, "closed", info, heap)
    expect(0, "sound, closed", check, heap)
    i = as_json(info, heap)
    assert (i["state"], i["snapshot"], i["version"]) == ("closed", False, 2), i
    assert (
        i["ring"]["used"] == 0 and len(i["logs"]) == i["max_threads"] and i["allocator"]["counted"]
    ), i
    c = as_json(check, heap)
    assert c["sound"] and c["problems"] == [] and c["lost"] == [], c
    assert c["allocator"]["blocks"] == i["allocator"]["blocks"] > 0, (c, i)
    assert contents(heap) == before


def left_by_a_bulk_update(heap):
    """The header's word that names the block of the results (docs/file-format.md)."""
    i = as_json(info, heap)
    assert i["bulk_block"] is None, i
    word = i["regions"]["heap"]["offset"] + 9 * 8
    poke(heap, word, (1 << 20).to_bytes(8, sys.byteorder))
    assert as_json(info, heap)["bulk_block"] == 1 << 20
    expect(0, "left the block at byte 1048576: the next program that opens", info, heap)
    poke(heap, word, bytes(8))
    assert "bulk update" not in run(info, heap).stdout


def in_use_then_killed(heap):
    worker = subprocess.Popen(
        [
            rbtree,
            "--seconds",
            "60",
            "--keys",
            "100",
            "--heap",
            heap,
            "--tm",
            "fur-opacity",
            "--threads",
            "2",
        ],
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not (os.path.exists(heap) and (i := as_json(info, heap))["ring"]["updates"]):
        assert time.monotonic() < deadline and worker.poll() is None, "it never began to work"
        time.sleep(0.01)
    assert (i["state"], i["snapshot"], i["used_by"]["worker"]) == ("in use", True, True), i
    assert not i["allocator"]["counted"], i
    assert i["used_by"]["worker_pid"] == worker.pid, i
    expect(0, f"in use by a process ({worker.pid}); the numbers below are a snapshot", info, heap)
    for _ in range(20):
        run(info, heap).check_returncode()
    expect(1, heap + ": the heap is in use", check, heap)
    expect(1, heap + ": the heap is in use", check, "--repair", heap)
    assert worker.poll() is None, "looking at it ended it"
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    before = contents(heap)
    i = as_json(info, heap)
    assert (
        i["state"] == "needs recovery"
        and i["marked"] == "open"
        and i["allocator"]["after_recovery"]
    ), i
    assert (
        i["ring"]["used"]
        == i["ring"]["updates"] + i["ring"]["holes"] + i["ring"]["aborted"] + i["ring"]["dropped"]
    ), i
    assert sum(log["updates"] for log in i["logs"]) == i["ring"]["updates"], i
    c = as_json(check, heap)
    assert (
        c["sound"] and c["state"] == "needs recovery" and c["to_replay"] == i["ring"]["updates"]
    ), (c, i)
    assert c["allocator"]["blocks"] == i["allocator"]["blocks"], (c, i)
    assert contents(heap) == before, "looking at it changed it"


def damaged(heap):
    good = contents(heap)
    # A byte of the superblock, the state word, a tail: told, mended.
    for offset, what, says in (
        (50, b"\x55", "superblock"),
        (512, b"\0" * 8, "state"),
        (640, b"\x77" * 8, "tail"),
        (768, b"\x77" * 8, "tail"),
        (len(good), b"trailing", "too long"),
    ):
        poke(heap, offset, what)
        bad = contents(heap)
        done = expect(1, heap + ": 1 problem: mend with fur-check --repair", check, heap)
        assert says in done.stdout and contents(heap) == bad, done
        assert as_json(check, heap, status=1)["problems"][0]["mendable"]
        expect(0, "repaired", check, "--repair", heap)
        assert says == "state" or contents(heap) == good, "not as it was"
        poke(heap, 512, good[512:520])
    # More than a byte.
    poke(heap, 48, b"\1" * 24)
    bad = contents(heap)
    expect(1, "restore the file from a copy", check, "--repair", heap)
    assert contents(heap) == bad
    expect(1, "superblock is damaged", info, heap)
    poke(heap, 0, good[:4096])
    # A version of the future.
    poke(heap, 8, struct.pack("<I", 3) + good[12:16] + b"\0" * 112)
    for tool in (info, check):
        expect(1, "version 3", tool, heap)
    poke(heap, 0, good[:4096])
    with open(heap, "r+b") as f:
        f.truncate(len(good) // 2)
    expect(1, "truncated", info, heap)
    assert "missing" in expect(1, "restore the file from a copy", check, heap).stdout
    c = as_json(check, heap, status=1)
    assert len(c["problems"]) == 1 and c["state"] is None and c["allocator"] is None, c


with tempfile.TemporaryDirectory() as directory:
    usage(directory)
    assert (
        run(rbtree, "--seconds", "0.1", "--keys", "100", "--heap", directory + "/closed").returncode
        == 0
    )
    closed(directory + "/closed")
    left_by_a_bulk_update(directory + "/closed")
    in_use_then_killed(directory + "/killed")
    damaged(directory + "/closed")
