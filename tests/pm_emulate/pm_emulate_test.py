#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pm-emulate: its counts, the files that it leaves after a power failure, its answers to wrong
usage.

    pm_emulate_test.py PM_EMULATE PMEM_BUGS VICTIM REPLAYER
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

pm_emulate, pmem_bugs, victim, replayer = sys.argv[1:]
shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run(*args, stdin=None):
    return subprocess.run(
        [pm_emulate, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=stdin
    )


def good(*args):
    done = run(*args)
    assert done.returncode == 0, (args, done.returncode, done.stdout, done.stderr)
    return done


def report(place, *args):
    good("--quiet", "--json", f"{place}/report.json", *args)
    with open(f"{place}/report.json") as f:
        return json.load(f)


def counts(place):
    """20 records, a line each, and 20 stores of the length: each bug shows in its count alone."""
    wrong = {
        "no-flush": ("never", 20),
        "no-fence": ("not_fenced", 40),
        "twice": ("flushed_again", 20),
        "unchanged": ("flushed_unchanged", 20),
    }
    for how in ("right", "copy", "no-flush", "no-fence", "twice", "unchanged"):
        path = f"{place}/list-{how}"
        r = report(place, "--", pmem_bugs, "append", path, how)
        is_ = {
            "never": r["files"][0]["never_flushed_lines"],
            "stored": r["files"][0]["stored_after_flush_lines"],
            **{
                name: r[name]["lines"]
                for name in ("not_fenced", "flushed_again", "flushed_unchanged")
            },
        }
        expected = dict.fromkeys(is_, 0)
        if how in wrong:
            expected[wrong[how][0]] = wrong[how][1]
        if how == "no-fence":
            expected["flushed_again"] = 19  # the length, each time but the first
        assert is_ == expected, (how, is_)
        assert r["lines"] == {"no-flush": 20, "twice": 60, "unchanged": 60}.get(how, 40), r
        assert r["flushes"] >= 20 and r["fences"] == {"no-fence": 0, "unchanged": 60}.get(
            how, 40
        ), r
        assert r["files"][0]["path"] == path and r["exit_status"] == 0, r
        if how == "no-flush":
            text = run("--", pmem_bugs, "append", path + "2", how).stderr
            assert "20  lines stored and never flushed" in text and "0x40" in text, text


def latency(place):
    """What is waited: no upper bound, the machine may be busy."""
    r = report(
        place,
        "--write-ns",
        "20000",
        "--read-ns",
        "10000",
        "--",
        pmem_bugs,
        "append",
        f"{place}/slow",
        "right",
    )
    # A fence waits for its write-back, less the time that has passed since.  Each line is fetched
    # once: 20 records and the length.
    assert r["write_wait_ns"] > 0 and r["lines_fetched"] == 21 and r["read_wait_ns"] > 21 * 9900, r
    for model, write in (("optane", 62), ("cxl", 310), ("ssd600", 600)):
        r = report(
            place, "--model", model, "--", pmem_bugs, "append", f"{place}/slow-{model}", "right"
        )
        assert r["model"]["write_ns"] == write and r["read_wait_ns"] > 0, r
    assert (
        report(
            place,
            "--model",
            "cxl",
            "--write-ns",
            "7",
            "--",
            pmem_bugs,
            "append",
            f"{place}/slow",
            "right",
        )["model"]["write_ns"]
        == 7
    )


def images(place):
    """A program of one thread that stops at the same point with the same seed leaves the same file;
    --lines decides which lines are lost."""

    def image(*args):
        path = f"{place}/image"
        if os.path.exists(path):
            os.unlink(path)
        # The length is written back and not fenced, the 10th record is.
        good("--quiet", *args, "--", pmem_bugs, "append", path, "right")
        with open(path, "rb") as f:
            return f.read()

    lengths = {
        int.from_bytes(image("--fail-at", "fence:20", "--lines", lines)[:8], "little"): lines
        for lines in ("dropped", "kept")
    }
    assert lengths == {9: "dropped", 10: "kept"}, lengths
    assert image("--fail-at", "end", "--lines", "dropped") == image(
        "--fail-at", "end", "--lines", "kept"
    )
    seeds = [image("--fail-at", "fence:19", "--seed", str(seed)) for seed in range(30)]
    assert seeds == [image("--fail-at", "fence:19", "--seed", str(seed)) for seed in range(30)]
    # The record is lost, kept, or torn at 8 bytes.
    records = {
        tuple(int.from_bytes(s[640 + 8 * k : 648 + 8 * k], "little") for k in range(8))
        for s in seeds
    }
    assert (
        (0,) * 8 in records and (9001,) * 8 in records and any(set(r) == {0, 9001} for r in records)
    ), records
    assert all(set(r) <= {0, 9001} for r in records), records


def finds(place):
    """Exploration stops at the first violation, or goes on; the command it prints repeats it."""
    path = f"{place}/found"
    explore = ["--explore", "40", "--before", f"rm -f {path}", "--check", f"{pmem_bugs} check {{}}"]
    for how, right in (
        ("right", True),
        ("copy", True),
        ("twice", True),
        ("no-flush", False),
        ("no-fence", False),
        ("length-first", False),
    ):
        done = run(*explore, "--", pmem_bugs, "append", path, how)
        assert done.returncode == (0 if right else 1), (how, done.returncode, done.stderr)
        if right:
            assert "40 failure points" in done.stderr and "0 violations" in done.stderr, done.stderr
            continue
        assert "is not whole" in done.stderr and done.stderr.count("repeat with:") == 1, done.stderr
        again = done.stderr.split("repeat with: ")[1].split("\n")[0]
        assert (
            subprocess.run(
                again, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ).returncode
            == 1
        ), again
        done = run(
            *explore,
            "--keep-going",
            "--json",
            f"{place}/all.json",
            "--",
            pmem_bugs,
            "append",
            path,
            how,
        )
        with open(f"{place}/all.json") as f:
            found = json.load(f)
        assert done.returncode == 1 and found["points"] == 40 and len(found["violations"]) > 5, (
            how,
            found,
        )


def victim_on(place, *more):
    """The command that runs the victim on a heap there, and the one that checks the heap."""
    files = ["--heap", f"{place}/heap", "--acks", f"{place}/acks"]
    return [victim, "run", *files, *more], [victim, "check", *files]


def heap_stores_are_flushed(place):
    """libfur treats the file as persistent memory, and leaves nothing undurable but the words that
    processes tell each other (docs/file-format.md: the control region)."""
    heap = f"{place}/heap"
    r = report(place, "--file", heap, "--", *victim_on(place)[0])
    assert r["files"][0]["path"] == heap and r["flushes"] > 100 and r["fences"] > 100, r
    assert r["files"][0]["stored_after_flush_lines"] == 0 and r["not_fenced"]["lines"] == 0, r
    with open(heap, "rb") as f:
        f.seek(56)
        control, length = struct.unpack("<QQ", f.read(16))
    assert all(control <= at < control + length for at in r["files"][0]["where"]), r


def heaps(place):
    """A heap is sound after a power failure, also one under recovery, and one under a shell."""
    heap_stores_are_flushed(place)
    heap = f"{place}/heap"
    quiet = ["--quiet", "--file", heap]
    program, check = victim_on(place, "--updates", "100000000")
    good(*quiet, "--fail-at", "time:50", "--", *program)
    assert subprocess.run(check).returncode == 0
    program, _ = victim_on(place, "--updates", "1000000")
    good(*quiet, "--fail-at", "flush:2000", "--", *program)
    # The power also fails under recovery; the next recovery does its work again.
    recover = [replayer, "--quiet", "--once", "--heap", heap]
    good("--quiet", "--fail-at", "fence:2", "--lines", "dropped", "--", *recover)
    assert subprocess.run(check).returncode == 0
    # pm-emulate starts a shell, and the shell starts the program; the program must die as well.
    good(*quiet, "--fail-at", "flush:500", "--", "sh", "-c", " ".join(program) + "; true")
    assert subprocess.run(check).returncode == 0


def processes(place):
    """Two processes on one file die together, at a point counted over both; their file survives."""
    path = f"{place}/two"
    append = f"{pmem_bugs} append {path} right"
    good(
        "--quiet", "--fail-at", "fence:300", "--", "sh", "-c", f"{append} 400 & {append} 400; wait"
    )
    with open(path, "rb") as f:
        first = f.read()
        f.seek(0)
        assert 0 < int.from_bytes(first[:8], "little") < 400 and f.read() == first
    os.unlink(path)
    r = report(place, "--", "sh", "-c", f"{append} 50 & {append} 50; wait")
    assert r["flushes"] == 200 and r["fences"] == 200 and len(r["files"]) == 1, r


def sync_domain(place):
    """An ordinary file, durable by fdatasync: what it has not covered is lost."""
    heap, acks = f"{place}/sync-heap", f"{place}/sync-acks"
    environment = dict(os.environ, FUR_PM="sync")
    done = subprocess.run(
        [
            pm_emulate,
            "--explore",
            "15",
            "--file",
            heap,
            "--before",
            f"rm -f {heap} {acks}",
            "--check",
            f"{victim} check --heap {heap} --acks {acks}",
            "--",
            victim,
            "run",
            "--heap",
            heap,
            "--acks",
            acks,
            "--updates",
            "40",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert "15 failure points" in done.stderr, done.stderr


def wrong_usage(append):
    """The message, and the arguments that it is about; exit status 2."""
    explore = ["--explore", "5"]
    return [
        ("no program", []),
        ("no program", ["--model", "cxl", "--"]),
        ("/nonexistent/program", ["--", "/nonexistent/program"]),
        ("no such model: use optane, cxl or ssd600", ["--model", "dram", *append]),
        ("--fail-at lunch", ["--fail-at", "lunch", *append]),
        ("--fail-at flush:0", ["--fail-at", "flush:0", *append]),
        ("--fail-at fence:1x", ["--fail-at", "fence:1x", *append]),
        ("--check", [*explore, *append]),
        ("--explore", ["--check", "true", *append]),
        ("leave --fail-at out", [*explore, "--check", "true", "--fail-at", "end", *append]),
        ("/nonexistent/checker", [*explore, "--check", "/nonexistent/checker {}", *append]),
        (
            "/nonexistent/before",
            [*explore, "--before", "/nonexistent/before", "--check", "true", *append],
        ),
        ("--write-ns", ["--write-ns", "-3", *append]),
        ("--lines", ["--lines", "some", *append]),
        ("--frobnicate", ["--frobnicate", *append]),
    ]


def failed_runs(place, append):
    """The same for runs that fail; exit status 1."""
    program, _ = victim_on(place, "--updates", "1")
    no_flushes = ["--", pmem_bugs, "append", f"{place}/usage", "right", "0"]
    return [
        ("mapped no file", ["--", "true"]),
        ("matches --file", ["--file", "/nonexistent", "--", *program]),
        ("was never reached", ["--fail-at", "flush:100000", *append]),
        ("neither flushed nor fenced", ["--explore", "5", "--check", "true", *no_flushes]),
        (f"{place}/no/such", ["--json", f"{place}/no/such", "--quiet", *append]),
    ]


def usage(place):
    append = ["--", pmem_bugs, "append", f"{place}/usage", "right"]
    cases = [(2, *case) for case in wrong_usage(append)]
    cases += [(1, *case) for case in failed_runs(place, append)]
    for status, says, args in cases:
        done = run(*args)
        assert done.returncode == status, (args, done.returncode, done.stderr)
        assert says in done.stderr and done.stderr.count("\n") == 1, (args, done.stderr)
    # The program's own status, and its death.
    assert run("--", pmem_bugs, "append").returncode == 2
    assert run("--", "sh", "-c", "kill -SEGV $$").returncode == 128 + 11


with tempfile.TemporaryDirectory(dir=shm) as memory, tempfile.TemporaryDirectory() as disk:
    counts(memory)
    counts(disk)
    latency(memory)
    images(memory)
    images(disk)
    finds(memory)
    heaps(memory)
    processes(memory)
    sync_domain(disk)
    usage(memory)
print("ok")
