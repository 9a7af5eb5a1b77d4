#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""libfur-itm.so exports the functions of its version map, each with a version, and nothing else.
Among them are the functions that fur_itm.h declares, with the clones that transactions call, and
every function of the interface that GCC's own library has, if that is there.

    itm_exported_test.py OBJDUMP LIBRARY MAP HEADER CPU [LIBITM]
"""
import re
import sys
from pathlib import Path

from dynamic_symbols import exported_by

objdump, library, version_map, header, cpu, *libitm = sys.argv[1:]


def without_vectors(names):
    """Only code for x86-64 calls the functions for vectors."""
    return {name for name in names if cpu == "x86_64" or not re.search(r"_ITM_\w+M\d+$", name)}


exported = exported_by(objdump, library)
mapped = without_vectors(re.findall(r"^\t(\w+);", Path(version_map).read_text(), re.M))
declared = set(re.findall(r"^FUR_API\b[^;(]*?\b(fur_\w+)\(", Path(header).read_text(), re.M))
safe = set(
    re.findall(r"^FUR_API FUR_ITM_SAFE [^;(]*?\b(fur_\w+)\(", Path(header).read_text(), re.M)
)
clones = {f"_ZGTt{len(name)}{name}" for name in safe}
interface = {name for file in libitm for name in exported_by(objdump, file)}
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
