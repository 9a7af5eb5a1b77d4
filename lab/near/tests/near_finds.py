#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the tests of rules on a program with a planted bug: they must fail, by an expectation."""
import subprocess
import sys

result = subprocess.run(
    [sys.argv[1], "--gtest_filter=*NearRules*"], capture_output=True, text=True, timeout=100
)
print(result.stdout[-4000:])
if result.returncode != 1 or "FAILED TEST" not in result.stdout:
    print(result.stderr, file=sys.stderr)
    sys.exit(f"near_finds.py: exit status {result.returncode}: {sys.argv[1]} found nothing")
