#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The compiler refuses the examples of a page that say so, and each other one has a name.

    examples_test.py PAGE INCLUDE_DIRECTORY COMPILER...

A comment before each block of C++ says which:

    <!-- test: compiles, NAME -->     examples_header.py makes a namespace NAME of it
    <!-- test: refused "TEXT" -->     the compiler's message contains TEXT
"""
import subprocess
import sys

from examples_header import PRELUDE, text_of
from markdown_blocks import blocks_of

page, include, *compiler = sys.argv[1:]
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-I", include]


def check_refused(block, wanted):
    """What is wrong with a block that should not compile, or nothing."""
    done = subprocess.run(
        [*compiler, *FLAGS, "-"],
        input=PRELUDE + text_of(page, block, "refused"),
        text=True,
        stderr=subprocess.PIPE,
        check=False,
    )
    if not done.returncode:
        return f"{page}:{block.line}: compiles; the page says that the compiler refuses it"
    if wanted not in done.stderr:
        return f"{page}:{block.line}: is not refused with '{wanted}':\n{done.stderr}"
    return ""


def check(block):
    """What is wrong with a block, or nothing."""
    if len(block.notes) == 2 and block.notes[0] == "compiles":
        return ""
    if len(block.notes) == 1 and block.notes[0].startswith('refused "'):
        return check_refused(block, block.notes[0].split('"')[1])
    return (
        f"{page}:{block.line}: say before it whether it compiles: "
        '<!-- test: compiles, NAME --> or <!-- test: refused "TEXT" -->'
    )


found = [block for block in blocks_of(page) if block.language == "cpp"]
failures = [problem for block in found if (problem := check(block))]
sections = {block.section for block in found}
print(f"{len(found)} examples in {len(sections)} sections")
if failures or len(sections) < 14:
    sys.exit("\n".join(failures) or f"{page}: some rules have no example")
