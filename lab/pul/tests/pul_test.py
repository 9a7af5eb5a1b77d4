#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""lab/pul: every operator with every strategy gives the host's results; planted bugs do not;
wrong usage is refused.

    pul_test.py PUL PLANT ...
"""
import itertools
import json
import os
import subprocess
import sys

pul, *plants = sys.argv[1:]
SMALL = [
    "--requests",
    "1003",
    "--records",
    "512",
    "--chunk",
    "32",
    "--distance",
    "5",
    "--values",
    "3",
]
READS = ["none", "sequential", "batch", "memcpy"]
WRITES = ["wait", "unload", "memcpy"]
# An exclusive machine and a coherent one of each back end, and elements and tasklets for it.
NATIVE = [("threads", 2, 3), ("threads:coherent", 3, 1)]
EMULATED = [("upmem", 2, 3), ("pul-ndp:nvm", 3, 1)]


def run(program, *args):
    return subprocess.run(
        [program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False
    )


def on(machine, pes, tasklets):
    return ["--machine", machine, "--pes", str(pes), "--tasklets", str(tasklets)]


def verified(where, *args):
    done = run(pul, *on(*where), *SMALL, *args, "--json", "-")
    assert done.returncode == 0, (where, args, done.stderr)
    result = json.loads(done.stdout)
    assert result["verified"] and result["throughput"] > 0, result
    return result


def all_work(where):
    for operator, read in itertools.product(
        ["sum", "aggregate", "filter", "visible", "nothing"], READS
    ):
        verified(where, "--operator", operator, "--strategy", read)
    for read, write, form in itertools.product(READS, WRITES, ["records", "positions"]):
        for percent in ("0", "50", "100"):
            verified(
                where,
                *["--operator", "materialise", "--strategy", read, "--write", write],
                *["--form", form, "--percent", percent, "--flush", "128"],
            )
    for write, order in itertools.product(WRITES, ["sequential", "random"]):
        verified(where, "--operator", "update", "--write", write, "--order", order)
    # More records ahead than there are, and one.
    for distance in ("1", "64"):
        for read in ("sequential", "batch"):
            few = ["--strategy", read, "--distance", distance, "--requests", "33"]
            verified((where[0], 1, 1), *few)


def virtual_time_repeats(where):
    """The same time at each run, whatever threads run the elements."""
    results = [
        verified(where, "--operator", "sum", "--strategy", "batch", "--host-threads", threads)
        for threads in ("1", "2", "2")
    ]
    assert results[0]["cycles"] > 0 and results[0]["instructions"] > 0, results[0]
    assert all(result == results[0] for result in results), results


# Of each plant: options with which it does harm, and messages that say so.
SUM = ["--operator", "sum", "--strategy", "batch"]
RESULTS = ["--operator", "materialise", "--strategy", "batch", "--write", "unload"]
EARLY, CHANGED, WRONG = "before near_wait()", "while a transfer used it", "not the host's"
FOUND = {
    "consume": (SUM, [EARLY, CHANGED, WRONG]),
    "overwrite": (SUM, [EARLY, CHANGED, WRONG]),
    "reuse": (RESULTS, [CHANGED]),
    "release": (SUM, [EARLY]),
    "exclusive": (SUM, ["poll until it has ended"]),
}


# On an exclusive emulated machine a transfer ends within its call, so that a missing wait does no
# harm.
HARMLESS = {"upmem": {"consume", "overwrite", "reuse", "release"}}


def plants_are_found(where):
    left = set(FOUND)
    for plant in plants:
        name = os.path.basename(plant).rpartition("-")[2]
        options, says = FOUND[name]
        if name in HARMLESS.get(where[0], ()):
            left.remove(name)
            continue
        found = run(plant, *on(*where), *SMALL, *options, "--requests", "100003")
        assert found.returncode == 1, (name, where, found.stdout)
        assert any(text in found.stderr for text in says), (name, where, found.stderr)
        left.remove(name)
    assert not left, left


def usage():
    for args, says in [
        (["--operator", "join"], "--operator join"),
        (["--strategy", "batch", "--transfer", "2048"], "bytes of scratchpad"),
        (["--transfer", "68"], "multiple of 8"),
        (["--operator", "materialise", "--flush", "96"], "multiple of --transfer"),
        (["--operator", "aggregate", "--values", "17"], "use at most 16"),
    ]:
        refused = run(pul, *args)
        assert refused.returncode == 2 and says in refused.stderr, (args, refused)
        assert refused.stderr.count("\n") == 1, refused.stderr


usage()
for machine in NATIVE:
    all_work(machine)
    plants_are_found(machine)
probe = run(pul, "--machine", "upmem", "--requests", "32")
if probe.returncode:
    print(f"skipped: emulated machines: {probe.stderr}", end="")
else:
    for machine in EMULATED:
        all_work(machine)
        virtual_time_repeats(machine)
        plants_are_found(machine)
print("ok")
