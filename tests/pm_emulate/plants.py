#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Persistence bugs for pm-emulate to find: those of the emulated machine's list (tests/emulated/variants.py) that a processor without
hardware transactions can show, and lost write-backs and fences of its own.

    plants.py --table                  name and source file, a line a bug, between tabs
    plants.py --plant BUG SRC          that file, below SRC, with the bug in it, to standard output
"""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "emulated"))
sys.dont_write_bytecode = True
import variants  # noqa: E402

FROM_THE_LIST = ["reader-no-wait", "update-no-wait", "unlock-first", "no-dependencies", "marker-without-log", "tail-first", "no-write-back", "early-lap"]

# As in variants.py: name: (file, what is wrong, [(piece, replacement)], None)
OWN = {
    "no-log-flush": (
        "durability/redo.c", "the log is not written back",
        [("		pm_flush(&d->pm, log->persistent + r.place[k], r.bytes[k]);\n", "		(void)r;\n")], None),
    "no-marker-flush": (
        "durability/commit.c", "a commit's marker is not written back",
        [("	pm_flush(&d->pm, durability_marker(d, slot), sizeof marker);\n	error = drain(d);", "	error = drain(d);")], None),
    "no-commit-fence": (
        "durability/commit.c", "a commit does not wait for its write-backs",
        [("	int error = pm_drain(&d->pm);\n	/* Before leave()", "	int error = 0;\n	/* Before leave()")], None),
    "closed-first": (
        "fur_heap.c", "an open heap is not said to be open, durably, before its first commit",
        [("	pm_flush(&d->pm, &d->words->state, sizeof d->words->state);\n", "")], None),
}

BUGS = {name: variants.BUGS[name] for name in FROM_THE_LIST} | OWN


if __name__ == "__main__":
    variants.command(BUGS, [0], __doc__)
