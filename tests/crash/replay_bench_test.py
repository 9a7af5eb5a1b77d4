#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The replay benchmark: each replayer brings back exactly what was logged, by one thread or many; wrong usage is refused.

    replay_bench_test.py REPLAY
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]


def run(*args):
    return subprocess.run([program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def replays():
    for tm in ("scan", "linked", "ring"):
        for threads in ("1", "5", "64"):
            result = run("--tm", tm, "--threads", threads, "--updates", "3000", "--json", "-")
            assert result.returncode == 0, (tm, threads, result.stdout, result.stderr)
            r = json.loads(result.stdout)
            assert r["verified"] is True and r["updates"] == 3000 and r["entries"] > 3000 and r["throughput"] > 0, r
    one = [json.loads(run("--tm", tm, "--threads", "5", "--updates", "3000", "--json", "-").stdout)["entries"] for tm in ("scan", "linked", "ring")]
    assert len(set(one)) == 1, f"the same seed gave different logs: {one}"


def usage():
    with tempfile.NamedTemporaryFile() as taken:
        for args, says in [(["--tm", "best"], "--tm best"), (["--threads", "65"], "--threads"), (["--updates", "400001"], "--updates"),
                           (["--heap", taken.name], "the file exists")]:
            result = run(*args)
            assert result.returncode == 2, (args, result.returncode, result.stderr)
            assert says in result.stderr and result.stderr.count("\n") == 1, (args, result.stderr)
        assert os.path.exists(taken.name), "a file of somebody else's was removed"


replays()
usage()
print("ok")
