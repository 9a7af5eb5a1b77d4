#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of snapshots on emulated machines: with updates in software and in hardware it has
all figures, and each scan finds all keys; a run repeats; what no machine can do is refused.

    snapshot_emulated_test.py SNAPSHOT-EMULATED
"""
import json
import subprocess
import sys

SHORT = ["--keys", "1000", "--seconds", "0.0003", "--writers", "2", "--readers", "2"]
RATIOS = (
    "updates_beside_sleeping_snapshot",
    "updates_beside_scan",
    "scan_beside_updates",
    "updates_beside_begin_and_end",
)


def run(*arguments):
    return subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, check=False)


def figures(*arguments):
    done = run(*SHORT, *arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def main():
    for machine, htm in (("epyc", "none"), ("tsx", "tsx"), ("power9", "power")):
        found = figures("--machine", machine, "--htm", htm)
        assert found["machine"] == machine and found["htm"] == htm
        assert found["updates_per_second"] > 0 and found["scan_entries_per_second"] > 0, found
        assert all(found[ratio] > 0 for ratio in RATIOS), found
        assert found["saved_lines"] > 0 and found["snapshots_revoked"] == 0, found
        if machine == "epyc":
            assert figures("--machine", machine, "--htm", htm) == found
    for arguments, says in (
        (["--machine", "nowhere"], "nowhere"),
        (["--writers", "60", "--readers", "60"], "120"),
        (["--htm", "fast"], "--htm"),
    ):
        done = run(*arguments)
        assert done.returncode == 2 and says in done.stderr, (arguments, done.stderr)


main()
