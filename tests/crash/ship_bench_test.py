#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of shipping: each log works, its result has what docs/benchmarks.md describes, and
its numbers fit each other; wrong usage is refused.

    ship_bench_test.py SHIP
    brokers.py ship_bench_test.py SHIP      Kafka alone
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]
SPREADS = {
    "local_with_shipper_per_second",
    "local_without_per_second",
    "local_with_shipper_over_without",
    "shipped_updates_per_second",
    "bare_produce_p50_us",
    "bare_produce_p99_us",
    "commit_p50_us",
    "commit_p99_us",
    "commit_p50_over_bare_produce",
}


def run(*args):
    return subprocess.run(
        [program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result_of(*args):
    """Rounds of a moment."""
    result = run(*args, "--seconds", "0.05", "--rounds", "2", "--json", "-")
    assert result.returncode == 0 and not result.stderr, (args, result.stdout, result.stderr)
    r = json.loads(result.stdout)
    assert SPREADS < r.keys(), r
    for name in SPREADS:
        least, middle, most = (r[name][key] for key in ("min", "median", "max"))
        assert 0 < least <= middle <= most, (name, r)
    # All that is updated is shipped, and that takes as long or longer.
    assert r["shipped_updates_per_second"]["max"] <= r["local_with_shipper_per_second"]["max"], r
    assert r["commit_p50_us"]["min"] <= r["commit_p99_us"]["max"], r
    assert r["updates"] > 0 and r["rounds"] == 2 and r["update_bytes"] == 64, r
    return r


def commits_of(*args):
    """What peers.py asks for."""
    result = run("--commits", *args, "--threads", "2", "--seconds", "0.05", "--json", "-")
    assert result.returncode == 0 and not result.stderr, (args, result.stdout, result.stderr)
    r = json.loads(result.stdout)
    assert r["workload"] == "ship-commits" and r["clients"] == 2 and r["commits"] >= 2, r
    assert r["commits_per_second"] > 0 and 0 < r["p50_us"] <= r["p99_us"], r
    return r


def refused(text, *args):
    result = run(*args)
    assert result.returncode == 2 and text in result.stderr, (args, result)


with tempfile.TemporaryDirectory() as place:
    if "FUR_KAFKA" in os.environ:
        log = f"kafka:{os.environ['FUR_KAFKA']}/bench"
        assert result_of("--engine", "kafka", "--log", log)["engine"] == "kafka"
        assert commits_of("--engine", "kafka", "--log", log)["engine"] == "kafka"
    else:
        assert result_of("--engine", "null", "--threads", "2")["threads"] == 2
        r = result_of("--engine", "file", "--directory", place, "--pm", "sync")
        assert (r["engine"], r["pm"]) == ("file", "sync"), r
        r = commits_of("--engine", "file", "--directory", place)
        assert (r["engine"], r["pm"]) == ("file", "emulated"), r
        refused("--rounds", "--commits", "--rounds", "2")
        refused("belong together", "--engine", "kafka")
        refused("belong together", "--log", "kafka:localhost:1/x")
        refused("--engine", "--engine", "paper")
        result = run("--engine", "kafka", "--log", "kafka:nowhere")
        assert result.returncode == 1 and result.stderr.count("\n") == 1, result
    assert os.listdir(place) == [], "what the benchmark has made is removed"
