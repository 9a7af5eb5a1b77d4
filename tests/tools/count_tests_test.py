#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""count_tests.py counts a JUnit file's cases, and prints what the failed ones report."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools/count_tests.py"
CASES = """<testsuites><testsuite name="unit">
<testcase classname="Heap" name="Opens" status="run" />
<testcase classname="Heap" name="NotHere" status="run"><skipped message="no disk" /></testcase>
<testcase classname="Heap" name="Disabled" status="notrun" />
<testcase classname="Heap" name="Closes" status="run">
<failure message="heap_test.cpp:7&#x0A;Expected equality">heap_test.cpp:7
Expected equality</failure></testcase>
<testcase classname="libfur" name="Crashes"><error message="killed by SIGSEGV" /></testcase>
<testcase classname="libfur" name="binding"><failure />
<system-out>first
assertion failed
</system-out></testcase>
</testsuite></testsuites>"""


def run(*options: str) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(CASES)
        file.flush()
        return subprocess.run(
            [sys.executable, str(TOOL), file.name, *options],
            check=True,
            capture_output=True,
            text=True,
        ).stdout


class CountTests(unittest.TestCase):
    def test_counts(self) -> None:
        self.assertEqual(run(), "1 3 2\n")

    def test_prints_each_failed_case_and_its_report(self) -> None:
        self.assertEqual(
            run("--failed"),
            "Heap.Closes\n    heap_test.cpp:7\n    Expected equality\n"
            "libfur.Crashes\n    killed by SIGSEGV\n"
            "libfur.binding\n    first\n    assertion failed\n",
        )


if __name__ == "__main__":
    unittest.main()
