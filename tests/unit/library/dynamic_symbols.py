# SPDX-License-Identifier: BSD-3-Clause
"""The dynamic symbols of a shared library, for the tests of exported functions."""
import re
import subprocess


def exported_by(objdump: str, library: str) -> dict[str, str]:
    """Symbols that the library defines for others: name -> version node, or ""."""
    dump = subprocess.run(
        [objdump, "--dynamic-syms", library], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    # 0000000000007a10 g    DF .text<tab>000000000000001c  LIBFUR_0.1  fur_abort
    # A function of ppc64le has its local entry before its name: LIBFUR_0.1  0x60 fur_abort
    # A node has a symbol of its own, in *ABS*; a section may have one, with the flag l (local).
    rows = [line.split("\t") for line in dump.splitlines() if "\t" in line]
    ours = [right for left, right in rows if not re.search(r"^\w+ l |\*UND\*|\*ABS\*", left)]
    fields = [re.sub(r" 0x[0-9a-f]+ ", " ", right).split() for right in ours]
    return {field[-1]: field[1] if len(field) > 2 else "" for field in fields}
