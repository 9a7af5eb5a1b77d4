#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""explore itself: the same seed gives the same history byte for byte, a violation can be repeated,
wrong usage is refused.

    explore_test.py EXPLORE
"""
import os
import re
import subprocess
import sys
import tempfile

explore = sys.argv[1]


def run(args, **more):
    return subprocess.run(
        [explore, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def same_history():
    """Whatever the environment, and wherever the system maps memory."""
    with tempfile.TemporaryDirectory() as place:
        histories = []
        for k, padding in enumerate(["", "x" * 777]):
            path = os.path.join(place, str(k))
            for seed, workload in ((5, "bank"), (6, "intset"), (9, "bank")):
                result = run(
                    [
                        "--workload",
                        workload,
                        "--seeds",
                        f"{seed}..{seed}",
                        "--history",
                        path + str(seed),
                    ],
                    env={**os.environ, "PADDING": padding},
                )
                assert result.returncode == 0, result.stdout + result.stderr
            histories.append([open(path + str(seed), "rb").read() for seed in (5, 6, 9)])
        assert histories[0] == histories[1], "the same seed gave two histories"
        assert all(len(h) > 1000 for h in histories[0])
        assert histories[0][0] != histories[0][2], "two seeds gave one history"


def found(pattern, result):
    match = re.search(pattern, result.stdout)
    assert match, (pattern, result.stdout)
    return match.group(1)


def violation_repeats():
    first = run(["--plant", "no-look", "--workload", "bank", "--seeds", "1..200"])
    assert first.returncode == 1, first.stdout
    command = found(r"repeat with: explore (.*)", first).split()
    again = run(command)
    assert again.returncode == 1, again.stdout
    violations = [found(r"(VIOLATION[^\n]*)", result) for result in (first, again)]
    assert violations[0] == violations[1], violations


def orders():
    """An order cuts the power at its step, and one that never happens does not hold up the run."""
    bank = ["--workload", "bank", "--machine", "epyc", "--seeds", "1..3"]

    def accesses(*more):
        result = run([*bank, *more])
        assert result.returncode == 0, result.stdout + result.stderr
        return int(found(r"(\d+) accesses", result))

    whole = accesses()
    assert accesses("--crash", "--order", "a update__begin < b update__begin < crash") < whole / 2
    assert accesses("--order", "a update__begin < b recovery < a update__commit") > whole / 2


def must_find():
    """The witness is tried first; if it finds nothing, the others are."""
    plant = ["--plant", "no-look", "--workload", "bank", "--jobs", "1"]
    seed = found(r"found with seed (\d+)", run([*plant, "--must-find", "1", "--seeds", "1..200"]))
    again = run([*plant, "--must-find", seed, "--seeds", "1000000..1000000"])
    assert again.returncode == 0 and found(r"found with seed (\d+)", again) == seed
    result = run(["--workload", "bank", "--must-find", "1", "--seeds", "2..4"])
    assert result.returncode == 1 and "4 seeds, 0 violations" in result.stdout, result.stdout


def until_idle():
    """It ends when seeds bring nothing new, and the same seeds bring the same again."""
    bank = ["--workload", "bank", "--machine", "epyc", "--jobs", "1", "--until-idle", "5"]
    result = run([*bank, "--seeds", "1..1000"])
    seeds, pairs = int(found(r"^(\d+) seeds", result)), int(found(r"(\d+) pairs", result))
    assert 5 < seeds < 1000 and pairs > 50, result.stdout
    shorter = run([*bank, "--seeds", f"1..{seeds - 5}"])
    assert int(found(r"(\d+) pairs", shorter)) == pairs, (result.stdout, shorter.stdout)


def usage():
    for args, says in [
        (["--seeds", "9..1"], "--seeds 9..1"),
        (["--seeds", "x"], "--seeds x"),
        (["--tm", "best"], "--tm best"),
        (["--workload", "w"], "--workload w"),
        (["--plant", "p"], "--plant p"),
        (["--threads", "99"], "--threads"),
        (["--isolation", "none"], "--isolation none"),
        (["--any", "--tm", "spht"], "--any is for libfur"),
        (["--handover", "--crash"], "--handover ends each run"),
        (["--bogus"], "bogus"),
        (["--machine", "nosuch"], "nosuch: no such machine"),
        (["--order", "a update__begin < b nosuch"], "no point nosuch: use "),
        (["--order", "a nosuch"], "update__commit"),
        (["--order", "a"], "step 1: use 'VARIABLE POINT'"),
        (["--order", "crash < a update__begin"], "step 1: use 'VARIABLE POINT'"),
        (["--order", "a update__begin < crash"], "use it with --crash"),
        (["--crash", "--recovery-order", "a recovery < crash"], "is for --workload group"),
        (
            ["--workload", "group", "--crash", "--recovery-order", "a nosuch"],
            "--recovery-order: no point nosuch: use ",
        ),
        (["--machine", "./nosuch.toml"], "./nosuch.toml: No such file"),
    ]:
        result = run(args)
        assert result.returncode == 2, (args, result.returncode, result.stderr)
        assert says in result.stderr and result.stderr.count("\n") == 1, (args, result.stderr)
    assert len(run(["--plant", "list"]).stdout.splitlines()) >= 9


same_history()
violation_repeats()
orders()
must_find()
until_idle()
usage()
print("ok")
