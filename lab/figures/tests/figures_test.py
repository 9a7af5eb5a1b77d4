#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The paper's figures: made, continued after a stop, not measured twice; wrong usage and damage are
refused before any work.

    figures_test.py FIGURES BUILD
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

figures, build = sys.argv[1:]
SMALL = [
    "--build",
    build,
    "--quick",
    "--figure",
    "9",
    "--threads",
    "1,2",
    "--systems",
    "fur-opacity,fur-snapshot",
]
RUNS = 6 * 2 * 2  # workloads, systems, numbers of threads


def run(*args, **more):
    return subprocess.run(
        [figures, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def lines(path):
    with open(path, "rb") as file:
        return file.read().splitlines(keepends=True)


def write(path, parts):
    with open(path, "wb") as file:
        file.writelines(parts)


def read_runs(journal):
    return [json.loads(line) for line in lines(journal)]


def write_runs(journal, runs):
    write(journal, [(json.dumps(each) + "\n").encode() for each in runs])


def made(out):
    """A picture, a table, and every run with its command."""
    with open(os.path.join(out, "figure-9-power9.png"), "rb") as picture:
        content = picture.read()
    assert content.startswith(b"\x89PNG") and len(content) > 10000
    with open(os.path.join(out, "figures.md"), encoding="utf-8") as page:
        text = page.read()
    assert (
        "| 1 % updates, random keys: both variants are level" in text
        and "| above 1 | not measured | without spht |" in text
    ), text
    runs = read_runs(os.path.join(out, "runs.jsonl"))
    assert len(runs) == RUNS and all("rbtree --machine power9" in r["command"] for r in runs), runs
    assert all(r["result"]["verified"] and r["result"]["throughput"] > 0 for r in runs)
    left = sorted(os.listdir(out))
    assert left == ["figure-9-power9.png", "figures.md", "runs.jsonl"], left


def measured_once(place):
    out = os.path.join(place, "out")
    journal = os.path.join(out, "runs.jsonl")
    first = run(*SMALL, "--out", out)
    assert first.returncode == 0 and f"{RUNS} runs, 0 of them done before" in first.stdout, (
        first.stdout + first.stderr
    )
    made(out)
    whole = lines(journal)
    assert len(whole) == RUNS

    again = run(*SMALL, "--out", out)
    assert again.returncode == 0 and f"{RUNS} runs, {RUNS} of them done before" in again.stdout, (
        again.stdout + again.stderr
    )
    assert lines(journal) == whole

    # Killed while it wrote a line: that run is made again, and gives the same.
    write(journal, whole[:-1] + [whole[-1][:40]])
    again = run(*SMALL, "--out", out)
    assert (
        again.returncode == 0 and f"{RUNS} runs, {RUNS - 1} of them done before" in again.stdout
    ), (again.stdout + again.stderr)
    assert [r["result"] for r in read_runs(journal)] == [json.loads(w)["result"] for w in whole]

    # Another version of the program: measured again.
    other = json.loads(whole[0])
    write(journal, [(json.dumps({**other, "version": "0"}) + "\n").encode()] + whole[1:])
    again = run(*SMALL, "--out", out)
    assert (
        again.returncode == 0 and f"{RUNS} runs, {RUNS - 1} of them done before" in again.stdout
    ), (again.stdout + again.stderr)

    write(journal, whole[:2] + [b"not json\n"] + whole[3:])
    refused(run(*SMALL, "--out", out), f"{journal}:3: damaged")
    write(journal, whole[:2] + [b'{"command": "x"}\n'])
    refused(run(*SMALL, "--out", out), f"{journal}:3: damaged")

    write(journal, whole)
    os.remove(os.path.join(out, "figures.md"))
    drawn = run(*SMALL, "--out", out, "--plot-only", "--build", os.path.join(place, "nowhere"))
    assert drawn.returncode == 0, drawn.stderr
    made(out)


def stopped(place):
    """Stopped with a signal, it has what was finished, and goes on from there."""
    out = os.path.join(place, "stopped")
    journal = os.path.join(out, "runs.jsonl")
    with subprocess.Popen(
        [figures, *SMALL, "--jobs", "1", "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        while child.poll() is None and not (os.path.exists(journal) and lines(journal)):
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        _, says = child.communicate()
    assert child.returncode == 130 and "stopped" in says and "Traceback" not in says, (
        child.returncode,
        says,
    )
    done = len(lines(journal))
    assert 1 <= done < RUNS
    again = run(*SMALL, "--out", out)
    assert again.returncode == 0 and f"{RUNS} runs, {done} of them done before" in again.stdout, (
        again.stdout + again.stderr
    )
    made(out)


def stopped_between_figures(place):
    """What belongs to a finished figure is there, although the measurement was stopped."""
    out = os.path.join(place, "between")
    picture = os.path.join(out, "figure-9-power9.png")
    command = [*SMALL, "--figure", "9,10", "--threads", "1", "--systems", "fur-opacity,ring"]
    with subprocess.Popen(
        [figures, *command, "--jobs", "1", "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        while child.poll() is None and not os.path.exists(os.path.join(out, "figures.md")):
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        child.communicate()
    assert child.returncode == 130, child.returncode
    with open(os.path.join(out, "figures.md"), encoding="utf-8") as page:
        text = page.read()
    assert "## Figure 9" in text and "## Figure 10" not in text and os.path.exists(picture), text
    runs = read_runs(os.path.join(out, "runs.jsonl"))
    assert sum("rbtree" in r["command"] for r in runs) == 6, runs
    again = run(*command, "--out", out)
    assert again.returncode == 0, again.stdout + again.stderr
    with open(os.path.join(out, "figures.md"), encoding="utf-8") as page:
        text = page.read()
    assert "## Figure 9" in text and "## Figure 10" in text, text


def assert_same(one, other):
    """Two results of a run. A time may be rounded to another nanosecond at each of its ends. The
    body of an attempt is what some four timed parts leave of it."""
    timed = ("seconds", "throughput", "phases_ns")
    assert {**one, **dict.fromkeys(timed)} == {**other, **dict.fromkeys(timed)}, (one, other)
    assert abs(one["seconds"] - other["seconds"]) < 3e-9, (one, other)
    most = 8 * (sum(one["run_commits"].values()) + sum(one["aborts"].values()))
    for phase, ns in one["phases_ns"].items():
        assert abs(ns - other["phases_ns"][phase]) <= most, (phase, one, other)


def loaded_once(place):
    """Runs of several figures share their loading, and each can be repeated alone."""
    out = os.path.join(place, "shared")
    options = ["--build", build, "--quick", "--figure", "6,7", "--systems", "specpmt"]
    both = run(*options, "--threads", "1,8", "--out", out)
    assert both.returncode == 0 and "16/16 runs" in both.stdout, both.stdout + both.stderr
    records = read_runs(os.path.join(out, "runs.jsonl"))
    for record in (records[0], records[-1]):
        alone = subprocess.run(
            record["command"].split(), cwd=build, stdout=subprocess.PIPE, text=True, check=True
        )
        assert_same(json.loads(alone.stdout), record["result"])

    sys.path.insert(0, os.path.dirname(figures))
    import plan
    import results

    runs = [
        each
        for figure in (1, 4, 6, 7, 8)
        for each in plan.runs_of(plan.FIGURES[figure], ["spht"], [1, 8, 64], "power9", plan.FULL, 1)
    ]
    groups = results.groups_of(runs, "power9")
    assert len(groups) == 2 and sum(map(len, groups)) == len(runs), [len(g) for g in groups]
    assert len(results.groups_of(runs, "native")) == len(set(runs))


def refused(result, says):
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    assert says in result.stderr and result.stderr.count("\n") == 1, (says, result.stderr)


def usage(place):
    in_the_way = os.path.join(place, "file")
    write(in_the_way, [b""])
    out = ["--out", os.path.join(place, "usage")]
    for args, says in [
        (["--figure", "3"], "there is no figure 3"),
        (["--figure", "x"], "'x' is not a list"),
        (["--systems", "best"], "there is no system 'best'"),
        (["--threads", "0"], "'0' is not a list"),
        (["--jobs", "0"], "'0' is not a positive number"),
        (["--bogus"], "--bogus"),
        (["--machine", "vax"], "--machine vax"),
        (["--build", os.path.join(place, "nowhere")], "nowhere: no such build directory"),
        (["--build", place], "no such program"),
        (["--out", os.path.join(in_the_way, "out")], "cannot write there"),
    ]:
        refused(run(*SMALL, *out, *args), says)
    replay = run("--build", build, "--quick", "--figure", "10", "--threads", "1", *out)
    assert replay.returncode == 0 and "6/6 runs" in replay.stdout, replay.stdout + replay.stderr
    assert os.path.exists(os.path.join(place, "usage", "figure-10-power9.png"))


def other_paper(place):
    """The paper on ccSLT: measured, drawn again from the results alone, damage refused."""
    out = os.path.join(place, "ccslt")
    journal, page = (os.path.join(out, name) for name in ("ccslt.jsonl", "ccslt.md"))
    pictures = [
        os.path.join(out, f"ccslt-{name}.png")
        for name in ("figure-4", "figure-5", "figure-6", "updates", "bulk")
    ]
    options = ["--paper", "ccslt", "--quick", "--out", out]
    done = run(*options, "--build", build)
    assert done.returncode == 0 and page in done.stdout, done.stdout + done.stderr
    kept = read_runs(journal)
    runs, claims, bulk = kept[:6], kept[6], kept[7:]
    ways = [m["by"] for m in bulk[0]["result"]["measured"]]
    assert ways == ["none", "bulk", "each", "locks", "update"], ways
    assert all(r["result"]["verified"] for r in bulk) and len(bulk) == 2, bulk
    assert claims["result"]["verified"] and "claims --machine ccix-ndp" in claims["command"], claims
    assert [(r["result"]["home"], r["result"]["parallel"]) for r in runs] == [
        (home, parallel) for home in ("host", "device") for parallel in (0, 50, 100)
    ]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert "| device, no parallel requests, ns | 800 | 800 | yes |" in text, text
    # Only our faster locks differ from the paper's numbers.
    assert text.count("**") == 4, text
    drawn_again(options, place, page, pictures)

    # Another result is another page, which says that it differs.
    for each in runs:
        each["result"]["latency"]["device"]["first"]["mean_ns"] *= 2
    write_runs(journal, kept)
    assert run(*options, "--plot-only").returncode == 0
    with open(page, encoding="utf-8") as file:
        assert "| device, no parallel requests, ns | 800 | **1.6e+03** | yes |" in file.read()
    for incomplete in (runs, kept[1:], [*kept, claims], []):
        write_runs(journal, incomplete)
        refused(run(*options, "--plot-only"), f"{journal}: not the results of a measurement")
    for damaged in ({"command": "x"}, []):
        write_runs(journal, [*kept[:2], damaged])
        refused(run(*options, "--plot-only"), f"{journal}:3: damaged, not the result of a run")
    os.remove(journal)
    refused(run(*options, "--plot-only"), f"{journal}: No such file")
    for args, says in [
        (["--figure", "4"], "--figure is for --paper fur"),
        (["--jobs", "2"], "--jobs is for --paper fur"),
        (["--native"], "--native: the device of --paper ccslt is emulated"),
        (["--machine", "epyc"], "epyc has no coherent agent"),
        (["--build", place], "agent: not there: build it"),
        (["--paper", "tide"], "invalid choice: 'tide'"),
    ]:
        refused(run(*options, "--build", build, *args), says)


def content(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def made_again(options, journal, page, kept):
    """A run that a kill cut short is made again, with the same result, and the same page."""
    text = content(page)
    with open(journal, "rb+") as file:
        file.truncate(os.path.getsize(journal) - 10)
    again = run(*options, "--build", build)
    assert again.returncode == 0 and read_runs(journal) == kept, again.stderr
    assert content(page) == text


def drawn_again(options, place, page, pictures):
    """The page and the pictures are made from the journal alone, as they were."""
    text = content(page)
    for made_before in (*pictures, page):
        assert os.path.getsize(made_before) > 1000
        os.remove(made_before)
    drawn = run(*options, "--plot-only", "--build", os.path.join(place, "nowhere"))
    assert drawn.returncode == 0 and all(map(os.path.exists, pictures)), drawn.stderr
    assert content(page) == text


def near_memory(place):
    """The paper on PUL: measured, drawn again from the results alone, damage refused."""
    out = os.path.join(place, "pul")
    journal, page = (os.path.join(out, name) for name in ("pul.jsonl", "pul.md"))
    pictures = [os.path.join(out, f"pul-figure-{number}.png") for number in (3, 4, 5, 6, 7)]
    pictures.append(os.path.join(out, "pul-replay.png"))
    options = ["--paper", "pul", "--quick", "--out", out]
    done = run(*options, "--build", build)
    if "gcc-riscv64-unknown-elf" in done.stderr:
        print("--paper pul left out: it needs the package gcc-riscv64-unknown-elf")
        return
    assert done.returncode == 0 and page in done.stdout, done.stdout + done.stderr
    kept = read_runs(journal)
    results = [r["result"] for r in kept]
    assert all(r["verified"] and r["instructions"] > 0 for r in results)
    with open(page, encoding="utf-8") as file:
        text = file.read()
    # The numbers that the machines' descriptions were fitted to.
    for claim in (
        "NVM, one element, low intensity: preload is faster by | 2.9 |",
        "DRAM, one element, low intensity: preload is faster by | 2.5 |",
        "UPMEM, one attribute: instructions a cycle | 0.58 |",
    ):
        (row,) = (line for line in text.splitlines() if claim in line)
        assert "**" not in row, row
    drawn_again(options, place, page, pictures)

    # Slower preload is another page, which says that it differs.
    for each in kept:
        if "--strategy sequential" in each["command"]:
            each["result"]["throughput"] /= 2
    write_runs(journal, kept)
    assert run(*options, "--plot-only").returncode == 0
    with open(page, encoding="utf-8") as file:
        assert "NVM, one element, low intensity: preload is faster by | 2.9 | **" in file.read()
    one = kept[0]
    for damaged in ({}, [], [one], {**one, "result": {}}):
        write_runs(journal, [one, damaged])
        refused(run(*options, "--plot-only"), f"{journal}:2: damaged, not the result of a run")
    write_runs(journal, [one])
    refused(run(*options, "--plot-only"), "not measured: leave out --plot-only")
    for args, says in [
        (["--figure", "4"], "--figure is for --paper fur"),
        (["--native"], "--native: the device of --paper pul is emulated"),
        (["--machine", "upmem"], "--paper pul is about upmem and pul-ndp"),
        (["--build", place], "pul: not there: build it"),
    ]:
        refused(run(*options, "--build", build, *args), says)


def transactions_in_modules(place):
    """The paper on OLTPim: measured, gone on with, drawn again, damage refused."""
    out = os.path.join(place, "oltpim")
    journal, page = (os.path.join(out, name) for name in ("oltpim.jsonl", "oltpim.md"))
    pictures = [
        os.path.join(out, f"oltpim-figure-{number}.png")
        for number in (7, "7-scans", "7-tpcc", 8, 9, 12)
    ]
    options = ["--paper", "oltpim", "--quick", "--out", out]
    done = run(*options, "--build", build)
    if "gcc-riscv64-unknown-elf" in done.stderr:
        print("--paper oltpim left out: it needs the package gcc-riscv64-unknown-elf")
        return
    assert done.returncode == 0 and page in done.stdout, done.stdout + done.stderr
    kept = read_runs(journal)
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert "What was not run" in text and "TPC-C" in text
    drawn_again(options, place, page, pictures)
    made_again(options, journal, page, kept)
    write_runs(journal, [kept[0], {**kept[0], "result": {}}])
    refused(run(*options, "--plot-only"), f"{journal}:2: damaged, not the result of a run")
    # What was not run is named, and not drawn.
    write_runs(journal, kept[:1])
    assert run(*options, "--plot-only").returncode == 0
    assert not any(map(os.path.exists, pictures))
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert "Figure 8. Batches: runs are missing." in text and "| not run |" in text, text
    for args, says in [
        (["--native"], "--native: the device of --paper oltpim is emulated"),
        (["--machine", "upmem"], "--paper oltpim has machines of its own"),
        (["--build", place], "oltpim-emulated: not there: build it"),
    ]:
        refused(run(*options, "--build", build, *args), says)


def transactions_over_modules(place):
    """The paper on PIM-TIDE: measured, gone on with, drawn again, damage refused."""
    out = os.path.join(place, "pim-tide")
    journal, page = (os.path.join(out, name) for name in ("pim-tide.jsonl", "pim-tide.md"))
    pictures = [os.path.join(out, f"pim-tide-figure-{number}.png") for number in (3, 4, 6, 7)]
    options = ["--paper", "pim-tide", "--quick", "--out", out]
    done = run(*options, "--build", build)
    if "gcc-riscv64-unknown-elf" in done.stderr:
        print("--paper pim-tide left out: it needs the package gcc-riscv64-unknown-elf")
        return
    assert done.returncode == 0 and page in done.stdout, done.stdout + done.stderr
    kept = read_runs(journal)
    assert all(r["result"]["verified"] for r in kept)
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for claim in ("8 bytes of the module's own memory: ns | 231", "## Figure 3", "## Figure 4"):
        assert claim in text, claim
    drawn_again(options, place, page, pictures)
    made_again(options, journal, page, kept)
    # Faster modules are another page.
    for each in kept:
        if "--of" in each["command"]:
            each["result"]["throughput"] *= 1000
    write_runs(journal, kept)
    assert run(*options, "--plot-only").returncode == 0
    with open(page, encoding="utf-8") as file:
        assert "Payment: gain | below 2 | **" in file.read()
    write_runs(journal, [kept[0], {**kept[0], "result": {}}])
    refused(run(*options, "--plot-only"), f"{journal}:2: damaged, not the result of a run")
    write_runs(journal, kept[:1])
    refused(run(*options, "--plot-only"), "not measured: leave out --plot-only")
    for args, says in [
        (["--native"], "--native: the device of --paper pim-tide is emulated"),
        (["--machine", "upmem"], "--paper pim-tide is about upmem-sdk"),
        (["--build", place], "tide: no such program: build with -Dlab=true"),
    ]:
        refused(run(*options, "--build", build, *args), says)


def without_matplotlib(place):
    write(os.path.join(place, "matplotlib.py"), [b"raise ImportError\n"])
    refused(run("--help", env={**os.environ, "PYTHONPATH": place}), "matplotlib is not there")


with tempfile.TemporaryDirectory() as directory:
    if "matplotlib is not there" in run("--help").stderr:
        print("skipped: python3-matplotlib is not installed")
        sys.exit(77)
    measured_once(directory)
    stopped(directory)
    stopped_between_figures(directory)
    loaded_once(directory)
    usage(directory)
    other_paper(directory)
    near_memory(directory)
    transactions_in_modules(directory)
    transactions_over_modules(directory)
    without_matplotlib(directory)
print("ok")
