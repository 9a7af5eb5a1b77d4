#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""sensitivity.py: a row for each key, no run twice, wrong usage refused.

    sensitivity_test.py SENSITIVITY BUILD
"""
import os
import re
import subprocess
import sys
import tempfile

program, build = sys.argv[1:]
SMALL = ["--build", build, "--workload", "tree", "--threads", "1,2", "--seconds", "0.0001"]


def run(out, *args):
    return subprocess.run(
        [program, *SMALL, "--out", os.path.join(out, "runs"), *args],
        capture_output=True,
        text=True,
        check=False,
    )


def ratios(table, row):
    line = next(line for line in table.splitlines() if line.startswith(f"| {row} |"))
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


with tempfile.TemporaryDirectory() as out:
    first = run(out, "--keys", "write_ns,suspend_ns")
    assert first.returncode == 0, first.stderr
    # FUR and three others, two numbers of threads: as described, by two other seeds, and two rows.
    assert first.stderr == f"{4 * 2 * (1 + 2 + 2 * 2)} runs\n", first.stderr
    assert len(ratios(first.stdout, "as described")) == 3 * 2, first.stdout
    row = ratios(first.stdout, "`suspend_resume_ns`, `suspend_ns`")
    assert len(row) == 3 * 2 * 2, first.stdout
    # The shorter FUR's suspend and resume, the faster FUR; Pisces has none.
    assert row[-2] > row[-1], first.stdout

    again = run(out, "--keys", "write_ns,suspend_ns")
    assert again.stdout == first.stdout and again.stderr == "0 runs\n", again.stderr

    slower = run(out, "--keys", "none", "--set", "suspend_resume_ns=[35000, 35000]")
    assert slower.returncode == 0, slower.stderr
    was, now = (ratios(done.stdout, "as described") for done in (first, slower))
    assert all(b < a for a, b in zip(was, now)), (was, now)

    for wrong in (["--keys", "nonsense"], ["--set", "l9=3"], ["--build", out]):
        refused = run(out, *wrong)
        assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
