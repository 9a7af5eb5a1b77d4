#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""softtsx-tests never reaches a TSX instruction: ud2 precedes each of them.  Otherwise they are
those of the library.

    traps_test.py OBJDUMP SOFTTSX_TESTS LIBFUR
"""
import collections
import re
import subprocess
import sys

TSX = ("xbegin", "xend", "xabort", "xsusldtrk", "xresldtrk")


def instructions(program):
    text = subprocess.run(
        [sys.argv[1], "-d", "--no-show-raw-insn", program],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return re.findall(r"^\s+[0-9a-f]+:\s+(?:(?:bnd|data16|notrack) )*(\S+)", text, re.M)


def tsx(program):
    """Each TSX instruction, with the one before it."""
    words = instructions(program)
    return [(before, word) for before, word in zip(words, words[1:]) if word in TSX]


trapped, library = tsx(sys.argv[2]), tsx(sys.argv[3])
bare = [word for before, word in trapped if before != "ud2"]
if bare:
    sys.exit(f"softtsx-tests: no ud2 before {len(bare)} of its instructions: {sorted(set(bare))}")
if any(before == "ud2" for before, _ in library):
    sys.exit("the library has the tests' traps in it")
# Traps may change how often the compiler repeats an instruction, not which there are.
here, there = (collections.Counter(word for _, word in found) for found in (trapped, library))
if set(here) != set(TSX) or set(there) != set(TSX):
    sys.exit(
        f"softtsx-tests has {dict(here)}, the library {dict(there)}; "
        f"both should have all of {', '.join(TSX)}"
    )
print(f"ok: {dict(here)}, each behind ud2; in the library {dict(there)}")
