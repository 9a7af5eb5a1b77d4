#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark `agent`: latencies of the paper on ccSLT, the roles of host and device with either
home, no lost update, the same result for the same seed, wrong usage.

    agent_test.py AGENT
"""
import json
import subprocess
import sys

(AGENT,) = sys.argv[1:]
OTHER = {"host": "device", "device": "host"}


def run(*arguments):
    return subprocess.run([AGENT, *arguments], capture_output=True, text=True, check=False)


def result(*arguments):
    done = run("--requests", "400", "--json", "-", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def first(of, side):
    return of["latency"][side]["first"]


def latencies():
    for home in OTHER:
        alone, half, all_ = (result("--home", home, "--parallel", p) for p in ("0", "50", "100"))
        assert alone["home"] == home
        # Within a fifth of the paper's 80 to 100 and 400 ns.
        assert 64 <= first(alone, home)["mean_ns"] <= 120, alone
        assert 320 <= first(all_, home)["mean_ns"] <= 480, all_
        assert (
            first(alone, home)["most_ns"]
            < first(half, home)["mean_ns"]
            < first(all_, home)["mean_ns"]
        ), half
        for each in (alone, half, all_):
            far = first(each, OTHER[home])
            assert far["least_ns"] == far["most_ns"] == 800, each
            for side in OTHER:
                placed = each["latency"][side]["placed"]["mean_ns"]
                assert placed >= first(each, side)["mean_ns"], each


def reads():
    at_host, at_device = (result("--home", home)["reads"] for home in OTHER)
    assert at_host["line_ns"] == 800 and at_host["cached_line_ns"] == 90, at_host
    assert at_device["line_ns"] == at_device["cached_line_ns"] == 90, at_device
    assert at_host["page_ns"] == 128 * 800, at_host


def updates():
    """Threads of both sides contend for few locks: they meet, and lose no update."""
    for home in OTHER:
        each = result(
            "--home", home, "--parallel", "100", "--threads", "4", "--device-threads", "8"
        )
        assert each["verified"], each
        for side in OTHER:
            assert each["throughput"][side]["updates_per_second"] > 0, each
        assert sum(each["throughput"][side]["waits"] for side in OTHER) > 100, each
    # Who is at home is faster.
    rates = [
        {side: result("--home", home)["throughput"][side]["updates_per_second"] for side in OTHER}
        for home in OTHER
    ]
    assert rates[0]["host"] > rates[1]["host"] and rates[1]["device"] > rates[0]["device"], rates


def deterministic():
    arguments = ["--parallel", "50", "--threads", "3", "--device-threads", "3"]
    assert result(*arguments) == result(*arguments)
    assert result(*arguments) != result(*arguments, "--seed", "2")


def usage():
    for arguments, says in [
        (["--machine", "native"], "--machine native: it has no coherent agent"),
        (["--machine", "power9"], "--machine power9: it has no coherent agent"),
        (["--machine", "power9", "--home", "host"], "--home host: power9 has no coherent"),
        (["--home", "both"], "--home"),
        (["--parallel", "101"], "--parallel"),
        (["--threads", "5"], "--threads 5: ccix-ndp has 4"),
        (["--device-threads", "15"], "--device-threads 15: the agent has 14"),
        (["--tm", "none"], "--tm"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2, (arguments, done)
        assert says in done.stderr and done.stderr.count("\n") == 1, (says, done.stderr)


latencies()
reads()
updates()
deterministic()
usage()
print("ok")
