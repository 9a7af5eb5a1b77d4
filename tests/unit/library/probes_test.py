#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library has the static probes that docs/tools.md lists, each with as many arguments, and none
in the functions of a read-only transaction.

    probes_test.py READELF LIBRARY PAGE present|absent
"""
import re
import subprocess
import sys

readelf, library, page, expected = sys.argv[1:]
READERS = ("fur_begin_ro", "fur_end_ro", "fur_read_bytes")


def run(*options):
    return subprocess.run(
        [readelf, *options, library], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def documented():
    """The rows of the table: names and numbers of arguments."""
    with open(page, encoding="utf-8") as file:
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \|$", file.read(), re.M)
    # A remark in parentheses may hold no comma.
    return {name: arguments.count(",") + 1 for name, arguments in rows if "fur_" not in name}


def probes():
    """(name, number of arguments, address) of each place."""
    note = re.compile(
        r"Provider: fur\n\s+Name: (\w+)\n\s+Location: (0x[0-9a-f]+),.*\n\s+Arguments: (.*)"
    )
    return [
        (name, len(arguments.split()), int(address, 16))
        for name, address, arguments in note.findall(run("-n", "-W"))
    ]


def functions():
    """(first address, size) of each exported function that a reader calls."""
    symbol = re.compile(r"^\s*\d+: ([0-9a-f]+)\s+(\d+) FUNC\s.*\s(\w+)$", re.M)
    found = {name: (int(at, 16), int(size)) for at, size, name in symbol.findall(run("-s", "-W"))}
    return [found[name] for name in READERS]


found = probes()
if expected == "absent":
    assert not found, found
    sys.exit()
table = documented()
assert len(table) > 5 and table == {name: n for name, n, _ in found}, (table, found)
assert all(n == table[name] for name, n, _ in found), found
for first, size in functions():
    inside = [name for name, _, at in found if first <= at < first + size]
    assert not inside, inside
