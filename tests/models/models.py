#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the protocol's model: what must hold does, and every mutation is found.

    models.py                every case
    models.py NAME ...       some of them
    models.py --list         their names
    models.py --long         also those with two readers and two updates of more kinds (minutes)
    models.py --trace NAME   the steps that lead to the violation of a case that must fail

Each case is one run of Spin over fur.pml.  Exit status 0: all as expected, 1: not, 2: wrong usage.
"""
import argparse
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fur.pml")
MACHINES = {"tsx": ["TSX"], "tracked": ["TRACKED"], "power": ["POWER"], "rot": ["POWER", "ROT"]}

# A mutation, and a machine and workload on which it must be found.
MUTATIONS = [
    ("NOFENCE", "tsx", ["ISO"]),
    ("NOFENCE", "power", ["ISO"]),
    ("NOFENCE", "rot", ["ISO"]),
    ("NOISO", "tsx", ["ISO"]),
    ("NOISO", "power", ["ISO"]),
    ("NOISO", "rot", ["ISO"]),
    ("NOWAITD", "tsx", []),
    ("NOWAITD", "tracked", []),
    ("NOWAITD", "power", []),
    ("NOWAITD", "rot", []),
    ("EARLYD", "tsx", []),
    ("EARLYD", "tracked", []),
    ("EARLYD", "power", []),
    ("EARLYD", "rot", []),
    ("NODEPS", "tsx", []),
    ("NODEPS", "power", []),
    ("NOSLOTWAIT", "tsx", []),
    ("NOMARK", "power", []),
    ("NOMARK", "rot", []),
    ("EARLYLAP", "tsx", ["RING=1"]),
    ("EARLYLAP", "rot", ["RING=1"]),
    ("TAILFIRST", "tsx", []),
    ("TAILFIRST", "power", []),
    ("NOWRITEOUT", "tsx", ["BESIDE"]),
    ("NOWRITEOUT", "power", ["BESIDE"]),
    ("NOWRITEOUT", "rot", ["BESIDE"]),
    ("NOSUBSCRIBE", "tsx", []),
    ("NOSUBSCRIBE", "power", []),
    ("NOSUBSCRIBE", "rot", []),
    ("NOLOOK", "tsx", ["ISO"]),
    ("NOLOOK", "rot", ["ISO"]),
    ("NODRAIN", "tsx", ["ISO"]),
    ("NODRAIN", "rot", ["ISO"]),
    ("UNLOCKFIRST", "tsx", []),
    ("UNLOCKFIRST", "power", []),
    ("LATECLAIM", "tsx", ["APART"]),
    ("LATECLAIM", "tracked", ["APART"]),
    ("WINDOWCLAIM", "power", []),
    ("WINDOWCLAIM", "rot", []),
    ("PAPER", "power", []),
    ("PAPER", "rot", []),
]


def cases(long):
    """name -> (defines, must_hold)"""
    found = {}
    for machine, defines in MACHINES.items():
        for workload in ([], ["ISO"], ["RING=1"], ["BESIDE"], ["APART"]) + (
            (["NR=2"], ["NR=2", "ISO"], ["NR=2", "RING=1"]) if long else ()
        ):
            name = "-".join([machine] + [w.lower().replace("=", "") for w in workload])
            found[name] = (defines + workload, True)
    for mutation, machine, workload in MUTATIONS:
        found[f"{machine}-{mutation}"] = (MACHINES[machine] + workload + [mutation], False)
    return found


def run(defines, trace):
    """(violations found, states, the trail if asked for)"""
    with tempfile.TemporaryDirectory() as place:
        flags = ["-D" + d for d in defines]
        subprocess.run(
            ["spin", "-a", *flags, MODEL],
            cwd=place,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        subprocess.run(
            ["gcc", "-w", "-O1", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"],
            cwd=place,
            check=True,
        )
        out = subprocess.run(
            ["./pan", "-m300000"] + (["-i"] if trace else []),
            cwd=place,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        # A search that ran out of depth or memory has shown nothing.
        if "max search depth too small" in out or "out of memory" in out:
            raise RuntimeError("the search is not complete:\n" + out)
        errors = int(re.search(r"errors: (\d+)", out).group(1))
        states = int(re.search(r"(\d+) states, stored", out).group(1))
        trail = ""
        if trace and errors:
            os.rename(os.path.join(place, "fur.pml.trail"), os.path.join(place, "t.trail"))
            trail = subprocess.run(
                ["spin", "-p", "-g", "-k", "t.trail", *flags, MODEL],
                cwd=place,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout
        return errors, states, trail


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()
    table = cases(args.long)
    if args.list:
        print("\n".join(table))
        return 0
    unknown = [n for n in args.names if n not in table]
    if unknown:
        parser.error(f"no case '{unknown[0]}': see --list")
    passed = failed = 0
    names = args.names or list(table)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, (errors, states, trail) in zip(
            names, pool.map(lambda n: run(table[n][0], args.trace), names)
        ):
            good = (errors == 0) == table[name][1]
            passed, failed = passed + good, failed + (not good)
            print(
                f"{'ok  ' if good else 'FAIL'} {name:24} {'holds' if errors == 0 else 'violation found':16} {states:9} states",
                flush=True,
            )
            if trail:
                print(trail)
            if not good:
                print(f"     repeat with: {sys.argv[0]} {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
