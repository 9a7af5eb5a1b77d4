#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libfur-itm.so exports the functions of its version map, each with a version, and nothing else.
Among them are the functions that fur_itm.h declares, with the clones that transactions call, and
every function of the interface that GCC's own library has, if that is there.

    itm_exported_test.py OBJDUMP LIBRARY MAP HEADER CPU [LIBITM]
"""
import re
import subprocess
import sys
from pathlib import Path

objdump, library, version_map, header, cpu, *libitm = sys.argv[1:]


def exported_by(file):
    """Name -> node of each symbol that the library defines for others."""
    dump = subprocess.run(
        [objdump, "--dynamic-syms", file], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    rows = [line.split("\t") for line in dump.splitlines() if "\t" in line]
    # A section may have a symbol, with the flag l (local).
    ours = [right for left, right in rows if not re.search(r"^\w+ l |\*UND\*|\*ABS\*", left)]
    fields = [right.split() for right in ours]
    return {field[-1]: field[-2] if len(field) > 2 else "" for field in fields}


def without_vectors(names):
    """Only code for x86-64 calls the functions for vectors."""
    return {name for name in names if cpu == "x86_64" or not re.search(r"_ITM_\w+M\d+$", name)}


exported = exported_by(library)
mapped = without_vectors(re.findall(r"^\t(\w+);", Path(version_map).read_text(), re.M))
declared = set(re.findall(r"^FUR_API\b[^;(]*?\b(fur_\w+)\(", Path(header).read_text(), re.M))
safe = set(
    re.findall(r"^FUR_API FUR_ITM_SAFE [^;(]*?\b(fur_\w+)\(", Path(header).read_text(), re.M)
)
clones = {f"_ZGTt{len(name)}{name}" for name in safe}
interface = {name for file in libitm for name in exported_by(file)}
for text, names in (
    ("in the map and not exported", mapped - set(exported)),
    ("exported and not in the map", set(exported) - mapped),
    ("declared in fur_itm.h and not in the map", declared - mapped),
    ("in the map and not declared in fur_itm.h", {n for n in mapped if n[:4] == "fur_"} - declared),
    ("clones of functions of fur_itm.h that are not in the map", clones - mapped),
    ("exported by GCC's library and not in the map", without_vectors(interface) - mapped),
    ("exported without a version", {n for n, v in exported.items() if "LIBFUR_ITM_" not in v}),
):
    if names:
        sys.exit(f"{text}: {' '.join(sorted(names))}")
if "fur_itm_use" not in declared or len(clones) < 5 or "_ITM_RU8" not in mapped:
    sys.exit("this test reads the header or the map wrongly")
print(f"{len(exported)} functions, {len(interface)} of GCC's library compared")
