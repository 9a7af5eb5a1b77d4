#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A heap that a program on one machine left unclosed opens on every other machine, and back.

    exchange.py NATIVE BUILD...

NATIVE is unclosed-heap for this machine, BUILD a build directory of another one, whose cross file
is in BUILD-sysroot (tools/cross/sysroot.sh).  Unclosed heaps have a log: the second machine replays
what the first has logged.
"""
import ast
import configparser
import os
import subprocess
import sys
import tempfile


def emulated(build: str) -> list[str]:
    """The command of the program of another machine."""
    cross = configparser.ConfigParser(interpolation=None)
    with open(build + "-sysroot/cross.ini") as f:
        cross.read_file(f)
    wrapper: list[str] = ast.literal_eval(cross["binaries"]["exe_wrapper"])
    return wrapper + [os.path.join(build, "tests/unit/unclosed-heap")]


def main() -> int:
    machines = {"this": [os.path.abspath(sys.argv[1])]}
    for build in sys.argv[2:]:
        machines[build] = emulated(build)
    failed = 0
    for maker, make in machines.items():
        for opener, verify in machines.items():
            with tempfile.TemporaryDirectory() as place:
                heap = os.path.join(place, "heap")
                # Recovery and close; then the maker opens the closed heap.
                runs = [make + ["make", heap], verify + ["verify", heap], make + ["verify", heap]]
                good = all(subprocess.run(command).returncode == 0 for command in runs)
            print("ok  " if good else "FAIL", maker, "->", opener)
            failed += not good
    return 1 if failed else 0


sys.exit(main())
