#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run the tests of lab/oltpim on programs with planted bugs: they must fail, by an expectation.

    oltpim_finds.py PROGRAM ...
"""
import subprocess
import sys

# What finds a bug.  A program's name ends with the bug's.
FILTERS = {
    "classes": "*CommitsComeBeforeReads*",
    "collect": "*CollectsVersions*",
    "entry": "*LookupsFindWhatTransactionsSee*",
    "forgets": "*RemovedRowsStayRemoved*",
    "first": "*UpdateIsNotLost*",
    "released": "*HasWhatWasReleasedAtEachStage*",
    "row": "*LookupsFindWhatTransactionsSee*",
    "unordered": "*SettlesInOrder*",
    "unseen": "*SettlesInOrder*",
}

for program in sys.argv[1:]:
    tests = FILTERS[program.rsplit("-", maxsplit=1)[-1]]
    result = subprocess.run(
        [program, f"--gtest_filter={tests}"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if result.returncode != 1 or "FAILED TEST" not in result.stdout:
        print(result.stdout[-4000:], result.stderr, file=sys.stderr)
        sys.exit(f"oltpim_finds.py: exit status {result.returncode}: {program} found nothing")
    print(f"{program}: found")
