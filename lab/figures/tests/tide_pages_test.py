#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# The system's python3, as figures.py.
"""The page on PIM-TIDE is the one of its journal, and what it says in words is in the journal.
Nothing is measured.

    tide_pages_test.py FIGURES RESULTS
"""
import json
import os
import sys
import tempfile
from pathlib import Path

figures, directory = map(Path, sys.argv[1:])
MIXES = {"STD": (44, 43), "CUST": (25, 25)}
SHARES = (0, 15, 45, 75)

known = {}
for line in (directory / "pim-tide.jsonl").read_text().splitlines():
    run = json.loads(line)
    assert run["command"] not in known, run["command"]
    known[run["command"]] = run["result"]
assert all(result["verified"] for result in known.values())


def modules(mix, share=0, extra="", ran=64, batch=""):
    return known[
        f"lab/tide/tide --machine upmem-sdk --workload tpcc --modules {ran} --of 2048 --batches 1"
        f"{batch} --payment {mix[0]} --new-order {mix[1]} --remote {share}{extra}"
    ]


def cpu(mix, share=0, extra=""):
    return known[
        f"lab/tide/tide-cpu --machine xeon-5320 --warehouses 2048 --payment {mix[0]}"
        f" --new-order {mix[1]} --remote {share}{extra}"
    ]


def gain(mix, share=0, extra="", ran=64):
    return modules(mix, share, extra, ran)["throughput"] / cpu(mix, share, extra)["throughput"]


def figure_3():
    for share in SHARES:
        assert all(gain(mix, share) > 1 for mix in MIXES.values()), share
        std, cust = (modules(mix, share)["throughput"] for mix in MIXES.values())
        assert cust > std, share
    for mix in MIXES.values():
        for share in SHARES:
            machines = {m["of"]: m["throughput"] for m in modules(mix, share)["machines"]}
            assert machines[512] * 1.7 < machines[1024], (mix, share)
            assert machines[1024] * 1.7 < machines[2048], (mix, share)


def all_modules():
    """Each rank has had its part of one batch."""
    ranks = [
        modules(MIXES["STD"], 15, f" --first {k}", batch=" --records 32")
        for k in range(0, 2048, 64)
    ]
    assert len({r["transactions"] for r in ranks}) == 1
    assert sum(r["paid"] for r in ranks) == sum(r["received"] for r in ranks) > 0


def figure_4():
    payment, new_order, order_status = (100, 0), (0, 100), (0, 0)
    # Rows by trees change two gains to what the paper has, and the CPU's trees alone the third.
    assert gain(payment) > 2.5 > gain(payment, 0, " --trees", 4)
    assert gain(order_status) < 7 < gain(order_status, 0, " --trees", 4)
    over_trees = modules(new_order)["throughput"] / cpu(new_order, 0, " --trees")["throughput"]
    assert gain(new_order) < 6 < over_trees < 13
    for mix in MIXES.values():
        assert modules(mix)["throughput"] > 10 * cpu(mix, 0, " --trees")["throughput"]
    # Of NewOrder they make conflicts.
    one = modules(new_order, 0, " --tasklets 1 --trees", 4)
    eleven = modules(new_order, 0, " --trees", 4)
    assert one["throughput"] > eleven["throughput"] and one["abort_rate"] == 0
    (many,) = (r for command, r in known.items() if "--trees --many-locks" in command)
    assert many["throughput"] > 3 * eleven["throughput"]
    assert eleven["abort_rate"] > 0.99


def figure_6():
    """An order costs small transactions no more than in the paper, whose parts do not wait."""
    run = "lab/tide/tide --machine upmem-sdk --batches 1 --accounts 2 --records 128"
    local = known[run]["throughput"]
    for variant in ("pim-tide", "pim-tide-paper"):
        ordered = known[f"{run} --deterministic --tm {variant}"]["throughput"]
        assert 1.03 < local / ordered < 1.2, variant


def page():
    """The stored page is the one that the stored journal gives, and another journal gives another
    one."""
    sys.path.insert(0, str(figures))
    import plan  # noqa: F401  # first, as figures.py
    import results
    import tide
    from tide_runs import Points, Runs

    def made(changed):
        with tempfile.TemporaryDirectory() as place:
            return tide.page(Runs(Points(), changed, None, Path(place) / "none"))

    text = (directory / "pim-tide.md").read_text()
    assert made(known) == text, "make it again: lab/figures/figures.py --paper pim-tide --plot-only"
    slower = {
        command: {**result, "throughput": result["throughput"] / 100}
        if " --of " in command
        else result
        for command, result in known.items()
    }
    assert made(slower) != text
    used = next(command for command in known if "--remote 45" in command)
    try:
        made({command: result for command, result in known.items() if command != used})
    except results.Refused as refused:
        assert used in str(refused)
    else:
        raise AssertionError("a page without one of its runs")


for name in ("pim-tide-figure-3.png", "pim-tide-figure-4.png"):
    assert os.path.getsize(directory / name) > 10000
figure_3()
all_modules()
figure_4()
figure_6()
try:
    import matplotlib  # noqa: F401
except ImportError:
    print("skipped: python3-matplotlib is not installed")
    sys.exit(77)
page()
print("ok")
