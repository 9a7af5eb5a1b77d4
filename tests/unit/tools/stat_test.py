#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The command line of fur-stat: its lines, JSON objects and expositions of a heap in each state,
one line for each error, and the exit status.

    stat_test.py FUR_STAT FUR_REPLAYER RBTREE
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

stat, replayer, rbtree = sys.argv[1:]
HEADER = "state           replayer  updates/s  replayed/s        lag  ring%   log%"


def run(*args):
    return subprocess.run(
        [stat, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False
    )


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def refused(status, says, *args):
    done = run(*args)
    assert done.returncode == status and says in done.stderr and not done.stdout, done
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("fur-stat: "), done


def lines(*args):
    done = run(*args)
    assert done.returncode == 0 and not done.stderr, done
    return done.stdout.splitlines()


def samples(*args):
    return [json.loads(line) for line in lines(*args, "--json")]


def metrics(text):
    """An exposition: each metric has a help, a type and one value."""
    values = {}
    rows = text.splitlines()
    assert len(rows) % 3 == 0 and text.endswith("\n"), text
    for a, b, c in zip(rows[::3], rows[1::3], rows[2::3]):
        name = c.split("{")[0]
        assert a.startswith(f"# HELP {name} ") and a.endswith("."), a
        kind = "counter" if name.endswith("_total") else "gauge"
        assert b == f"# TYPE {name} {kind}", b
        value = re.fullmatch(r'\w+\{heap="(?:[^"\\]|\\.)*"\} (\d+)', c)
        assert value and name not in values, c
        values[name] = int(value[1])
    return values


def usage(place):
    refused(2, "HEAP is missing")
    refused(2, "unknown option", "--nonsense", place)
    for interval in ("0", "x", "1x", "-1", "nan", "inf"):
        refused(2, "INTERVAL", "--", place, interval)
    for count in ("0", "1.5", "x", "-3"):
        refused(2, "COUNT", "--", place, "1", count)
    refused(2, "unexpected argument", place, "1", "1", "1")
    refused(2, "give both", place, "--output", place + "/out")
    refused(2, "one at a time", place, "--json", "--prometheus")
    assert "Exit status" in run("--help").stdout
    refused(1, place + "/none: no such file", place + "/none")
    refused(1, place + ": not a regular file", place)
    with open(place + "/foreign", "wb") as f:
        f.write(b"x" * 100000)
    refused(1, "/foreign: not a libfur heap", place + "/foreign")


def closed(heap):
    with open(heap, "rb") as f:
        before = f.read()
    out = lines(heap, "0.001", "45")
    assert [k for k, line in enumerate(out) if line == HEADER] == [0, 21, 42], out
    assert len(out) == 45 + 3
    assert out[1].split() == ["closed", "no", "-", "-", "0", "0.0", "-"], out
    assert len(out[1]) == len(HEADER), out
    (s,) = samples(heap, "0.001", "1")
    assert s["path"] == heap and s["state"] == "closed" and s["lag"] == 0, s
    assert not {"worker_pid", "updates_per_s", "fullest_log_bytes", "replays"} & set(s), s
    m = metrics(run(heap, "--prometheus").stdout)
    assert (m["fur_heap_up"], m["fur_heap_in_use"], m["fur_heap_needs_recovery"]) == (1, 0, 0), m
    assert m["fur_ring_used_slots"] == 0 < m["fur_ring_slots"], m
    assert "fur_replays_total" not in m, m
    with open(heap, "rb") as f:
        assert f.read() == before, "looking at it changed it"


def start(heap):
    command = [rbtree, "--seconds", "60", "--keys", "100", "--heap", heap]
    worker = subprocess.Popen(
        [*command, "--tm", "fur-opacity", "--threads", "2"], stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while not os.path.exists(heap):
        assert time.monotonic() < deadline and worker.poll() is None, "it never began to work"
        time.sleep(0.01)
    return worker


def takes_no_lock(heap):
    watch = subprocess.Popen([stat, heap, "0.001"], stdout=subprocess.PIPE, text=True)
    assert watch.stdout and watch.stdout.readline() == HEADER + "\n"
    fds = f"/proc/{watch.pid}/fdinfo"
    for fd in os.listdir(fds):
        with open(f"{fds}/{fd}", encoding="ascii") as f:
            assert "lock:" not in f.read(), fd
    watch.stdout.close()
    watch.kill()
    watch.wait()


def in_use(heap, place):
    worker = start(heap)
    seen: list[dict] = []
    deadline = time.monotonic() + 60
    while sum(s.get("updates_per_s", 0) > 0 for s in seen) < 5:
        assert time.monotonic() < deadline, seen
        seen += samples(heap, "0.02", "20")
    for s in seen:
        assert s["state"] == "in use" and s["worker"] and not s["replayer"], s
        assert s["worker_pid"] == worker.pid and "replayer_pid" not in s, s
        assert 0 <= s["lag"] == s["next_durts"] - s["tail"] <= s["ring_slots"], s
        assert s["fullest_log_bytes"] <= s["log_bytes"], s
    tails = [s["tail"] for s in seen]
    assert tails == sorted(tails), tails
    takes_no_lock(heap)
    out = place + "/fur.prom"
    os.symlink(place + "/not-ours", out + ".tmp")
    m = {"fur_updates_total": 0}
    while m["fur_updates_total"] == 0:  # the worker may not have run meanwhile
        assert time.monotonic() < deadline, m
        lines(heap, "0.05", "10", "--prometheus", "--output", out)
        with open(out, encoding="utf-8") as f:
            m = metrics(f.read())
    assert m["fur_heap_in_use"] == 1, m
    assert m["fur_log_fullest_bytes"] <= m["fur_log_bytes"] and "fur_replays_total" in m, m
    # It uses a name that nothing has, and removes no other.
    assert os.path.islink(out + ".tmp") and not os.path.exists(place + "/not-ours")
    os.unlink(out + ".tmp")
    assert [name for name in os.listdir(place) if name.startswith("fur.prom")] == ["fur.prom"]
    assert os.stat(out).st_mode & 0o777 == 0o666 & ~current_umask(), oct(os.stat(out).st_mode)
    refused(1, "/none/out: cannot write", heap, "--prometheus", "--output", place + "/none/out")
    assert worker.poll() is None, "looking at it ended it"
    return worker


def goes_on(heap, worker):
    """One fur-stat sees a process, its death, a replayer's recovery, no file, and a new file."""
    watch = subprocess.Popen([stat, heap, "0.01", "--json"], stdout=subprocess.PIPE, text=True)
    assert watch.stdout
    output = watch.stdout

    def until(what):
        deadline = time.monotonic() + 60
        while not what(s := json.loads(output.readline())):
            assert time.monotonic() < deadline, s

    until(lambda s: s["state"] == "in use" and "updates_per_s" in s)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    until(lambda s: s["state"] == "needs recovery" and not s["worker"])
    subprocess.run([replayer, "--once", "--heap", heap], check=True, stdout=subprocess.DEVNULL)
    until(lambda s: s["state"] == "closed" and s["lag"] == 0)
    os.remove(heap)
    until(lambda s: s["state"] == "missing" and "lag" not in s)
    again = start(heap)
    until(lambda s: s["state"] == "in use" and s.get("worker_pid") == again.pid)
    until(lambda s: s.get("updates_per_s", 0) > 0)
    again.kill()
    again.wait()
    assert watch.poll() is None
    output.close()
    watch.kill()
    watch.wait()


with tempfile.TemporaryDirectory() as directory:
    usage(directory)
    odd = directory + '/a "heap"\\'
    subprocess.run(
        [rbtree, "--seconds", "0.1", "--keys", "100", "--heap", odd],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    closed(odd)
    goes_on(directory + "/live", in_use(directory + "/live", directory))
