#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of the containers: each part runs, its result has what docs/benchmarks.md
describes, wrong usage is refused, and no file is left.

    containers_bench_test.py CONTAINERS [PEER ...]

PEER: a database that CONTAINERS was built with.
"""
import json
import os
import subprocess
import sys
import tempfile

program = sys.argv[1]
peers = sys.argv[2:]
KINDS = ("", "hash_map_", "optimistic_", "optimistic_hash_map_", "update_", "update_hash_map_")
TABLE = ("table_group", "table_interleave", "table_interleave_over_group")
WAYS = {f"{way}_{n}" for way in (*(f"{k}get_many" for k in KINDS), *TABLE) for n in (10, 100)}
OPERATIONS = ("insert", "find", "find_unique", "range", "for_each", "get_many", "modify", "erase")
if "lmdb" in peers:
    WAYS |= {"get_many_10_next_to_lmdb"}
if "rocksdb" in peers:
    WAYS |= {"rocksdb_multiget_10", "rocksdb_multiget_100", "rocksdb_get"}


def run(directory: str, *args: str) -> subprocess.CompletedProcess[str]:
    short = ["--keys", "3000", "--seconds", "0.005", "--rounds", "2", "--directory", directory]
    return subprocess.run([program, *short, *args], capture_output=True, text=True, check=False)


def check_row(many: dict, way: str) -> None:
    """Two rounds, each with the ratio of its times; the row has one of the two ratios."""
    ratios = many[f"{way}_rounds"]
    assert len(ratios) == 2 and many[way] in ratios, (way, many)
    for ratio, ours, other in zip(ratios, many[f"{way}_ns"], many[f"{way}_other_ns"]):
        assert ours > 0 and other > 0 and abs(ratio * ours / other - 1) < 1e-6, (way, many)


def check_table(table: dict, text: str) -> None:
    """Each operation with one thread and with two; each ratio is that of its two rates."""
    rows = {name[: -len("_rounds")] for name in table if name.endswith("_rounds")}
    assert rows == {f"{operation}_{n}" for operation in OPERATIONS for n in (1, 2)}, rows
    for row in rows:
        ratios = table[f"{row}_rounds"]
        assert len(ratios) == 2 and table[row] in ratios, (row, table)
        rates = zip(ratios, table[f"{row}_table_per_s"], table[f"{row}_by_hand_per_s"])
        for ratio, ours, other in rates:
            assert ours > 0 and other > 0 and abs(ratio * other / ours - 1) < 1e-6, (row, table)
        assert f"\n{row[:-2]} " in text, (row, text)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        result = os.path.join(directory, "result.json")
        done = run(directory, "--get-many", "--json", result)
        assert done.returncode == 0, done.stderr
        with open(result, encoding="utf-8") as file:
            many = json.load(file)
        os.unlink(result)
        assert many["keys"] == 3000 and many["rounds"] == 2, many
        rows = {name[: -len("_rounds")] for name in many if name.endswith("_rounds")}
        assert rows == WAYS, rows ^ WAYS
        assert many.get("rocksdb", "RocksDB").startswith("RocksDB"), many
        assert ("rocksdb" in many) == ("rocksdb" in peers), many
        for way in WAYS:
            check_row(many, way)
            assert f"\n{way} " in done.stdout, (way, done.stdout)
        done = run(directory, "--table", "--json", result)
        assert done.returncode == 0, done.stderr
        with open(result, encoding="utf-8") as file:
            check_table(json.load(file), done.stdout)
        os.unlink(result)
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
