#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of pauses: each part runs, its counters add up, and its result has what
docs/benchmarks.md describes; wrong usage is refused.

    pauses_test.py PAUSES
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]
SHORT = ["--seconds", "0.05", "--rounds", "2"]
RATIO = {"median", "min", "max"}
TIMES = {"per_second", "p999_us", "longest_us", "longest_us_median"}
WAITS = TIMES | {"p999_wait_us", "longest_wait_us", "longest_wait_us_median"}


def run(*args):
    return subprocess.run(
        [program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def result_of(*args):
    result = run(*args, *SHORT, "--json", "-")
    assert result.returncode == 0, (args, result.stdout, result.stderr)
    r = json.loads(result.stdout)
    assert (r["workload"], r["part"], r["rounds"], r["verified"]) == (
        "pauses",
        args[0],
        2,
        True,
    ), r
    assert r["pinned"] == (r["threads"] <= r["cores"] == len(os.sched_getaffinity(0))), r
    return r


def disturbed(r, disturber, readers):
    """Threads that are compared with and without a disturbing one."""
    assert r["threads"] == readers + 3 and r["torn_reads"] == 0, r
    for role in (disturber, "readers", "short_updates", "control"):
        assert r[role].keys() == {"ratio", "with", "without"}, r[role]
        assert r[role]["ratio"].keys() == RATIO, r[role]
        for mode in ("with", "without"):
            assert r[role][mode].keys() == WAITS, r[role]
            assert r[role][mode]["longest_wait_us"] <= r[role][mode]["longest_us"], r[role]


def long_updates():
    for body, readers in (("scan", 1), ("spin", 3)):
        r = result_of("long-update", "--long-ms", "2", "--body", body, "--readers", str(readers))
        disturbed(r, "long_update", readers)
        assert (r["body"], r["long_ms"]) == (body, 2), r
        assert r["long_stores"] == r["long_stores_found"] > 0, r
        assert r["short_stores"] == r["short_stores_found"] > 0, r
        # Each of the updates is counted once: a short one has 8 stores, one that spins 1.
        assert body == "scan" or r["heap_updates"] == r["long_stores"] + r["short_stores"] / 8, r


def scans():
    r = result_of("scan", "--pause-ms", "2", "--readers", "2")
    disturbed(r, "scan", 2)
    assert r["pause_ms"] == 2 and r["moves"] == r["moves_found"] == r["heap_updates"] > 0, r
    for scans_of_a_mode in ("updates_in_scan", "updates_in_pause"):
        s = r[scans_of_a_mode]
        assert s.keys() == {"mean", "min", "max", "scans"}, r
        assert s["min"] <= s["mean"] <= s["max"], r


def many_threads():
    for threads, counters in ((1, 8), (30, 64)):
        r = result_of("many-threads", "--threads", str(threads), "--counters", str(counters))
        assert (r["threads"], r["counters"]) == (threads, counters), r
        for mode in ("fur", "mutex"):
            more = {"least_per_thread", "threads_without", "threads_without_median"}
            assert r[mode].keys() == TIMES | more and r[mode]["threads_without"] <= threads, r
        assert r["throughput_ratio"].keys() == r["longest_ratio"].keys() == RATIO, r
        assert r["updates"] == r["updates_found"] == r["heap_updates"] > 0, r
        assert r["increments"] == r["increments_found"] > 0, r


def text():
    result = run("scan", "--pause-ms", "1", *SHORT)
    lines = [line.split()[0] for line in result.stdout.splitlines()]
    assert result.returncode == 0 and {"part", "readers", "control", "verified"} <= set(
        lines
    ), lines


def usage():
    with tempfile.NamedTemporaryFile() as taken:
        for words, says in (
            ("", "part"),
            ("nap", "nap: use long-update"),
            ("scan --pause-ms 0", "--pause-ms"),
            ("long-update --long-ms 10001", "--long-ms"),
            ("long-update --body best", "--body best"),
            ("long-update --readers 0", "--readers 0"),
            ("many-threads --threads 1001", "--threads 1001"),
            ("many-threads --counters 12", "--counters 12"),
            ("scan --tm spht", "--tm spht"),
            ("scan --machine power9", "--machine"),
            ("scan --rounds 0", "--rounds 0"),
            (f"scan --heap {taken.name}", "exists"),
        ):
            result = run(*SHORT, *words.split())
            assert result.returncode == 2, (words, result.returncode, result.stderr)
            assert says in result.stderr and result.stderr.count("\n") == 1, (words, result.stderr)


long_updates()
scans()
many_threads()
text()
usage()
print("ok")
