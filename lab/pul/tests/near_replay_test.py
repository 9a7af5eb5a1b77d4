#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""lab/pul/near-replay: what the elements make of a heap is what recovery makes of it, byte for
byte, also of a bulk update; planted bugs are found.

    near_replay_test.py NEAR_REPLAY PLANT ...
"""
import json
import os
import subprocess
import sys
import tempfile

program, *plants = sys.argv[1:]
# Machines of each kind and back end; elements and tasklets for them.
NATIVE = [("threads", 4, 5), ("threads:coherent", 4, 1)]
EMULATED = [("upmem", 4, 5), ("pul-ndp:nvm", 4, 1)]
SMALL = ["--heap-mib", "4", "--updates", "1000"]
# Entries that overlap, so that their order matters.
CLOSE = ["--spread", "1024"]
# Next to a bulk update, whose results lie in the heap: records of whole words, of parts of words,
# and of several pieces each.
BULK = [
    ["--bulk-records", str(records), "--bulk-bytes", str(size)]
    for records, size in ((2000, 64), (1000, 100), (40, 9001))
]


def run(name, where, *args):
    machine, elements, tasklets = where
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        heap = os.path.join(place, "heap")
        command = [name, "--machine", machine, "--heap", heap, *SMALL, *args, "--json", "-"]
        command += ["--elements", str(elements), "--tasklets", str(tasklets)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False
        )
        assert not os.path.exists(heap), command
        return done


def same(where, *args):
    done = run(program, where, *args)
    assert done.returncode == 0, (where, args, done.stderr)
    result = json.loads(done.stdout)
    assert result["verified"] and result["entries"] > 1000, result
    assert (result["bulk_pieces"] > 0) == ("--bulk-records" in args), result
    return result


def all_work(where):
    for seed in ("1", "2"):
        same(where, "--seed", seed)
        same(where, "--seed", seed, *CLOSE)
    for bulk in BULK:
        # A seventh of the records stays as it is.
        result = same(where, *bulk, *CLOSE)
        assert result["bulk_pieces"] >= int(bulk[1]) * 5 // 7, result
        same(where, *bulk)
    # The memory has room for a part of the words at a time.
    assert same(where, "--most-portions", "20")["launches"] > 3
    one = (where[0], 1, where[2])
    same(one, *CLOSE)


def plants_are_found(where):
    """A wrong order does harm only if no later entry stores to the same bytes."""
    finds: list[tuple[str, list[str]]] = [
        ("not the host's", []),
        ("while a transfer used it", []),
        ("not the host's", BULK[1]),
    ]
    for plant, (says, args) in zip(plants, finds):
        for seed in range(1, 21):
            found = run(plant, where, *CLOSE, *args, "--seed", str(seed))
            if found.returncode:
                break
        assert found.returncode == 1 and says in found.stderr, (plant, where, found)


assert [os.path.basename(p).rpartition("-")[2] for p in plants] == [
    "order",
    "refill",
    "bulk",
], plants
for machine in NATIVE:
    all_work(machine)
    plants_are_found(machine)
probe = run(program, ("upmem", 1, 1))
if probe.returncode:
    print(f"skipped: emulated machines: {probe.stderr}", end="")
else:
    for machine in EMULATED:
        all_work(machine)
    # On upmem a transfer ends within its call, so that a missing wait does no harm.
    plants_are_found(EMULATED[1])
wrong = run(program, ("threads", 3, 1))
assert wrong.returncode == 2 and "use a power of two" in wrong.stderr, wrong
print("ok")
