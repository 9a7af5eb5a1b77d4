#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of commits on a disk: every system commits, and the result has what
docs/benchmarks.md describes; plot.py draws it; wrong usage is refused, and no file is left.

    commits_test.py COMMITS DIRECTORY PLOT
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

program, directory, plot = sys.argv[1:]


def run(*args):
    return subprocess.run([program, *args], capture_output=True, text=True, check=False)


def usage():
    for arguments, says in [
        (["--dir", "/nowhere"], "name a directory"),
        (["--dir", "/dev/shm"], "where fdatasync does nothing"),
        (["--dir", directory, "--memory", "/nowhere"], "--memory /nowhere: name a directory"),
        (["--dir", directory, "--async-ms", "0"], "--async-ms"),
        (["--dir", directory, "--threads", "0"], "from 1 to 1000"),
        (["--dir", directory, "--threads", ""], "at least one"),
        (["--dir", directory, "--systems", "nosql"], "this program has bare, fur"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and says in done.stderr, (arguments, done.stderr)
        assert done.stderr.count("\n") == 1, done.stderr


def draw(place, results):
    """A picture with two panels, and a table of each."""
    picture = f"{place}/commits.png"
    done = subprocess.run(
        [plot, *results, "--out", picture], capture_output=True, text=True, check=False
    )
    if "matplotlib is not there" in done.stderr:
        print("not drawn: python3-matplotlib is not installed")
        return
    assert done.returncode == 0, done.stderr
    with open(picture, "rb") as file:
        assert file.read().startswith(b"\x89PNG")
    assert done.stdout.count("| threads | 1 | 3 |") == len(results), done.stdout
    assert done.stdout.count("| `fur` | ") == len(results), done.stdout
    nothing = json.loads(Path(results[0]).read_text(encoding="utf-8"))
    for row in nothing["results"]:
        if row["system"] == "fur":
            row.update(median=0, least=0)
    none = Path(place, "nothing.json")
    none.write_text(json.dumps(nothing), encoding="utf-8")
    done = subprocess.run(
        [plot, none, "--out", picture], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "| `fur` | 0" in done.stdout, done.stderr + done.stdout
    for content, says in [("{}", "is no result"), (None, "name a result")]:
        wrong = f"{place}/wrong-{content is None}.json"
        if content is not None:
            with open(wrong, "w", encoding="utf-8") as file:
                file.write(content)
        done = subprocess.run(
            [plot, wrong, "--out", picture], capture_output=True, text=True, check=False
        )
        assert done.returncode == 2 and says in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


usage()
before = set(os.listdir(directory))
short = ["--dir", directory, "--seconds", "0.1", "--rounds", "2", "--threads", "1,3"]
done = run(*short, "--async-ms", "1", "--ring-slots", "4096", "--json", "-")
if done.returncode == 2 and "tmpfs" in done.stderr:
    print("the build directory is in memory")
    sys.exit(77)
assert done.returncode == 0, done.stderr
result = json.loads(done.stdout)
assert set(result["machine"]) == {"processor", "cores", "system"}, result["machine"]
systems = set(result["settings"])
assert {"bare", "fur", "fur-async", "fur-emulated"} <= systems, systems
assert "async_ms=1, ring_slots=4096" in result["settings"]["fur-async"], result["settings"]
rows = {(row["system"], row["threads"]): row for row in result["results"]}
assert set(rows) == {(s, n) for s in systems for n in (1, 3)}, rows
for row in rows.values():
    # On a busy machine a round may be over before a commit is.
    assert len(row["rounds"]) == 2 and 0 <= row["least"] <= row["median"] <= row["most"], row
    assert row["most"] > 0, row
    assert set(row["mount"]) == {"device", "point", "type", "options"}, row
with tempfile.TemporaryDirectory() as place:
    files = [f"{place}/alone.json", f"{place}/busy.json"]
    with open(files[0], "w", encoding="utf-8") as file:
        file.write(done.stdout)
    done = run(*short, "--systems", "fur,fur-async,fur-emulated", "--busy", "1", "--json", files[1])
    assert done.returncode == 0 and "thousand commits a second" in done.stdout, done.stderr
    assert "fur-async / fur-emulated of the same round" in done.stdout, done.stdout
    draw(place, files)
assert set(os.listdir(directory)) == before
print("ok")
