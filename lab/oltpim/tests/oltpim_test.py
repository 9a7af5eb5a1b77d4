#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""lab/oltpim: the published protocol violates isolation in runs whose histories are checked, and
the mended one does not on the same schedules; every workload commits; wrong usage is refused.

    oltpim_test.py OLTPIM MODULES [SCHEDULES [OLTPIM-EMULATED MACHINES]]
"""
import json
import os
import subprocess
import sys

program, modules, *more = sys.argv[1:]
SCHEDULES = more[0] if more else "10"
emulated = more[1:]


def run(name, *args):
    return subprocess.run([name, *args], capture_output=True, text=True, check=False)


def check(tm, workload="bank"):
    args = ["--workload", workload, "--tm", tm, "--modules", modules, "--schedules", SCHEDULES]
    done = run(program, *args)
    assert done.stderr == "", done.stderr
    return done.returncode, done.stdout


def ycsb(name, *args):
    done = run(name, *args, "--json", "-")
    assert done.returncode == 0, (args, done.stderr)
    result = json.loads(done.stdout)
    assert result["committed"] > 0, result
    return result


def refused(message, *args):
    done = run(program, *args)
    assert done.returncode in (1, 2) and message in done.stderr, (args, done.stderr)


status, text = check("oltpim-paper")
print(text)
assert status == 1 and "fractured read: transaction" in text and "lost update: tran" in text, text
status, text = check("oltpim-strict")
assert status == 1 and "fractured read: transaction" in text, text
for mended in ("oltpim", "mosaic"):
    for workload in ("bank", "cards"):
        status, text = check(mended, workload)
        assert (status, text) == (0, f"{mended}: no violation in {SCHEDULES} schedules\n"), text

SMALL = ["--records", "2000", "--warmup-us", "1000", "--measure-us", "30000"]
for system in ("oltpim", "mosaic"):
    for workload in "abcisu":
        ycsb(program, "--tm", system, "--modules", modules, "--workload", workload, *SMALL)
    ycsb(program, "--tm", system, "--modules", modules, "--zipf", "0.99", "--workload", "a", *SMALL)
    ycsb(program, "--tm", system, "--modules", modules, "--one-by-one", *SMALL)
    tpcc = ["--warehouses", "2", "--customers", "30", "--items", "100", "--room", "4"]
    tpcc += ["--measure-us", "60000", "--slots", "4", "--verify"]
    tpcc += ["--log", f"/tmp/oltpim-test-{os.getpid()}.fur"]
    ycsb(program, "--tm", system, "--modules", modules, "--workload", "tpcc", *tpcc)
refused("its elements share one memory", "--modules", "pul-ndp:nvm", "--ranks", "1")
refused("--host xeon-4216: this program runs on native", "--host", "xeon-4216")
refused(
    "--room",
    "--workload",
    "i",
    "--percent",
    "100",
    "--records",
    "16",
    "--room",
    "1.1",
    "--modules",
    modules,
    "--ranks",
    "1",
    "--elements",
    "1",
    "--measure-us",
    "20000000",
)

if emulated:
    where = ["--host", f"{emulated[1]}/xeon-4216-16th.toml"]
    where += ["--modules", f"{emulated[1]}/upmem-16th.toml", "--elements", "8", "--threads", "4"]
    small = ["--records", "5000", "--warmup-us", "500", "--measure-us", "1000", "--slots", "32"]
    for system in ("oltpim", "mosaic"):
        args = [*where, *small, "--tm", system, "--workload", "a"]
        runs = [ycsb(emulated[0], *args) for _ in range(2)]
        assert runs[0] == runs[1], runs
        # Rows of stock and of customers are fetched from memory, and indexes by mosaic alone.
        args += ["--workload", "tpcc", "--warehouses", "4", "--customers", "60", "--writes", "0"]
        args += ["--measure-us", "3000", "--log", f"/tmp/oltpim-test-{os.getpid()}.fur"]
        tpcc = ycsb(emulated[0], *args)
        assert tpcc["dram_read_bytes"] > 1000, tpcc
    near = ycsb(emulated[0], *where, *small, "--workload", "c")
    # Ten requests of 24 bytes, and as many replies of 8; less at the edges of the measurement.
    assert near["pim_written_bytes"] > 120 and near["pim_read_bytes"] > 40, near
    assert near["aborted"] == 0 and near["kernel_us_of_a_launch"] > 0, near
print("ok")
