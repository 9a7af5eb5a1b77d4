#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of the containers: each part runs, its result has what docs/benchmarks.md
describes, wrong usage is refused, and no file is left.

    containers_bench_test.py CONTAINERS
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]
WAYS = [
    f"{kind}get_many_{n}"
    for kind in ("", "hash_map_", "optimistic_", "optimistic_hash_map_")
    for n in (10, 100)
]


def run(directory: str, *args: str) -> subprocess.CompletedProcess[str]:
    short = ["--keys", "3000", "--seconds", "0.005", "--rounds", "2", "--directory", directory]
    return subprocess.run([program, *short, *args], capture_output=True, text=True, check=False)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        result = os.path.join(directory, "result.json")
        done = run(directory, "--get-many", "--json", result)
        assert done.returncode == 0, done.stderr
        with open(result, encoding="utf-8") as file:
            many = json.load(file)
        os.unlink(result)
        assert many["keys"] == 3000 and many["rounds"] == 2, many
        for way in WAYS:
            assert many[way] > 0 and len(many[way + "_rounds"]) == 2, (way, many)
            assert min(many[way + "_ns"]) > 0, (way, many)
            assert way in done.stdout, (way, done.stdout)
        done = run(directory, "--json", "-")
        assert done.returncode == 0, done.stderr
        lines = json.loads(done.stdout)
        assert {line["what"] for line in lines} >= {"get", "put", "scan", "get, in order"}, lines
        done = run(directory, "--fill")
        assert done.returncode == 0 and "longest insertion" in done.stdout, done
        for wrong in (["--keys", "0"], ["--rounds", "0"], ["--many"]):
            done = run(directory, *wrong)
            assert done.returncode == 2 and not done.stdout and done.stderr, (wrong, done)
        assert os.listdir(directory) == [], os.listdir(directory)


main()
