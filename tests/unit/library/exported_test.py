#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libfur.so exports the functions that the headers declare with FUR_API, each with a version, and
nothing else; and it needs no library of C++.

    exported_test.py OBJDUMP LIBRARY HEADER...
"""
import re
import subprocess
import sys
from pathlib import Path

from dynamic_symbols import exported_by

objdump, library, *headers = sys.argv[1:]

exported = exported_by(objdump, library)
text_of_headers = "\n".join(Path(header).read_text() for header in headers)
declared = set(re.findall(r"^FUR_API\b[^;(]*?\b(fur_\w+)\(", text_of_headers, re.M))
for text, names in (
    ("declared and not exported: add to src/libfur.map", declared - set(exported)),
    ("exported and not declared", set(exported) - declared),
    ("exported without a version", {n for n, v in exported.items() if "LIBFUR_" not in v}),
):
    if names:
        sys.exit(f"{text}: {' '.join(sorted(names))}")
if "fur_commit" not in declared:
    sys.exit("fur_commit is not found in the header: this test reads it wrongly")
needed = subprocess.run(
    [objdump, "--private-headers", library], check=True, stdout=subprocess.PIPE, text=True
).stdout
if re.search(r"NEEDED +libstdc\+\+", needed):
    sys.exit("libfur.so needs libstdc++, which a program in C may not have: see src/map/map.cpp")
print(f"{len(declared)} functions")
