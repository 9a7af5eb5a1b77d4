#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of snapshots: each part runs, snapshots show what they must, and the result has
what docs/benchmarks.md describes; wrong usage is refused, and no file is left.

    snapshot_bench_test.py SNAPSHOT
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]
SHORT = ["--keys", "3000", "--seconds", "0.02", "--rounds", "2"]
WAYS = ("scan", "plain_read", "optimistic_read", "fur_scan")
# Of each round too, where the run has the median.
FIGURES = {
    "updates_per_second",
    "updates_beside_sleeping_snapshot",
    "updates_beside_sleeping_snapshot_second_half",
    "updates_beside_begin_and_end",
    "end_after_sleep_us",
    *(f"{way}_entries_per_second" for way in WAYS),
    *(f"{way}_beside_updates" for way in WAYS),
    *(f"updates_beside_{way}" for way in WAYS),
    *(
        f"{call}{beside}{share}_us"
        for call in ("begin", "end")
        for beside in ("", "_beside_updates")
        for share in ("", "_p99")
    ),
}
FACTS = {
    "first_begin_us",
    "saved_lines",
    "bytes_per_saved_line",
    "anonymous_bytes_per_saved_line",
    "memory_before_bytes",
    "memory_open_bytes",
    "memory_left_after_first_bytes",
    "memory_left_bytes",
    "snapshots_revoked",
}
PEER_FIGURES = {
    "entries_per_second",
    *(
        f"{name}_{writers}"
        for writers in (1, 2)
        for name in (
            "updates_per_second",
            "updates_beside_read",
            "read_beside_updates",
            "growth_alone_bytes",
            "growth_beside_bytes",
        )
    ),
}
LIBFUR_FIGURES = PEER_FIGURES | {"saved_lines_per_read_1", "saved_lines_per_read_2"}


def run(*args):
    return subprocess.run([program, *args], capture_output=True, text=True, check=False)


def check_numbers(found, names):
    for name in names:
        assert isinstance(found[name], (int, float)), (name, found)


def check_rounds(found, figures):
    check_numbers(found, figures)
    assert len(found["rounds"]) == 2, found
    for one in found["rounds"]:
        assert set(one) == figures, set(one) ^ figures
        check_numbers(one, figures)


def result_of(place, *args):
    done = run(*SHORT, *args, "--path", f"{place}/heap", "--json", "-")
    assert done.returncode == 0, (args, done.stderr)
    result = json.loads(done.stdout)
    assert result["workload"] == "snapshot" and result["verified"] is True, result
    assert (result["keys"], result["seconds"]) == (3000, 0.02), result
    check_rounds(result, FIGURES)
    check_numbers(result, FACTS)
    trips = result["round_trip_ns"]
    if len(os.sched_getaffinity(0)) > 1:
        assert trips["least"] <= trips["median"] <= trips["most"], trips
    assert os.listdir(place) == [], os.listdir(place)
    return result


def library(place):
    result = result_of(place)
    assert (result["value_bytes"], result["writers"], result["zipf"]) == (8, 1, 0), result
    assert "peers" not in result, result
    result = result_of(place, "--value-bytes", "64", "--writers", "2", "--zipf", "0.9")
    assert (result["value_bytes"], result["writers"], result["zipf"]) == (64, 2, 0.9), result


def peers(place):
    """The table, and what the program has of peers.  Returns False if it has none."""
    words = [*SHORT, "--path", f"{place}/heap", "--json", f"{place}/json"]
    done = run(*words, "--peers")
    built_in = done.returncode != 2
    if not built_in:
        assert "--peers: this program has none" in done.stderr, done.stderr
        done = run(*words)
    assert done.returncode == 0, done.stderr
    texts = ["thousand updates/s alone", "a snapshot for each scan", "2 s after", "verified"]
    if built_in:
        texts += ["a long read beside 1 writer", "beside 2 writers", "MiB of files"]
    for says in texts:
        assert says in done.stdout, (says, done.stdout)
    with open(f"{place}/json", encoding="utf-8") as file:
        result = json.load(file)
    os.unlink(f"{place}/json")
    assert os.listdir(place) == [], os.listdir(place)
    assert ("peers" in result) == built_in, result
    for name, system in result.get("peers", {}).items():
        check_rounds(system, LIBFUR_FIGURES if name == "libfur" else PEER_FIGURES)
        check_numbers(system, ("bytes_at_first", "bytes_at_last"))
        assert system["settings"], system
    if built_in:
        names = set(result["peers"])
        assert "libfur" in names and names & {"sqlite", "lmdb", "rocksdb"}, names
    return built_in


def usage(place):
    with open(f"{place}/taken", "w", encoding="utf-8"):
        pass
    for words, says, status in (
        ("--value-bytes 16", "--value-bytes 16", 2),
        ("--writers 0", "--writers 0", 2),
        ("--keys 999", "--keys 999", 2),
        ("--zipf 1", "--zipf 1", 2),
        ("--rounds 0", "--rounds 0", 2),
        ("--htm tsx", "--htm tsx", 2),
        (f"--path {place}/taken", "the file exists", 1),
    ):
        done = run(*SHORT, *words.split())
        assert done.returncode == status and says in done.stderr, (words, done.stderr)
        assert done.stderr.count("\n") == 1, (words, done.stderr)
    os.unlink(f"{place}/taken")


with tempfile.TemporaryDirectory() as directory:
    library(directory)
    has_peers = peers(directory)
    usage(directory)
print("ok" if has_peers else "ok, without peers: none is built in")
