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

objdump, library, *headers = sys.argv[1:]

dump = subprocess.run(
    [objdump, "--dynamic-syms", library], check=True, stdout=subprocess.PIPE, text=True
).stdout
# 0000000000007a10 g    DF .text<tab>000000000000001c  LIBFUR_0.1  fur_abort
# A node has a symbol of its own, in *ABS*; a section may have one, with the flag l (local).
rows = [line.split("\t") for line in dump.splitlines() if "\t" in line]
fields = [right.split() for left, right in rows if not re.search(r"^\w+ l |\*UND\*|\*ABS\*", left)]
exported = {field[-1]: any(word.startswith("LIBFUR_") for word in field) for field in fields}
text_of_headers = "\n".join(Path(header).read_text() for header in headers)
declared = set(re.findall(r"^FUR_API\b[^;(]*?\b(fur_\w+)\(", text_of_headers, re.M))
for text, names in (
    ("declared and not exported: add to src/libfur.map", declared - set(exported)),
    ("exported and not declared", set(exported) - declared),
    ("exported without a version", {name for name, node in exported.items() if not node}),
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
