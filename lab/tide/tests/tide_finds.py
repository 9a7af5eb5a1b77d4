#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the search for schedules on programs with planted bugs: it must find one.

    tide_finds.py PROGRAM ...
"""
import subprocess
import sys

SEARCH = "--machine upmem --workload schedules --schedules 20".split()

for program in sys.argv[1:]:
    result = subprocess.run(
        [program, *SEARCH], capture_output=True, text=True, timeout=100, check=False
    )
    if result.returncode != 1 or " schedules are not serialisable" not in result.stdout:
        print(result.stdout[-4000:], result.stderr, file=sys.stderr)
        sys.exit(f"tide_finds.py: exit status {result.returncode}: {program} found nothing")
    print(f"{program}: {result.stdout.splitlines()[-1]}")
