#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/kvserver/against_redis.py measures both servers, and leaves no file; it refuses wrong
usage, and says what is not installed.

    against_redis_test.py AGAINST_REDIS BUILD DIRECTORY
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

program, build, directory = sys.argv[1:]


def run(*args, **more):
    command = [sys.executable, program, *args, "--build", build]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def refused(says, *args, **more):
    done = run(*args, **more)
    assert done.returncode == 2 and says in done.stderr, (args, done)
    assert done.stderr.count("\n") == 1, done.stderr


refused("redis-server is not installed", directory, env={"PATH": "/nowhere"})
if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
    print("redis-server or redis-benchmark is not installed")
    sys.exit(77)
refused("is no directory", "/nowhere")
refused("use always, everysec", directory, "--fsync", "never")
refused("is no number", directory, "--rounds", "0")
refused("is no length", directory, "--seconds", "x")
with tempfile.TemporaryDirectory(dir=directory) as place:
    short = ["--rounds", "2", "--seconds", "0.05", "--fill", "2000", "--clients", "5"]
    done = run(place, *short, "--depths", "1,4", "--json", f"{place}/result.json")
    assert done.returncode == 0, done.stderr
    assert sorted(os.listdir(place)) == ["result.json"], os.listdir(place)
    with open(f"{place}/result.json", encoding="utf-8") as file:
        result = json.load(file)
cases = [(row["fsync"], row["depth"], row["command"]) for row in result["rows"]]
assert len(cases) == len(set(cases)) == 2 * 2 * 3, cases
for row in result["rows"]:
    assert 0 < row["min"] <= row["median_of_ratios"] <= row["max"], row
    ratio = row["kvserver_throughput"] / row["redis_throughput"]
    assert abs(row["ratio"] - ratio) < 1e-9, row
    assert 0 < row["kvserver_p50"] <= row["kvserver_p99"], row
for case in result["runs"]:
    assert all(len(runs) == 2 for runs in case["runs"].values()), case
assert result["machine"]["fdatasync_us"] >= 0, result["machine"]
assert done.stdout.count("\n| always, ") == 6 and done.stdout.count("\n| everysec, ") == 6
