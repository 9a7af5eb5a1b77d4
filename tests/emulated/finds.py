#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run a command that must find a violation, report it, and exit with status 1."""
import subprocess
import sys

result = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
print(result.stdout)
if (
    result.returncode != 1
    or "VIOLATION" not in result.stdout
    or "repeat with: explore" not in result.stdout
):
    print(result.stderr, file=sys.stderr)
    sys.exit(
        f"finds.py: exit status {result.returncode}, no violation found by: "
        f"{' '.join(sys.argv[1:])}"
    )
