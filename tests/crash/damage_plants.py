#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Bugs of recovery for damage-test to find, as in tests/emulated/variants.py.

    damage_plants.py --table                  name and source file, and how it is found, a line a bug, between tabs
    damage_plants.py --plant BUG SRC          that file, below SRC, with the bug in it, to standard output
"""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "emulated"))
sys.dont_write_bytecode = True
import variants  # noqa: E402

BUGS = {
    "no-refusal": (
        "replayer/replay.c", "a heap is recovered although an update is missing that was settled (INV-R7)",
        [("	return error ? error : refuse_damage(w);", "	return error;")], "--openings 3000"),
    "no-correction": (
        "replayer/replay.c", "one wrong byte is not corrected (INV-R7)",
        [("	for (uint64_t s = w->tail; s < w->limit; s++)\n		if (w->verdicts", "	for (uint64_t s = w->limit; s < w->limit; s++)\n		if (w->verdicts")], "--openings 3000"),
    "no-claims": (
        "durability/commit.c", "records do not say which slots were settled (INV-M4)",
        [(".own = log->slot, .settled = set->below, .clear = set->below};", ".own = 0};")], "--openings 3000"),
    "no-trailer": (
        "replayer/replay.c", "a replay does not say that it has begun (INV-M4)",
        [("		arch_store(&trailer->replaying, media_tail_encode(end));\n", "")], "--kind hot-copy --openings 3000"),
}


if __name__ == "__main__":
    variants.command(BUGS, [0, 3], __doc__)
