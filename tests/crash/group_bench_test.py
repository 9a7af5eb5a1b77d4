#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmarks of updates over two heaps: every way and every peer runs, no cent is lost, and the
results have what docs/benchmarks.md describes; wrong usage is refused.

    group_bench_test.py GROUP PEERS DIRECTORY
"""
import json
import os
import subprocess
import sys
import tempfile

program, peers, directory = sys.argv[1:]
WAYS = {"one", "one-logged", "member", "group", "in-turn", "two-phase"}
CROWD = ("run", "submit", "submit_ahead")
# Of these.
FEW = ("--threads", "4", "--crowd-transfers", "5", "--crowd-rounds", "1")
RATIOS = {
    "emulated": {
        "transfer_over_one_heap": ("one", "group"),
        "transfer_over_one_logged": ("one-logged", "group"),
        "transfer_over_two_phase": ("two-phase", "group"),
    },
    "sync": {
        "sync_over_one_heap": ("group", "one"),
        "sync_over_two_phase": ("group", "two-phase"),
    },
}


def run(*args, of=program):
    return subprocess.run([of, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(pm):
    with tempfile.TemporaryDirectory(dir=directory) as place:
        done = run(
            *("--pm", pm, "--dir", place, "--rounds", "1", "--transfers", "3", "--json", "-"),
            *FEW,
        )
        assert done.returncode == 0, done.stderr  # the program itself adds up the accounts
        assert os.listdir(place) == [], "the heaps are left behind"
    r = json.loads(done.stdout)
    assert (r["pm"], r["rounds"], r["transfers"]) == (pm, 1, 3), r
    assert r["ns"].keys() == WAYS and min(r["ns"].values()) > 0, r
    # Of one round, so the median's ratio is the ratio of the medians.
    for name, (a, b) in {**RATIOS[pm], "members_local_over_single": ("one", "member")}.items():
        expected = r["ns"][a] / r["ns"][b]
        assert abs(r[name] - expected) < 1e-6 * expected, (name, r)
    assert r["threads"] == 4 and min(r[way + "_per_second"] for way in CROWD) > 0, r
    assert not r.keys() & RATIOS["sync" if pm == "emulated" else "emulated"].keys(), r


check("emulated")
check("sync")

table = run("--rounds", "3", "--transfers", "2", "--dir", directory, *FEW)
assert table.returncode == 0 and "transfer_over_one_heap" in table.stdout, table.stderr

with tempfile.TemporaryDirectory(dir=directory) as place:
    done = run(
        *("--threads", "2", "--seconds", "0.05", "--rounds", "1", "--dir", place, "--json", "-"),
        of=peers,
    )
    assert done.returncode == 0, done.stderr  # the program itself adds up the accounts
    assert os.listdir(place) == [], "the files are left behind"
result = json.loads(done.stdout)
assert result["threads"] == 2 and result["fur_over"]["fur"] == 1, result
assert result["transfers"].keys() == result["fur_over"].keys() <= {"fur", "sqlite", "rocksdb"}
refused = run("--threads", "0", of=peers)
assert refused.returncode == 2 and "--threads" in refused.stderr, refused.stderr

for wrong in (["--pm", "fast"], ["--rounds", "0"], ["--dir", "/nowhere"], ["--fast"]):
    refused = run(*wrong)
    assert refused.returncode == 2 and wrong[0] in refused.stderr, (wrong, refused.stderr)
