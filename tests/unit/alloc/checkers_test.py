#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""AddressSanitizer or valgrind reports each use of a freed heap block, and no use that is right.

    checkers_test.py PROGRAM asan | PROGRAM memcheck VALGRIND

PROGRAM is freed-blocks, built with -fsanitize=address for `asan`, and without it for `memcheck`.
Without a checker, all of its ways end with status 0.
"""
import os
import re
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


def run(kind: str, watched: bool = True) -> dict[str, tuple[int, str]]:
    """The status and the messages of each way of this kind."""
    under = [CHECKER[1], "-q", f"--error-exitcode={REPORTED}"] if watched and not ASAN else []
    options = f"exitcode={REPORTED}:abort_on_error=0:detect_leaks=0:symbolize=0"
    ways = [name for name in NAMES if kind in ("", NAMES[name])]
    with tempfile.TemporaryDirectory() as place:
        done = subprocess.run(
            [*under, PROGRAM, str(Path(place) / "heap"), *ways],
            env={**os.environ, "ASAN_OPTIONS": options},
            stderr=subprocess.PIPE,
            text=True,
            check=True,
        )
    parts = re.split(r"^(\S+) ended with (-?\d+)\n", done.stderr, flags=re.MULTILINE)
    assert parts[1::3] == ways and not parts[-1], done.stderr
    return dict(zip(ways, zip(map(int, parts[2::3]), parts[::3])))


class Checkers(unittest.TestCase):
    def test_wrong_ways_are_reported(self) -> None:
        for way, (status, says) in run("wrong").items():
            with self.subTest(way):
                self.assertEqual(status, REPORTED, says)
                report = "use-after-poison" if ASAN else "naddressable|nvalid read"
                self.assertRegex(says, report)

    def test_right_ways_are_not(self) -> None:
        for way, done in run("right").items():
            with self.subTest(way):
                self.assertEqual(done, (0, ""))

    @unittest.skipIf(ASAN, "the program is built with the checker")
    def test_without_a_checker_nothing_is_reported(self) -> None:
        for way, done in run("", watched=False).items():
            with self.subTest(way):
                self.assertEqual(done, (0, ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
