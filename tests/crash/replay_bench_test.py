#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The replay benchmark: each replayer restores exactly the logged data, with one thread or many;
wrong usage is refused.

    replay_bench_test.py REPLAY [--smoke]

--smoke: a few short runs, and all of wrong usage.
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]
SMOKE = "--smoke" in sys.argv


def run(*args):
    return subprocess.run(
        [program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def replays():
    one = []  # with five producers
    for scheme in ("scan", "linked", "ring"):
        for producers in ("5",) if SMOKE else ("1", "5", "64"):
            result = run(
                "--scheme",
                scheme,
                "--producers",
                producers,
                "--log-mib",
                "16",
                "--updates",
                "3000",
                "--json",
                "-",
            )
            assert result.returncode == 0, (scheme, producers, result.stdout, result.stderr)
            r = json.loads(result.stdout)
            assert (r["workload"], r["scheme"], r["producers"]) == (
                "replay",
                scheme,
                int(producers),
            ), r
            assert (
                r["verified"] is True
                and r["updates"] == 3000
                and r["entries"] > 3000
                and r["throughput"] > 0
            ), r
            if producers == "5":
                one.append(r["entries"])
    assert len(one) == 3 and len(set(one)) == 1, f"the same seed gave different logs: {one}"


def threads_and_distances():
    for threads in ("2",) if SMOKE else ("1", "2", "4"):
        for preload, distances in (
            ("0", [0, 0]),
            ("1", [1, 1]),
            ("sequential:128", [128, 128]),
            ("batch:16", [16, 16]),
            ("auto", None),
        ):
            result = run(
                "--producers",
                "8",
                "--threads",
                threads,
                "--preload",
                preload,
                "--log-mib",
                "16" if SMOKE else "32",
                *(["--updates", "3000"] if SMOKE else []),
                "--json",
                "-",
            )
            assert result.returncode == 0, (threads, preload, result.stdout, result.stderr)
            r = json.loads(result.stdout)
            assert r["verified"] is True and (r["threads"], r["preload"]) == (
                int(threads),
                preload,
            ), r
            if distances:
                assert r["distances"] == distances, r
            else:
                assert all(d in (0, 4, 8, 16, 32, 64) for d in r["distances"]), r


def places_and_ways():
    for options in (
        ["--places", "random"],
        ["--places", "neighbours", "--words", "100"],
        ["--places", "neighbours", "--words", "500", "--entry-bytes", "4000"],
        ["--places", "appended", "--words", "160", "--entry-bytes", "64"],
    ):
        ways = ["16/1", "0/16", "batch:8/2", "auto"]
        result = run(
            *options,
            "--log-mib",
            "16",
            "--unload-lines",
            "4",
            "--compare",
            ",".join(ways),
            "--rounds",
            "1" if SMOKE else "3",
            *(["--updates", "3000"] if SMOKE else []),
            "--json",
            "-",
        )
        assert result.returncode == 0, (options, result.stdout, result.stderr)
        r = json.loads(result.stdout)
        assert r["verified"] is True and list(r["compare"]) == ways, r
        assert all(way["seconds"] > 0 for way in r["compare"].values()), r
        assert r["compare"]["16/1"]["ratio"] == 1, r


def full_logs_fit():
    for scheme in ("scan", "ring"):
        result = run("--scheme", scheme, "--producers", "63", "--log-mib", "16", "--json", "-")
        assert result.returncode == 0 and json.loads(result.stdout)["updates"] > 20000, (
            result.stdout,
            result.stderr,
        )


def usage():
    with tempfile.NamedTemporaryFile() as taken:
        for args, says in [
            (["--scheme", "best"], "--scheme best"),
            (["--producers", "65"], "--producers 65"),
            (["--producers", "0"], "--producers 0"),
            (["--producers", "x"], "--producers"),
            (["--updates", "400001"], "--updates"),
            (["--log-mib", "24"], "--log-mib 24"),
            (["--log-mib", "16", "--updates", "50001"], "--updates"),
            (["--tm", "ring"], "--tm"),
            (["--seconds", "1"], "--seconds"),
            (["--threads", "17"], "--threads 17"),
            (["--scheme", "linked", "--threads", "2"], "--threads 2"),
            (["--preload", "129"], "--preload 129"),
            (["--preload", "batch"], "--preload batch"),
            (["--unload-lines", "3"], "--unload-lines 3"),
            (["--compare", "16/1,x"], "--preload x"),
            (["--compare", "16/0"], "--unload-lines 0"),
            (["--compare", "16", "--scheme", "scan"], "--compare"),
            (["--places", "here"], "--places here"),
            (["--words", "501"], "--words 501"),
            (["--entry-bytes", "64"], "--entry-bytes 64"),
            (["--pm-read-ns", "350"], "--pm-read-ns"),
            (["--heap", taken.name], "the file exists"),
        ]:
            result = run(*args)
            assert result.returncode == 2, (args, result.returncode, result.stderr)
            assert says in result.stderr and result.stderr.count("\n") == 1, (args, result.stderr)
        assert os.path.exists(taken.name), "a file of somebody else's was removed"


replays()
threads_and_distances()
places_and_ways()
if not SMOKE:
    full_logs_fit()
usage()
print("ok")
