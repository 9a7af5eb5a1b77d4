#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command line of fur-replayer, and of a benchmark: one line for an error, and its exit status.

    replayer_test.py FUR_REPLAYER RBTREE
"""
import os
import subprocess
import sys
import tempfile

replayer, rbtree = sys.argv[1], sys.argv[2]
bad = 0


def expect(command, status, text):
    global bad
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = done.stderr.split("\n")[0]
    good = done.returncode == status and text in first and (status == 0 or first)
    bad += not good
    print(
        ("ok   " if good else "FAIL ")
        + " ".join(os.path.basename(c) for c in command)
        + f": status {done.returncode}, {first!r}"
    )


with tempfile.TemporaryDirectory() as place:
    heap = place + "/heap"
    expect([replayer], 2, "HEAP is missing")
    expect([replayer, "--nonsense"], 2, "nonsense")
    expect([replayer, "--heap", heap, heap], 2, "one heap at a time")
    expect([replayer, heap, "--threads", "0"], 2, "--threads 0: use 1 to 16")
    for how in ("x", "", "129", "-1", "batch", "batch:", "batch:129", "sequential:4x", "auto:4"):
        expect([replayer, "--heap", heap, "--preload", how], 2, f"--preload {how}: use auto, N,")
    expect([replayer, "--heap", heap, "--once", "--status"], 2, "one at a time")
    expect([replayer, "--heap", heap], 1, heap + ": no such file")
    expect([rbtree, "--seconds", "0.2", "--keys", "100", "--heap", heap], 0, "")
    for how in ("auto", "0", "128", "sequential:4", "batch:4"):
        expect([replayer, "--once", heap, "--preload", how], 0, "")
    expect([rbtree, "--seconds", "0.2", "--keys", "100", "--heap", heap], 2, "exists")
    expect([rbtree, "--seconds", "0.2", "--keys", "100", "--heap", heap, "--reuse"], 0, "")
    os.truncate(heap, 70000)
    expect([replayer, heap], 1, "truncated")
    with open(heap, "wb") as f:
        f.write(b"x" * 100000)
    expect([replayer, "--heap", heap], 1, "not a libfur heap")
    for arguments, text in (
        (["--tm", "x"], "--tm x"),
        (["--update", "101"], "--update"),
        (["--threads", "0"], "--threads"),
        (["--machine", "z"], "--machine"),
        (["--keys", "0"], "--keys"),
        (["--heap", "/nonexistent/heap"], "/nonexistent/heap"),
        (["--pm", "x"], "--pm"),
        (["--tm", "none", "--threads", "2"], "--threads 1"),
        (["--keys", "100000", "--heap-mib", "2"], "too small"),
    ):
        expect([rbtree, "--seconds", "0.2", *arguments], 2, text)
sys.exit(1 if bad else 0)
