#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""TPC-C: consistent after a run of every mix, and after kills and recovery; wrong usage is refused
before any work starts.

    tpcc_test.py TPCC REPLAYER [--smoke]

--smoke: a few short runs, two kills of libfur, and all of wrong usage.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

tpcc, replayer = sys.argv[1:3]
SMOKE = "--smoke" in sys.argv
MIB = ["--heap-mib", "150" if SMOKE else "600"]  # room for the kills
SMALL = ["--scale", "tiny", "--warehouses", "2", "--threads", "2"]


def run(*args):
    return subprocess.run([tpcc, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def runs():
    every = (
        ["--tm", "none", "--scale", "tiny", "--threads", "1"],
        ["--tm", "fur-opacity", *SMALL],
        ["--tm", "fur-snapshot", *SMALL, "--home"],
        ["--tm", "spht", *SMALL],
        ["--tm", "pisces", *SMALL],
        ["--tm", "specpmt", *SMALL],
        ["--tm", "specpmt-paper", *SMALL],
        ["--tm", "pisces", *SMALL, "--mix", "delivery"],
        ["--tm", "fur-opacity", *SMALL, "--mix", "read-dominated"],
        ["--tm", "fur-snapshot", *SMALL, "--homes", "2", "--remote", "50"],
        ["--tm", "fur-opacity", *SMALL, "--mix", "delivery=50,neworder=50"],
    )
    for args in (every[0], every[2], every[-1]) if SMOKE else every:
        seconds = "0.1" if SMOKE else "0.3"
        result = run(*args, "--seconds", seconds, "--json", "-", "--footprints")
        assert result.returncode == 0, (args, result.stdout, result.stderr)
        r = json.loads(result.stdout)
        assert r["verified"] is True and r["throughput"] > 0, r
        for kind in ("stocklevel", "orderstatus"):
            assert r["footprints"][kind]["writes"] == 0 and r["footprints"][kind]["reads"] > 10, r[
                "footprints"
            ]


def heaps():
    """Warehouses in several heaps: all conditions hold over all of them, and the shares of updates
    over two of them are as asked.  Also of updates that are submitted."""
    for number, tm, *args in (
        ("2", "fur-opacity", "--remote", "40"),
        ("2", "fur-opacity", "--remote", "40", "--submit", "16"),
        ("2", "fur-snapshot", "--remote", "0"),
        ("4", "fur-opacity"),
        ("4", "fur-opacity", "--homes", "4", "--scale", "table1-tenth", "--remote", "100"),
        ("4", "fur-snapshot", "--submit", "1", "--workers", "1"),
        ("4", "fur-opacity", "--scale", "table1-tenth", "--remote", "100", "--submit", "64"),
        ("2", "fur-opacity", "--remote", "0", "--submit", "4", "--workers", "3"),
    )[: 2 if SMOKE else None]:
        large = [*SMALL[:2], "--warehouses", number, "--threads", "3", "--heaps", number]
        result = run("--tm", tm, *large, *args, "--seconds", "0.1", "--json", "-")
        assert result.returncode == 0, (args, result.stdout, result.stderr)
        r = json.loads(result.stdout)
        assert r["verified"] is True and r["heaps"] == int(number) and "stock" in r["conditions"], r
        assert ("submit" in r) == ("--submit" in args), r
        both = r["run_commits"]["payment"] + r["run_commits"]["neworder"]
        if "--remote" not in args:  # of some lines and payments
            assert both > r["over_heaps"] > 0, r
        elif r["remote"] in (0, 100):  # but orders that were rolled back count as run
            assert both * 0.9 <= r["over_heaps"] <= both if r["remote"] else not r["over_heaps"], r
        else:
            assert both > r["over_heaps"] > 0, r


def table1():
    """The scales of the paper's Table 1: consistent after runs, and with the table's footprints."""
    for scale, *args in (
        ("table1", "--tm", "fur-opacity", "--warehouses", "1", "--threads", "2"),
        ("table1-tenth", "--tm", "fur-opacity", "--warehouses", "2", "--threads", "2"),
        ("table1-tenth", "--tm", "fur-snapshot", "--warehouses", "1", "--threads", "4"),
        ("table1-tenth", "--tm", "specpmt", "--warehouses", "1", "--threads", "4"),
        # More deliveries than there are orders to deliver.
        (
            "table1-tenth",
            "--tm",
            "pisces",
            "--warehouses",
            "1",
            "--threads",
            "4",
            "--mix",
            "delivery=80,neworder=10,payment=10",
        ),
    ):
        result = run("--scale", scale, *args, "--seconds", "0.3", "--json", "-")
        assert result.returncode == 0, (args, result.stdout, result.stderr)
        r = json.loads(result.stdout)
        assert r["verified"] is True and r["throughput"] > 0 and r["scale"] == scale, r
        assert "not 8 to 10" in r["conditions"], r

    result = run(
        "--tm",
        "none",
        "--scale",
        "table1",
        "--warehouses",
        "8",
        "--seconds",
        "0.05",
        "--footprints",
        "--json",
        "-",
    )
    assert result.returncode == 0, result.stderr
    footprints = json.loads(result.stdout)["footprints"]
    for kind, counts in footprints.items():
        ratios = [counts["reads_ratio"]]
        if kind in ("delivery", "payment", "neworder"):
            ratios.append(counts["writes_ratio"])
        else:
            assert counts["writes"] == 0, (kind, counts)
        assert all(0.85 <= ratio <= 1.15 for ratio in ratios), (kind, counts)
    assert len(footprints) == 5 and footprints["payment"]["new_row_writes"] == 0, footprints


def other_scale():
    """A database without tombstones is not one of Table 1, although it has as many rows."""
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    ) as place:
        heap = ["--heap", os.path.join(place, "heap"), "--reuse", "--seconds", "0.05"]
        first = run("--tm", "fur-opacity", "--scale", "paper", *heap)
        assert first.returncode == 0, first.stderr
        other = run("--tm", "fur-opacity", "--scale", "table1", *heap)
        assert other.returncode == 2 and "and 0 tombstones" in other.stderr, other.stderr


def first_thread():
    """Thread 0 has a mix of its own; the commits of the whole run include those of the window."""
    for threads, kinds in (("1", {"payment"}), ("2", {"payment", "orderstatus"})):
        result = run(
            "--tm",
            "none" if threads == "1" else "fur-opacity",
            "--scale",
            "tenth",
            "--threads",
            threads,
            "--mix",
            "orderstatus",
            "--first-thread",
            "payment",
            "--seconds",
            "0.1",
            "--json",
            "-",
        )
        assert result.returncode == 0, result.stderr
        r = json.loads(result.stdout)
        assert {kind for kind, n in r["run_commits"].items() if n} == kinds, r
        assert all(r["run_commits"][kind] >= n for kind, n in r["commits"].items()), r
        assert r["mix"] == "orderstatus" and r["first_thread"] == "payment", r


def kills(tm, times, heaps=1, *args):
    """Killed at random instants; consistent after each recovery, by the next open or, for libfur,
    by its replayer."""
    with tempfile.TemporaryDirectory(
        dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    ) as place:
        heap = os.path.join(place, "heap")
        base = [tpcc, "--tm", tm, *SMALL, "--heap", heap, "--reuse", *MIB]
        base += ["--heaps", str(heaps), "--remote", "30", *args] if heaps > 1 else []
        first = subprocess.run(
            [*base, "--seconds", "0.1", "--json", "-"], stdout=subprocess.PIPE, text=True
        )
        assert first.returncode == 0, first.stdout
        for k in range(times):
            child = subprocess.Popen(
                [*base, "--seconds", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            time.sleep(0.2 + random.random() * 0.4)
            child.send_signal(signal.SIGKILL)
            child.wait()
            if k % 2 and tm == "fur-opacity" and heaps == 1:
                replayed = subprocess.run(
                    [replayer, "--heap", heap, "--once"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                assert replayed.returncode == 0, replayed.stderr
            # The database is checked when it is opened, and again at the end.
            after = subprocess.run(
                [*base, "--seconds", "0.05", "--json", "-"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert after.returncode == 0 and json.loads(after.stdout)["verified"], after.stderr
        refusals(tm, heap, heaps)


def refusals(tm, heap, heaps):
    """The heap, or the group of heaps, holds another database than the one that is asked for."""
    reuse = ["--heap", heap, "--reuse"]
    other = ["--scale", "tiny", "--warehouses", "3", *MIB, *reuse]
    other += ["--heaps", "3"] if heaps > 1 else []
    refused = run("--tm", tm, *other)
    says = "a group of 2 heaps, not 3" if heaps > 1 else "holds a database of 2 warehouses"
    assert refused.returncode == 2 and says in refused.stderr, refused.stderr
    for stranger in {"fur-opacity", "spht", "pisces"} - {tm} if heaps == 1 else ():
        refused = run("--tm", stranger, *SMALL, *reuse)
        assert (
            refused.returncode == 2 and heap in refused.stderr and refused.stderr.count("\n") == 1
        ), refused.stderr


def usage():
    for args, says in [
        (["--mix", "standard,"], "is not a mix"),
        (["--mix", "payment=50,neworder=49"], "add up to 99, not 100"),
        (["--mix", "pay=100"], "'pay=100' is not a mix"),
        (["--first-thread", "pay"], "--first-thread pay: 'pay' is not a mix"),
        (["--scale", "huge"], "--scale huge"),
        (["--warehouses", "0"], "--warehouses"),
        (["--heap-mib", "1"], "need at least"),
        (["--tm", "best"], "--tm best"),
        (["--tm", "spht-sihtm"], "is POWER's"),
        (["--log-mib", "4096"], "--log-mib 4096"),
        (["--log-mib", "3"], "log_bytes is"),
        (["--ring-slots", "5"], "ring_slots is"),
        (["--tm", "none", "--threads", "2"], "--threads 1"),
        (["--machine", "vax"], "--machine vax"),
        (["--warehouses", "4", "--heaps", "3"], "--heaps 3"),
        (["--warehouses", "32", "--heaps", "32"], "at most 16"),
        (["--warehouses", "2", "--heaps", "2", "--tm", "spht"], "has one heap"),
        (["--warehouses", "2", "--heaps", "2", "--footprints"], "--footprints"),
        (["--warehouses", "2", "--heaps", "2", "--submit", "1", "--workers", "17"], "--workers"),
        (["--submit", "1", "--footprints"], "--footprints"),
        (["--submit", "1", "--tm", "spht"], "has one heap"),
        (["--remote", "101"], "--remote"),
        (["--warehouses", "3", "--homes", "2"], "--homes 2"),
    ]:
        result = run(*args)
        assert result.returncode == 2, (args, result.returncode, result.stderr)
        assert says in result.stderr and result.stderr.count("\n") == 1, (args, result.stderr)


runs()
heaps()
first_thread()
usage()
if SMOKE:
    kills("fur-opacity", 2)
    print("ok")
    sys.exit()
table1()
other_scale()
for system, number in (("fur-opacity", 8), ("spht", 4), ("pisces", 4), ("specpmt", 4)):
    kills(system, number)
kills("fur-opacity", 8, 2)
kills("fur-opacity", 8, 2, "--submit", "16")
print("ok")
