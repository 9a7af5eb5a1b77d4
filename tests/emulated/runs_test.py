#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""--runs: the result of a line is that of its run alone and does not depend on the other lines; the
heap file stays as it is; a line that fails is reported, and the next ones run.

    runs_test.py RBTREE TPCC FUR-INFO
"""
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RBTREE, TPCC, FUR_INFO = sys.argv[1:]
OTHER = "--threads 8 --seconds 0.0003"
SIZES = ["--machine", "power9", "--most-threads", "8", "--log-mib", "1"]
PROGRAMS = {
    RBTREE: (["--keys", "1000"], "--update 50"),
    TPCC: (["--scale", "tiny", "--warehouses", "2", "--heap-mib", "100"], "--mix payment --home"),
}
SYSTEMS = ("fur-opacity", "specpmt", "spht", "spht-sihtm", "htm", "pisces")


def run(program, *arguments, lines=None):
    return subprocess.run(
        [program, *SIZES, *arguments],
        input="".join(f"{line}\n" for line in lines or []),
        capture_output=True,
        text=True,
        check=False,
    )


def results(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def equal_lines(program, tm):
    data, change = PROGRAMS[program]
    line = "--threads 3 --seconds 0.0002"
    done = run(program, "--tm", tm, *data, "--runs", "-", lines=[line, f"{OTHER} {change}", line])
    assert done.returncode == 0, done.stderr
    first, other, again = results(done)
    assert first == again, (tm, first, again)
    assert first["verified"] and first["threads"] == 3 and other["threads"] == 8
    assert other["throughput"] != first["throughput"]
    (alone,) = results(run(program, "--tm", tm, *data, *line.split(), "--json", "-"))
    assert alone == first, (tm, alone, first)


def ask(child, line):
    child.stdin.write(line + "\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())


def repeats_with_software_updates():
    """They hash addresses: the heap's must not change from run to run."""
    arguments = ["--machine", "epyc", "--threads", "4", "--update", "50", "--seconds", "0.0002"]
    first, again = (
        results(run(RBTREE, *arguments, "--tm", "fur-opacity", "--json", "-")) for _ in range(2)
    )
    assert first[0]["software_commits"] > 0 and first == again, (first, again)


def heaps():
    """TPC-C over two heaps of a group: no line depends on the others."""
    machine = ["--machine", "epyc", "--scale", "tiny", "--warehouses", "2", "--heaps", "2"]
    machine += ["--most-threads", "4", "--log-mib", "1", "--heap-mib", "80"]
    line = "--threads 4 --seconds 0.0001 --remote 40"
    lines = [line, "--threads 2 --seconds 0.0001", line]
    done = run(TPCC, *machine, "--runs", "-", lines=lines)
    assert done.returncode == 0, done.stderr
    first, other, again = results(done)
    for result in (first, again):  # but for a nanosecond of the measured time
        assert 0 < result.pop("throughput") and 0 < result.pop("seconds")
    assert again == first and first["over_heaps"] > 0 and first["verified"], (first, again)
    assert other["threads"] == 2 and other["verified"], other


def member(directory):
    """--member: the heap is the first of a group of two, and its updates run in hardware."""
    for program, (data, _) in PROGRAMS.items():
        group = Path(directory) / f"group-{Path(program).name}"
        more = ["--threads", "3", "--seconds", "0.0002", "--heap", str(group), "--json", "-"]
        done = run(program, *data, *more, "--member")
        assert done.returncode == 0, done.stderr
        (result,) = results(done)
        assert result["verified"] and (result["member"], result["members"]) == (0, 2), result
        # Half of the tree's updates change nothing.
        others = sum(result[f"{way}_commits"] for way in ("software", "serial", "lock"))
        assert result["htm"] == "power" and result["heap_updates"] > 2 * others, result
        for k in range(2):
            info = subprocess.run(
                [FUR_INFO, f"{group}.{k}"], capture_output=True, text=True, check=True
            ).stdout
            assert "  state      closed\n" in info and f": member {k} of" in info, info
        refused = run(program, *data, "--tm", "spht", "--member")
        assert refused.returncode == 2 and "knows no groups" in refused.stderr, refused.stderr


