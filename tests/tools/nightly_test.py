#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/nightly.py on a build with one test, whose library has a planted bug: it prints a command
that repeats what it has found.

    nightly_test.py NIGHTLY EXPLORE
"""
import json
import os
import re
import subprocess
import sys
import tempfile

nightly, explore = sys.argv[1], os.path.abspath(sys.argv[2])
BUG = "joined-reader"  # every second seed finds it
options = ["--workload", "bank", "--machine", "epyc", "--seeds", "1..5"]


def night(place, *command, hours="0", seed="1000"):
    """A night of one round, on a build with this test."""
    os.makedirs(f"{place}/meson-info", exist_ok=True)
    with open(f"{place}/meson-info/intro-tests.json", "w") as f:
        json.dump([{"name": "one", "cmd": command, "env": {"FUR_HTM": "none"}}], f)
    return subprocess.run(
        [sys.executable, nightly, place, hours, "--seed", seed], capture_output=True, text=True
    )


def finding(place):
    os.mkdir(f"{place}/tests")
    os.symlink(f"{explore}-plant-{BUG}", f"{place}/tests/explore")
    done = night(place, f"{place}/tests/explore", *options)
    assert done.returncode == 1 and "1 findings" in done.stdout, done
    assert "VIOLATION" in done.stdout and done.stdout.count("repeat with:") == 1, done.stdout
    command = re.findall(r"^repeat with: (.*)$", done.stdout, re.MULTILINE)[0]
    seed = re.findall(r"VIOLATION, seed (\d+)", done.stdout)[0]
    assert f"--seeds {seed}..{seed}" in command and int(seed) >= 1000, command
    again = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert again.returncode == 1 and f"VIOLATION, seed {seed}" in again.stdout, again


def planted(place):
    """That a planted bug is found is no finding: the table says how many seeds it took."""
    done = night(place, explore, "--plant", BUG, "--must-find", "1", *options)
    assert done.returncode == 0 and "0 findings" in done.stdout, done
    found, fewest = re.findall(r"^one +(\d+) +(\d+)", done.stdout, re.MULTILINE)[0]
    assert int(found) >= 1 and 1 <= int(fewest) <= 20, done.stdout


def nothing(place):
    done = night(place, explore, *options)
    assert done.returncode == 0 and "0 findings" in done.stdout, done


def usage(place):
    done = night(place, "/bin/true")
    assert done.returncode == 2 and "no test that takes a seed" in done.stderr, done
    done = night(place, explore, *options, hours="long")
    assert done.returncode == 2, done


for case in (finding, planted, nothing, usage):
    with tempfile.TemporaryDirectory() as scratch:
        case(scratch)
print("ok")
