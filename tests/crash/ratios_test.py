#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ratios.py: alternates its runs, computes ratios, runs the benchmarks of a build, and leaves
neither heap files nor busy processes behind; wrong usage and runs that fail are one line.

    ratios_test.py RATIOS BUILD [--smoke]

--smoke: the benchmarks of the build run on one system only.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ratios, build = sys.argv[1:3]
SMOKE = "--smoke" in sys.argv
SHORT = ["--rounds", "1", "--seconds", "0.02"]

# A benchmark whose throughput is 100 per thread, 1000 in the build "old", and three times as much
# with FUR_HTM=tsx; it writes down its command.
FAKE = """#!/bin/sh
echo "$*" >>%(log)s
while [ $# -gt 0 ]; do
    case $1 in
        --heap) heap=$2 ;;
        --threads) threads=$2 ;;
        --json) json=1 ;;
    esac
    shift
done
[ "$json" ] || exit 0
: >"$heap"
[ "$FUR_HTM" != tsx ] || threads=$((threads * 3))
echo '{"verified": %(verified)s, "round_trip_ns": null,'
echo '"throughput": '$((%(each)d * threads))'}'
"""


def run(*args):
    done = subprocess.run(
        [ratios, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    # Another line may warn of other programs on this machine.
    errors = [line for line in done.stderr.splitlines() if "other programs run" not in line]
    return done.returncode, done.stdout, errors


def refused(says, *args, status=2):
    code, out, errors = run(*args)
    assert (code, out, len(errors)) == (status, "", 1) and says in errors[0], (args, code, errors)


def fake(place, each=100, verified="true"):
    """A build directory of fake benchmarks, and the file with their commands."""
    log = place / "log"
    for name in ("tpcc", "rbtree"):
        program = place / "bench" / name / name
        program.parent.mkdir(parents=True)
        program.write_text(FAKE % {"log": log, "each": each, "verified": verified})
        program.chmod(0o755)
    return log


def alternation(place):
    log = fake(place / "new")
    fake(place / "old", each=1000)
    code, out, errors = run(
        *["scaling", "--build", place / "new", "--baseline", place / "old"],
        *["--threads", "1,2,4", "--rounds", "3", "--json", "-"],
    )
    assert code == 0 and not errors, errors
    result = json.loads(out)
    assert len(result["runs"]) == 5 * 2 * 3 and all(
        len(r["throughputs"]) == 3 and len(r["results"]) == 3 for r in result["runs"]
    ), result
    by_name: dict[str, list[dict]] = {}
    for ratio in result["ratios"]:
        by_name.setdefault(ratio["name"], []).append(ratio)
    for name, number, value in (
        ("2 threads / 1", 5 * 2, 2),
        ("4 threads / 1", 5 * 2, 4),
        ("new / old", 5 * 3, 0.1),
    ):
        found = by_name.pop(name)
        assert len(found) == number, (name, found)
        assert all(r["ratio"] == r["min"] == r["max"] == value for r in found), (name, found)
        assert all(("of_lookups" in r) == ("threads" in name) for r in found), (name, found)
    assert not by_name, by_name

    # Of one build: what each round ran, without the probes of the systems.
    runs = [line.split() for line in log.read_text().splitlines()]
    heaps = [c[c.index("--heap") + 1] for c in runs if "--heap" in c]
    assert len(set(heaps)) == len(heaps) == 3 * 15, heaps
    assert not any(os.path.exists(heap) for heap in heaps), heaps
    commands = [tuple(c[: c.index("--heap")]) for c in runs if "--heap" in c]
    rounds = [commands[k : k + 15] for k in (0, 15, 30)]
    assert set(rounds[0]) == set(rounds[1]) == set(rounds[2]) and len(set(rounds[0])) == 15, rounds
    assert rounds[1] == rounds[0][1:] + rounds[0][:1] and rounds[0] != rounds[2], rounds


def back_ends(place):
    """With several values of FUR_HTM libfur runs with each, and the others run once."""
    fake(place / "both")
    code, out, errors = run(
        *["scaling", "--build", place / "both", "--threads", "2", "--htm", "none,tsx"],
        *["--systems", "fur-opacity,specpmt", "--rounds", "1", "--json", "-"],
    )
    assert code == 0 and not errors, errors
    result = json.loads(out)
    ran = [(r["system"], r["htm"]) for r in result["runs"]]
    assert set(ran) == {("fur-opacity", "none"), ("fur-opacity", "tsx"), ("specpmt", "")}, ran
    assert len(ran) == 5 * 3, ran
    found = [(r["name"], r["ratio"]) for r in result["ratios"]]
    assert set(found) >= {("tsx / none", 3)}, found
    assert len([name for name, _ in found if name == "tsx / none"]) == 5, found
    code, out, errors = run(
        *["scaling", "--build", place / "both", "--threads", "1,2", "--htm", "tsx"],
        *["--rounds", "1", "--json", "-"],
    )
    assert code == 0 and {r["htm"] for r in json.loads(out)["runs"]} == {""}, (errors, out)
    assert {t for r in json.loads(out)["runs"] for t in r["throughputs"]} == {300, 600}, out


def nothing_done(place):
    """Runs in which no transaction ended have no ratio."""
    fake(place / "idle", each=0)
    code, out, errors = run("scaling", "--build", place / "idle", "--rounds", "1", "--json", "-")
    assert code == 0 and not errors, errors
    found = json.loads(out)["ratios"]
    assert len(found) == 5 and all(r["ratio"] is r["min"] is r["max"] is None for r in found), found


def benchmarks(place):
    """The real ones, quiet and next to a busy process."""
    raw = place / "raw.json"
    systems = 1 if SMOKE else 2
    code, out, errors = run(
        *["peers", "--build", build, "--busy", "1"],
        *["--systems", ",".join(["fur-opacity", "specpmt"][:systems])],
        *[*SHORT, "--json", str(raw)],
    )
    assert code == 0 and not errors, errors
    result = json.loads(raw.read_text())
    assert len(result["runs"]) == 5 * 2 * systems, result
    for r in result["runs"]:
        assert r["results"][0]["verified"] is True and r["results"][0]["tm"] == r["system"], r
        assert r["results"][0]["threads"] == r["threads"] == 2, r
    names = [ratio["name"] for ratio in result["ratios"]]
    assert names.count("fur-opacity / specpmt") == 10 * (systems - 1), names
    assert names.count("1 busy / quiet") == 5 * systems, names
    assert re.search(r"round trip between two cores (\d+ to \d+ ns|unknown)\n", out), out
    lines = [line for line in out.splitlines() if line.startswith("|")]
    rows = len(result["runs"]) + len(names)
    assert len(lines) == 2 + 2 + rows and out.count("1 busy / quiet") == 5 * systems, out


def failures(place):
    fake(place / "wrong", verified="false")
    refused("not verified", "busy", "--build", place / "wrong", *SHORT, status=1)
    empty = place / "empty"
    missing = f"ninja -C {empty} bench/tpcc/tpcc"
    refused(missing, "scaling", "--build", str(empty))
    refused(missing, "scaling", "--build", build, "--baseline", str(empty))
    for says, words in (
        ("preset", ""),
        ("invalid choice: 'best'", "best"),
        ("'0' is no number", "scaling --rounds 0"),
        ("'x' is no number", "scaling --threads 1,x"),
        ("'-1' is no length", "scaling --seconds=-1"),
        ("no system 'best'", "peers --systems best"),
        ("no FUR_HTM 'off'", "scaling --htm none,off"),
        ("unrecognized", "scaling --fast"),
    ):
        refused(says, *words.split())


def busy_loops(pid):
    """The busy processes that process `pid` has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:  # it has just ended
            continue
        if str(pid) in words and any("sched_setaffinity" in word for word in words):
            found.append(path.parent.name)
    return found


def stopped(place):
    """Busy processes and heaps go with it; when it is killed, only the busy processes can."""
    for how, status in (
        (signal.SIGINT, 130),
        (signal.SIGTERM, 130),
        (signal.SIGKILL, -signal.SIGKILL),
    ):
        log = fake(place / how.name)
        command = [ratios, "scaling", "--build", place / how.name, "--busy", "2"]
        with subprocess.Popen(
            [*command, "--rounds", "1000"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # the signal is for this process alone
        ) as process:
            while len(busy_loops(process.pid)) < 2:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            process.send_signal(how)
            out, errors = process.communicate()
        assert process.returncode == status and out == "", (how, process.returncode, out)
        while busy_loops(process.pid):  # each ends itself if its parent could not end it
            time.sleep(0.01)
        if how != signal.SIGKILL:
            assert "stopped" in errors and "Traceback" not in errors, errors
        for line in log.read_text().splitlines():
            command = line.split()
            if "--heap" in command:
                heap = Path(command[command.index("--heap") + 1])
                assert how == signal.SIGKILL or not heap.parent.exists(), heap
                shutil.rmtree(heap.parent, ignore_errors=True)


with tempfile.TemporaryDirectory() as directory:
    alternation(Path(directory))
    back_ends(Path(directory))
    nothing_done(Path(directory))
    benchmarks(Path(directory))
    failures(Path(directory))
    stopped(Path(directory))
print("ok")