def updates_move():
    """Updates that lose most of their time in hardware run in software, unless the back end was
    asked for by name.  Where only a few lose much, beside long readers, they stay."""

    def tpcc(htm, threads, *options):
        command = [TPCC, "--machine", "tsx", "--scale", "tiny", "--threads", str(threads)]
        environment = {**os.environ, "FUR_HTM": htm}
        done = subprocess.run(
            [*command, *options, "--json", "-"], env=environment, capture_output=True, check=True
        )
        result = json.loads(done.stdout)
        assert result["verified"], result
        return result

    most = ("--warehouses", "8", "--seconds", "0.002")
    auto, by_name = tpcc("auto", 8, *most), tpcc("tsx", 8, *most)
    assert auto["software_commits"] > 4 * by_name["software_commits"], (auto, by_name)
    few = tpcc("auto", 2, "--warehouses", "2", "--mix", "read-dominated", "--seconds", "0.01")
    assert few["software_commits"] < few["heap_updates"] / 10, few


def file_unchanged(directory, tm):
    heap = Path(directory) / f"heap-{tm}"
    command = [RBTREE, *SIZES, "--tm", tm, "--heap", str(heap), "--keys", "1000", "--runs", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin
        line = f"{OTHER} --update 50"
        result = ask(child, line)
        before = hashlib.sha256(heap.read_bytes()).digest()
        assert result["commits"]["insert"] > 0, result
        assert ask(child, line) == result
        assert hashlib.sha256(heap.read_bytes()).digest() == before
        child.stdin.close()
    assert child.returncode == 0


def failures():
    done = run(
        RBTREE,
        "--tm",
        "spht",
        "--runs",
        "-",
        lines=[
            "--tm fur-opacity",
            "--threads 9",
            "--seconds",
            "--batch 2",
            "--update 101",
            "--seconds 0.0001",
        ],
    )
    assert done.returncode == 2, done.returncode
    *wrong, good = results(done)
    assert [line["line"] for line in wrong] == [1, 2, 3, 4, 5], wrong
    assert all(line["status"] == 2 for line in wrong), wrong
    for line, says in zip(
        wrong,
        ("--tm: a line", "made for 8", "value is missing", "--batch is for libfur", "percentage"),
    ):
        assert says in line["error"], line
    assert good["verified"]


def killed_child():
    """A run that a signal ends is reported; the program goes on."""
    command = [RBTREE, *SIZES, "--runs", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin and parent.stdout
        parent.stdin.write("--seconds 100\n--seconds 0.0001\n")
        parent.stdin.close()
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        while not children.read_text(encoding="ascii").split():
            time.sleep(0.01)
        os.kill(int(children.read_text(encoding="ascii").split()[0]), signal.SIGKILL)
        bad, good = (json.loads(line) for line in parent.stdout)
    assert bad["status"] == 128 + signal.SIGKILL and bad["line"] == 1, bad
    assert good["verified"] and parent.returncode == 1


def usage(directory):
    for arguments, says in [
        (["--machine", "native", "--runs", "-"], "on an emulated machine only"),
        (["--runs", os.path.join(directory, "nowhere")], "cannot read it"),
        (["--runs", "-", "--json", "x"], "leave --json out"),
        (["--runs", "-", "--dram-mib", "1"], "not with --runs"),
        (["--threads", "9"], "made for 8"),
    ]:
        done = run(RBTREE, *arguments)
        assert done.returncode == 2 and says in done.stderr, (arguments, done.stderr)


with tempfile.TemporaryDirectory() as place:
    for system in SYSTEMS:
        for benchmark in PROGRAMS:
            equal_lines(benchmark, system)
    for system in ("fur-opacity", "spht", "pisces"):
        file_unchanged(place, system)
    repeats_with_software_updates()
    heaps()
    member(place)
    updates_move()
    failures()
    killed_child()
    usage(place)
print("ok")
