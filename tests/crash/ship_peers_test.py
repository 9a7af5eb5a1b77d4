#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""bench/ship/peers.py measures every system that is installed, names the package of every other
one, and leaves no file and no process; its result has what docs/benchmarks.md describes; wrong
usage is refused.

    ship_peers_test.py PEERS BUILD DIRECTORY           libfur with a file, and Redis
    ship_peers_test.py PEERS BUILD DIRECTORY --all     every system
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

program, build, directory, *more = sys.argv[1:]
PACKAGES = {
    "fur-kafka": "install the package default-jre-headless",
    "fur-kafka-flush": "install the package default-jre-headless",
    "postgres-on": "apt-get install postgresql",
    "postgres-apply": "apt-get install postgresql",
    "redis": "apt-get install redis-server",
    "etcd": "apt-get install etcd-server",
}
SHORT = ("--rounds", "2", "--seconds", "0.05", "--clients", "3")


def run(place, *args, **env):
    command = [sys.executable, program, place, "--build", build, *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **env}
    )


def refused(says, place, *args):
    done = run(place, *args)
    assert done.returncode == 2 and says in done.stderr, (args, done)
    assert done.stderr.count("\n") == 1, done.stderr


def check_spread(values):
    assert values.keys() == {"median", "min", "max"}, values
    assert 0 < values["min"] <= values["median"] <= values["max"], values


def check_result(result, wanted):
    """Every system was measured or left out, and the figures fit each other."""
    ran = [row["system"] for row in result["rows"]]
    assert sorted([*ran, *result["skipped"]]) == sorted(wanted), result
    assert len(result["versions"]) >= 1, result
    check_spread(result["machine"]["fdatasync_us"])
    for row in result["rows"]:
        for who in ("one", "many"):
            for figure in ("commits_per_second", "p50_us", "p99_us"):
                check_spread(row[f"{who}_{figure}"])
        runs = result["runs"][row["system"]]
        assert len(runs) == result["rounds"] == 2, runs
        for each in runs:
            for who in ("one", "many"):
                figures = each[who]
                assert 0 < figures["p50_us"] <= figures["p99_us"], row
                assert figures["commits"] > 0 and figures["commits_per_second"] > 0, row
    peers = [name for name in ran if not name.startswith("fur-")]
    ours = [name for name in ran if name.startswith("fur-")]
    pairs = [(ratio["system"], ratio["over"]) for ratio in result["ratios"]]
    assert sorted(pairs) == sorted((a, b) for a in peers for b in ours), pairs
    for ratio in result["ratios"]:
        runs = [result["runs"][ratio[which]] for which in ("system", "over")]
        over = [theirs["one"]["p50_us"] / fur["one"]["p50_us"] for theirs, fur in zip(*runs)]
        assert abs(ratio["one_p50_us"]["max"] - max(over)) < 1e-9, ratio
        check_spread(ratio["many_commits_per_second"])


def measured(place, systems, **env):
    file = Path(place) / "result.json"
    done = run(place, *SHORT, "--systems", ",".join(systems), "--json", str(file), **env)
    assert done.returncode == 0, done.stderr
    result = json.loads(file.read_text())
    file.unlink()
    assert os.listdir(place) == [], os.listdir(place)
    check_result(result, {"fur-file", *systems})
    for row in result["rows"]:
        assert done.stdout.count(f"\n| {row['system']} | ") == 1, done.stdout
    for name, why in result["skipped"].items():
        lines = [line for line in done.stderr.splitlines() if line.endswith(why)]
        assert len(lines) == 1 and name in lines[0], (name, done.stderr)
    return result


def left_out(place):
    """Without any of their programs: each by one line, and the file's log is measured."""
    nowhere = Path(place) / "nowhere"
    nowhere.mkdir()
    file = Path(place) / "result.json"
    options = [*SHORT, "--postgres", str(nowhere), "--json", str(file)]
    done = run(place, *options, PATH=str(nowhere))
    nowhere.rmdir()
    assert done.returncode == 0, done.stderr
    result = json.loads(file.read_text())
    file.unlink()
    check_result(result, {"fur-file", *PACKAGES})
    assert result["skipped"].keys() == PACKAGES.keys() and not result["ratios"], result
    for name, package in PACKAGES.items():
        why = result["skipped"][name]
        # A build without librdkafka lacks the engine, which comes first.
        assert package in why or "librdkafka-dev" in why, (name, why)
        assert done.stderr.count(why + "\n") == 1, done.stderr


def processes_in(place):
    """Those that work in a directory below."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            where = os.readlink(entry)
        except OSError:
            continue
        if where.startswith(str(Path(place).resolve()) + "/"):
            found.append(entry.parent.name)
    return found


def ends_with_its_servers(place):
    """SIGKILL to the script ends the servers as well."""
    command = [sys.executable, program, place, "--build", build, "--systems", "redis"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as script:
        until = time.monotonic() + 60
        while len(processes_in(place)) < 2 and time.monotonic() < until:
            assert script.poll() is None, "it has ended before it was killed"
            time.sleep(0.01)
        assert len(processes_in(place)) >= 2, "no two servers run"
        script.send_signal(signal.SIGKILL)
    while processes_in(place) and time.monotonic() < until:
        time.sleep(0.01)
    assert not processes_in(place), "a server has outlived the script"


refused("is no directory", "/nowhere")
refused("'nosql' is no system: use fur-file, ", directory, "--systems", "redis,nosql")
refused("is no number", directory, "--rounds", "0")
refused("is no length", directory, "--seconds", "x")
refused("use at most 64", directory, "--clients", "65")
refused("where fdatasync does nothing", "/dev/shm")
with tempfile.TemporaryDirectory(dir=directory) as work:
    os.chmod(work, 0o755)  # PostgreSQL runs as another user
    if run(work, "--rounds", "1", "--seconds", "0.01", "--systems", "fur-file").returncode == 2:
        print("the build directory is in memory")
        sys.exit(77)
    left_out(work)
    names = PACKAGES if more == ["--all"] else ["redis"]
    got = measured(work, names)
    if "redis" not in got["skipped"]:
        ends_with_its_servers(work)
