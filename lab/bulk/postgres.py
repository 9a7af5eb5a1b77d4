#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure PostgreSQL's row lock, for comparison with the benchmark `claims`.

In one transaction of one connection, SELECT ... FOR UPDATE locks each record of a table once, by
primary key: in order, and at random. The same SELECT without FOR UPDATE is subtracted: the rest is
the lock, with the tuple header and the log record that it writes. The clock of SQL counts
microseconds, so times are of batches of 100 statements, and so are the spread and the histogram.

The server is a new one, in a temporary directory, without fsync. Exit status: 0, 1 a failure, 2
wrong usage, 77 PostgreSQL is not there.
"""
from __future__ import annotations

import argparse
import json
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

BATCH = 100
SKIPPED = 77
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "autovacuum": "off",
    "jit": "off",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
}
# The statements of each batch differ in FOR UPDATE only.
SCHEMA = """
CREATE TABLE record (id bigint PRIMARY KEY, value bigint);
INSERT INTO record SELECT k, k FROM generate_series(0, {records} - 1) k;
VACUUM (ANALYZE, FREEZE) record;
CREATE FUNCTION measure(locks boolean, step bigint, requests bigint)
RETURNS SETOF double precision LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz;
BEGIN
    FOR lowest IN 0 .. requests - 1 BY {batch} LOOP
        began := clock_timestamp();
        IF locks THEN
            FOR k IN lowest .. lowest + {batch} - 1 LOOP
                PERFORM value FROM record WHERE id = k * step % {records} FOR UPDATE;
            END LOOP;
        ELSE
            FOR k IN lowest .. lowest + {batch} - 1 LOOP
                PERFORM value FROM record WHERE id = k * step % {records};
            END LOOP;
        END IF;
        RETURN NEXT extract(epoch FROM clock_timestamp() - began) * 1e9 / {batch};
    END LOOP;
END $$;
"""
# Each k * step % records comes once: the second is a prime above all numbers of records.
STEPS = {"sequential": 1, "random": 6700417}


class Failed(Exception):
    """PostgreSQL did not do what it was asked."""


def find_programs() -> Path | None:
    """The folder of initdb and pg_ctl. Debian keeps them out of PATH."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).parent if found else None


class Server:
    """A server of its own, which listens on a socket in its directory."""

    def __init__(self, programs: Path, directory: str) -> None:
        self.programs = programs
        self.directory = directory
        # PostgreSQL refuses to run as root.
        self.user: str | None = None
        if os.geteuid() == 0:
            self.user = "postgres"
            os.chown(directory, pwd.getpwnam(self.user).pw_uid, -1)

    def run(self, program: str, *arguments: str, text: str | None = None) -> str:
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            input=text,
            user=self.user,
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failed(f"{program}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def start(self) -> None:
        data = self.directory + "/data"
        self.run("initdb", "--no-sync", "-A", "trust", "-U", "bench", "-D", data)
        options = " ".join(f"-c {name}='{value}'" for name, value in SETTINGS.items())
        # Its output goes to a file, because the server keeps it open.
        self.run(
            *("pg_ctl", "-w", "-D", data, "-l", self.directory + "/log"),
            *("-o", f"-k {self.directory} {options}", "start"),
        )

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self.directory + "/data", "-m", "immediate", "stop")

    def query(self, text: str) -> list[str]:
        where = ("-h", self.directory, "-U", "bench", "-d", "postgres")
        flags = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")
        return self.run("psql", *where, *flags, text=text).split()


def measure(server: Server, order: str, requests: int, rounds: int) -> dict[str, Any]:
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for locks in (False, True):
            call = f"measure({locks}, {STEPS[order]}, {requests})"
            lines = server.query(f"BEGIN; SELECT * FROM {call}; ROLLBACK; VACUUM record;")
            times[locks] += [float(line) for line in lines]
    empty = statistics.median(times[False])
    difference = sorted(time - empty for time in times[True])
    bins = Counter(int(time // 10) * 10 for time in difference)
    deciles = statistics.quantiles(difference, n=10)
    return {
        "case": order,
        "select_ns": empty,
        "select_for_update_ns": statistics.median(times[True]),
        "lock": {
            "p10_ns": deciles[0],
            "median_ns": statistics.median(difference),
            "p90_ns": deciles[-1],
            "bins": [[low, low + 10, n] for low, n in sorted(bins.items())],
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1000000, metavar="N")
    parser.add_argument("--requests", type=int, default=1000000, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write the result with its histogram here")
    options = parser.parse_args()
    if not (0 < options.requests <= options.records < STEPS["random"] and options.rounds > 0):
        parser.error("use more than 0 requests, at most as many as records, and at most 6 million")
    programs = find_programs()
    if not programs:
        print("postgres.py: skipped: PostgreSQL is not there: apt-get install postgresql-15")
        return SKIPPED
    with tempfile.TemporaryDirectory() as directory:
        server = Server(programs, directory)
        try:
            server.start()
            try:
                server.query(SCHEMA.format(records=options.records, batch=BATCH))
                version = server.query("SHOW server_version;")[0]
                cases = [
                    measure(server, order, options.requests, options.rounds) for order in STEPS
                ]
            finally:
                server.stop()
        except (Failed, OSError, KeyError) as e:
            print(f"postgres.py: {e}", file=sys.stderr)
            return 1
    for case in cases:
        print(
            f"{case['case']:10} select {case['select_ns']:5.0f} ns, for update "
            f"{case['select_for_update_ns']:5.0f} ns, difference {case['lock']['median_ns']:.0f}"
            f" ({case['lock']['p10_ns']:.0f}-{case['lock']['p90_ns']:.0f}) ns"
        )
    if options.json:
        result = {"benchmark": "postgres", "version": version, "cases": cases}
        Path(options.json).write_text(json.dumps(result) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
