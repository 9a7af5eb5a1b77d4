#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kernels' images: without a compiler there are none, and a kernel has no variables of its own.

    images_test.py KERNEL_IMAGES.PY COMPILER|none INCLUDE_DIRECTORY
"""
import subprocess
import sys
import tempfile
from pathlib import Path

KERNEL = """#include "near/kernel.h"
struct k { uint32_t x; };
%s
NEAR_KERNEL(k, struct k)
{
    shared->x = table[near_me()] + 1;
    %s
}
"""


def images(compiler: str, variable: str, use: str = "") -> tuple[int, str, str]:
    """The status, what it says, and the file that it makes."""
    with tempfile.TemporaryDirectory() as scratch:
        source, output, depfile = (str(Path(scratch) / n) for n in ("k.c", "out.c", "out.d"))
        Path(source).write_text(KERNEL % (variable, use))
        done = subprocess.run(
            [sys.argv[1], "--compiler", compiler, "--include", sys.argv[3]]
            + [source, output, depfile],
            capture_output=True,
            text=True,
            check=False,
        )
        made = Path(output).read_text() if done.returncode == 0 else ""
        if done.returncode == 0:
            assert source in Path(depfile).read_text()
        return done.returncode, done.stderr, made


CONSTANT = "static const uint8_t table[24] = {1, 2, 3};"
VARIABLE = "static uint8_t table[24] = {1, 2, 3};"

status, _, made = images("none", CONSTANT)
assert status == 0 and "k_images = {NULL, NULL, 0};" in made, made

if sys.argv[2] != "none":
    status, said, made = images(sys.argv[2], CONSTANT)
    assert status == 0, said
    assert '{"rv32i", rv32i, ' in made and '{"rv32im", rv32im, ' in made
    assert "k_images = {NULL" not in made, "the compiler's version is missing"

    status, said, _ = images(sys.argv[2], VARIABLE, "table[near_me()]++;")
    assert status != 0 and "`table` has static storage: put it into the shared" in said, said

    status, said, _ = images(sys.argv[2], CONSTANT, "undefined_function();")
    assert status != 0 and "undefined_function" in said, said
