#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of what an update over two heaps could reach: every way runs, no cent is lost, and
the result has what docs/benchmarks.md describes; wrong usage is refused.

    group_bound_test.py BOUND DIRECTORY
"""
import json
import os
import subprocess
import sys
import tempfile

program, directory = sys.argv[1:]
WAYS = {
    way + end for way in ("one", "in-turn", "overlapped", "two-phase") for end in ("", "-logged")
}
BARE = {"bare-one", "bare-in-turn", "bare-started", "bare-overlapped"}
POINTS = ("least", "lower_quartile", "median", "upper_quartile")


def run(*args):
    return subprocess.run(
        [program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result(pm, *more):
    with tempfile.TemporaryDirectory(dir=directory) as place:
        done = run(
            *("--pm", pm, "--dir", place, "--rounds", "5", "--transfers", "3", "--json", "-"),
            *more,
        )
        assert done.returncode == 0, done.stderr  # the program itself adds up the accounts
        assert os.listdir(place) == [], "the heaps are left behind"
    r = json.loads(done.stdout)
    assert (r["pm"], r["rounds"], r["transfers"]) == (pm, 5, 3), r
    assert r["ns"].keys() == (WAYS | BARE if pm == "sync" else WAYS), r
    for points in r["ns"].values():
        values = [points[name] for name in POINTS]
        assert 0 < values[0] and values == sorted(values), points
    for name, points in r["time_over"].items():
        way, base = name.split(" / ")
        for point in POINTS:
            expected = r["ns"][way][point] / r["ns"][base][point]
            assert abs(points[point] - expected) < 1e-6 * expected, (name, points)
    return r


result("emulated")
result("sync")
assert result("sync", "--spin")["spin"]

table = run("--rounds", "3", "--transfers", "2", "--dir", directory)
assert table.returncode == 0 and "overlapped / two-phase" in table.stdout, table.stderr

for wrong in (["--pm", "fast"], ["--rounds", "0"], ["--dir", "/nowhere"], ["--fast"]):
    refused = run(*wrong)
    assert refused.returncode == 2 and wrong[0] in refused.stderr, (wrong, refused.stderr)
