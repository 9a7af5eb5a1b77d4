#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of snapshots: each part runs, snapshots show what they must, and the result has
what docs/benchmarks.md describes; wrong usage is refused, and no file is left.

    snapshot_bench_test.py SNAPSHOT [PEER ...]

PEER: a database that SNAPSHOT was built with.
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]
built_in = {"sqlite" if name == "sqlite3" else name for name in sys.argv[2:]}
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
    "bytes_at_first",
    *(
        f"{name}_{writers}"
        for writers in (1, 2)
        for name in (
            "updates_per_second",
            "updates_beside_read",
            "read_beside_updates",
            "growth_alone_bytes",
            "growth_beside_bytes",
            "memory_alone_bytes",
            "memory_beside_bytes",
            "full_beside_read",
        )
    ),
}


def run(*args):
    return subprocess.run([program, *args], capture_output=True, text=True, check=False)


def check_numbers(found, names):
    for name in names:
        assert isinstance(found[name], (int, float)), (name, found)


def check_rounds(found, figures, rounds=2):
    check_numbers(found, figures)
    assert len(found["rounds"]) == rounds, found
    for one in found["rounds"]:
        assert set(one) == figures, set(one) ^ figures
        check_numbers(one, figures)


def result_of(place, *args):
    done = run(*SHORT, *args, "--path", f"{place}/heap", "--json", "-")
    assert done.returncode == 0, (args, done.stderr)
    result = json.loads(done.stdout)
    assert result["workload"] == "snapshot" and result["verified"] is True, result
    assert (result["keys"], result["seconds"], result["sync"]) == (3000, 0.02, False), result
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


def peers_of(place, rounds, *args):
    """The table and the result of a run with peers, of which each is checked."""
    words = ["--peers", "--path", f"{place}/heap", "--json", f"{place}/json"]
    done = run(*SHORT, "--rounds", str(rounds), *words, *args)
    assert done.returncode == 0, (args, done.stderr)
    with open(f"{place}/json", encoding="utf-8") as file:
        result = json.load(file)
    os.unlink(f"{place}/json")
    assert os.listdir(place) == [], os.listdir(place)
    found = result["peers"]
    assert set(found) == built_in | {"libfur"}, (set(found), built_in)
    assert result["workload"] == "snapshot" and result["sync"] == ("--sync" in args), result
    for name, system in found.items():
        check_rounds(system, PEER_FIGURES, rounds)
        assert system["settings"] in done.stdout, (system, done.stdout)
        for one in system["rounds"]:
            rates = ["entries_per_second"] + [f"updates_per_second_{n}" for n in (1, 2)]
            assert all(one[rate] > 0 for rate in rates), (name, one)
            # The write-ahead log is there as long as the connections are.
            if name == "sqlite":
                grows = [
                    f"growth_{phase}_bytes_{n}" for phase in ("alone", "beside") for n in (1, 2)
                ]
                assert all(one[growth] > 0 for growth in grows), one
    for says in (
        "a long read beside 1 writer\n",
        "beside 2 writers\n",
        "files grow",
        "memory grows",
    ):
        assert says in done.stdout, (says, done.stdout)
    return done.stdout, found


def peers(place):
    if not built_in:
        done = run(*SHORT, "--peers", "--path", f"{place}/heap")
        assert done.returncode == 2, done
        assert "--peers: this program has none" in done.stderr, done.stderr
        return
    text, found = peers_of(place, 2)
    assert "no update synced" in text and "--most-mib" not in text, text
    loose = {name: system["settings"] for name, system in found.items()}
    text, found = peers_of(place, 1, "--sync")
    assert "each update synced" in text, text
    for name, system in found.items():
        assert system["settings"] != loose[name], (name, loose)
    if "lmdb" in built_in:
        text, found = peers_of(place, 1, "--most-mib", "1", "--seconds", "0.2")
        assert "lmdb: the file reached --most-mib" in text, text
        for name, system in found.items():
            assert system["full_beside_read_1"] == (name == "lmdb"), (name, system)


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
        ("--most-mib 0", "--most-mib 0", 2),
        (f"--path {place}/taken", "the file exists", 1),
    ):
        done = run(*SHORT, *words.split())
        assert done.returncode == status and says in done.stderr, (words, done.stderr)
        assert done.stderr.count("\n") == 1, (words, done.stderr)
    os.unlink(f"{place}/taken")


with tempfile.TemporaryDirectory() as directory:
    library(directory)
    peers(directory)
    usage(directory)
print("ok" if built_in else "ok, without peers: none is built in")
