#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the search for schedules, or a test, on programs with planted bugs: it must find one.

    tide_finds.py PROGRAM ...
"""
import subprocess
import sys

# What finds a bug, and what it prints then.  A program's name ends with the bug's.
FINDS = {
    "holds": (
        "--machine upmem --workload schedules --schedules 20",
        " schedules are not serialisable",
    ),
    "takesnew": ("--gtest_filter=Tide.AStoreOverANewerWordFails", "one of the stores is lost"),
}

for program in sys.argv[1:]:
    options, says = FINDS[program.rsplit("-", maxsplit=1)[-1]]
    result = subprocess.run(
        [program, *options.split()], capture_output=True, text=True, timeout=100, check=False
    )
    if result.returncode != 1 or says not in result.stdout:
        print(result.stdout[-4000:], result.stderr, file=sys.stderr)
        sys.exit(f"tide_finds.py: exit status {result.returncode}: {program} found nothing")
    print(f"{program}: {next(line for line in result.stdout.splitlines() if says in line)}")
