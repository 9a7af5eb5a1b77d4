#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of record locks: every case has a result, natively and on an emulated machine,
which repeats it; postgres.py measures or says why not; plot.py draws; wrong usage is refused.

    bulk_claims_test.py CLAIMS FOLDER-OF-THE-SCRIPTS [emulated]
"""
import json
import subprocess
import sys
import tempfile

program, scripts = sys.argv[1:3]
SMALL = ("--requests", "2000", "--rounds", "2", "--records", "1000", "--batch", "50")
CASES = [
    "sequential",
    "random",
    *(f"two threads, {percent} % shared" for percent in (0, 25, 50, 75, 100)),
    "batches, one by one",
    "batches",
]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def measure(*arguments):
    done = run(program, *SMALL, "--json", "-", *arguments)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [case["case"] for case in result["cases"]] == CASES, result
    for case in result["cases"]:
        assert len(case["mean_ns"]) == len(case["mean99_ns"]) == 2, case
        assert all(0 < least <= mean for least, mean in zip(case["mean99_ns"], case["mean_ns"]))
        if "groups" in case:
            groups = 2 * 2000 / result["group"]
            counted = sum(n for _, _, n in case["groups"]["bins"])
            # Next to a thread that hardly runs, few groups count.
            least = 2 if case["case"].startswith("two threads") else groups
            assert least <= counted <= groups, case
    return result


def usage():
    for arguments, says in [
        (["--batch", "5000", "--records", "1000"], "a quarter of the records"),
        (["--requests", "1"], "--requests"),
        (["--machine", "abacus"], "abacus"),
    ]:
        done = run(program, *arguments)
        assert done.returncode == 2 and says in done.stderr, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr


def postgres(place):
    """The options that draw its result."""
    file = f"{place}/postgres.json"
    size = ("--records", "2000", "--requests", "2000", "--rounds", "1")
    done = run(f"{scripts}/postgres.py", *size, "--json", file)
    if done.returncode == 77:
        assert "skipped: PostgreSQL is not there" in done.stdout, done
        print(done.stdout)
        return []
    assert done.returncode == 0, done.stderr
    with open(file, encoding="utf-8") as text:
        cases = json.load(text)["cases"]
    assert [case["case"] for case in cases] == ["sequential", "random"], cases
    for case in cases:
        assert sum(n for _, _, n in case["lock"]["bins"]) == 2000 / 100, case
        assert case["select_ns"] > 0 and case["select_for_update_ns"] > 0, case
    return ["--postgres", file]


def draw(place, results, peer):
    picture = f"{place}/claims.png"
    done = run(f"{scripts}/plot.py", *results, *peer, "--out", picture)
    if "matplotlib is not there" in done.stderr:
        print("not drawn: python3-matplotlib is not installed")
        return
    assert done.returncode == 0, done.stderr
    with open(picture, "rb") as file:
        assert file.read().startswith(b"\x89PNG")
    assert all(f"| {case} |" in done.stdout for case in CASES), done.stdout
    for wrong in (f"{place}/nowhere", __file__):
        done = run(f"{scripts}/plot.py", wrong, "--out", picture)
        assert done.returncode == 2 and "result of claims" in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


with tempfile.TemporaryDirectory() as directory:
    measured = [measure()]
    if "emulated" in sys.argv:
        measured.append(measure("--machine", "epyc"))
        assert measured[1] == measure("--machine", "epyc"), "the machine is deterministic"
    files = [f"{directory}/{k}.json" for k in range(len(measured))]
    for path, one in zip(files, measured):
        with open(path, "w", encoding="utf-8") as out:
            json.dump(one, out)
    draw(directory, files, postgres(directory))
    usage()
print("ok")
