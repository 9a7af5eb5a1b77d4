#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of commits on a disk: every system commits, and the result has what
docs/benchmarks.md describes; wrong usage is refused, and no file is left.

    commits_test.py COMMITS DIRECTORY
"""
import json
import os
import subprocess
import sys

program, directory = sys.argv[1:]


def run(*args):
    return subprocess.run([program, *args], capture_output=True, text=True, check=False)


def usage():
    for arguments, says in [
        (["--dir", "/nowhere"], "name a directory"),
        (["--dir", "/dev/shm"], "where fdatasync does nothing"),
        (["--dir", directory, "--threads", "0"], "from 1 to 1000"),
        (["--dir", directory, "--threads", ""], "at least one"),
        (["--dir", directory, "--systems", "nosql"], "this program has bare, fur"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and says in done.stderr, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr


usage()
before = set(os.listdir(directory))
short = ["--dir", directory, "--seconds", "0.1", "--rounds", "2", "--threads", "1,3"]
done = run(*short, "--json")
if done.returncode == 2 and "tmpfs" in done.stderr:
    print("the build directory is in memory")
    sys.exit(77)
assert done.returncode == 0, done.stderr
result = json.loads(done.stdout)
assert set(result["mount"]) == {"device", "type", "options"}, result["mount"]
systems = set(result["settings"])
assert {"bare", "fur"} <= systems, systems
rows = {(row["system"], row["threads"]): row for row in result["results"]}
assert set(rows) == {(s, n) for s in systems for n in (1, 3)}, rows
for row in rows.values():
    assert len(row["rounds"]) == 2 and 0 < row["least"] <= row["median"] <= row["most"], row
done = run(*short, "--systems", "fur,bare", "--busy", "1")
assert done.returncode == 0 and "thousand commits a second" in done.stdout, done.stderr
assert set(os.listdir(directory)) == before
print("ok")
