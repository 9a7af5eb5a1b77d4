#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""AddressSanitizer or valgrind reports each use of a freed heap block, and no use that is right.

    checkers_test.py PROGRAM asan | PROGRAM memcheck VALGRIND

PROGRAM is freed-blocks, built with -fsanitize=address for `asan`, and without it for `memcheck`.
Without a checker, all of its ways end with status 0.
"""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, CHECKER = sys.argv[1], sys.argv[2:]
ASAN = CHECKER == ["asan"]
REPORTED = 99
WAYS = subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout.split()
NAMES = dict(zip(WAYS[1::2], WAYS[::2]))


def run(way: str, watched: bool = True) -> subprocess.CompletedProcess[str]:
    under = [CHECKER[1], "-q", f"--error-exitcode={REPORTED}"] if watched and not ASAN else []
    options = f"exitcode={REPORTED}:abort_on_error=0:detect_leaks=0:symbolize=0"
    with tempfile.TemporaryDirectory() as place:
        return subprocess.run(
            [*under, PROGRAM, str(Path(place) / "heap"), way],
            env={**os.environ, "ASAN_OPTIONS": options},
            capture_output=True,
            text=True,
            check=False,
        )


class Checkers(unittest.TestCase):
    def test_wrong_ways_are_reported(self) -> None:
        for way in (name for name, kind in NAMES.items() if kind == "wrong"):
            with self.subTest(way):
                done = run(way)
                self.assertEqual(done.returncode, REPORTED, done.stderr)
                report = "use-after-poison" if ASAN else "naddressable|nvalid read"
                self.assertRegex(done.stderr, report)

    def test_right_ways_are_not(self) -> None:
        for way in (name for name, kind in NAMES.items() if kind == "right"):
            with self.subTest(way):
                done = run(way)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    @unittest.skipIf(ASAN, "the program is built with the checker")
    def test_without_a_checker_nothing_is_reported(self) -> None:
        for way in NAMES:
            with self.subTest(way):
                done = run(way, watched=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
