#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Let the power fail under the victim at many points, and check after each.  The victim begins with
no heap; with --again on a heap that a power failure left, which it recovers first; with --killed it
is killed, and a second one recovers the heap, of which much is in the caches still; with --daemon
it runs alongside a replayer, which the power failure ends too.

    explore.py PM_EMULATE VICTIM [--workload mixed] [--points 60] [--seed 1] [--updates 200]
               [--readers 1] [--again | --killed | --daemon REPLAYER] [--pm DOMAIN]
               [--must-find] [--grow] [--late] [--snapshots] [--fur-check PATH]
               [--directory /dev/shm]

--grow: the heap grows.  --late: updates end with tickets.  --snapshots: two threads take
snapshots.  --fur-check: after the check, fur-check must find the heap sound.  --must-find: the
victim has a planted bug.  Exit status: 0 as it should be, 1 not.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("pm_emulate")
parser.add_argument("victim")
parser.add_argument("--workload", default="mixed")
parser.add_argument("--points", default=60, type=int)
parser.add_argument("--seed", default=1, type=int)
parser.add_argument("--updates", default=200, type=int)
parser.add_argument("--readers", default=1, type=int)
parser.add_argument("--timeout", default=60, type=int)
parser.add_argument("--again", action="store_true")
parser.add_argument("--killed", action="store_true")
parser.add_argument("--daemon", metavar="REPLAYER")
parser.add_argument("--pm", metavar="DOMAIN", help="the persistence domain (FUR_PM)")
parser.add_argument("--grow", action="store_true")
parser.add_argument("--late", action="store_true")
parser.add_argument("--snapshots", action="store_true")
parser.add_argument("--fur-check", metavar="PATH")
parser.add_argument("--must-find", action="store_true")
parser.add_argument("--directory", default="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
a = parser.parse_args()

if a.pm:
    os.environ["FUR_PM"] = a.pm
place = tempfile.mkdtemp(prefix="fur-pm-emulate-", dir=a.directory)
heap, acks = f"{place}/heap", f"{place}/acks"
victim = [
    "--heap",
    heap,
    "--acks",
    acks,
    "--workload",
    a.workload,
    "--seed",
    str(a.seed),
    "--updates",
    str(a.updates),
    "--readers",
    str(a.readers),
]
if a.grow:
    victim.append("--grow")
if a.late:
    victim.append("--late")
if a.snapshots:
    victim.append("--snapshots")
before = f"rm -f {heap} {acks}"
program = [a.victim, "run", *victim]
if a.killed:
    program = ["sh", "-c", f"{' '.join(program)} --die; exec {' '.join(program)}"]
if a.again or a.daemon:
    prepared = f"mv {heap} {heap}.first && mv {acks} {acks}.first"
    if a.again:
        # No process has recovered it yet: the run begins with that.
        subprocess.run(
            [
                a.pm_emulate,
                "--quiet",
                "--fail-at",
                "fence:150",
                "--seed",
                str(a.seed),
                "--file",
                heap,
                "--",
                *program,
            ],
            check=True,
        )
    else:
        one = [*program]
        one[one.index("--updates") + 1] = "1"
        subprocess.run(one, check=True)
        program = [
            "sh",
            "-c",
            f"{a.daemon} --quiet --heap {heap} & {' '.join(program)}; s=$?; kill $!; wait; exit $s",
        ]
    subprocess.run(prepared, shell=True, check=True)
    before = f"cp {heap}.first {heap} && cp {acks}.first {acks}"
command = [
    a.pm_emulate,
    "--explore",
    str(a.points),
    "--seed",
    str(a.seed),
    "--timeout",
    str(a.timeout),
    "--file",
    heap,
    "--before",
    before,
    "--check",
    " ".join([a.victim, "check", *victim])
    + (f" && {{ test ! -e {heap} || {a.fur_check} {heap} >&2; }}" if a.fur_check else ""),
    "--",
    *program,
]
# The bugs are in code that every machine runs when it is told that it has no hardware transactions.
done = subprocess.run(
    command,
    stderr=subprocess.PIPE if a.must_find else None,
    text=True,
    env=dict(os.environ, FUR_HTM="none") if a.must_find else None,
)
if not a.must_find:
    if done.returncode == 0:
        shutil.rmtree(place)
    sys.exit(done.returncode)
shutil.rmtree(place)
print(done.stderr)
if done.returncode != 1 or "violation at" not in done.stderr or "repeat with:" not in done.stderr:
    sys.exit(
        f"explore.py: exit status {done.returncode}: the planted bug was not found in "
        f"{a.points} points"
    )
