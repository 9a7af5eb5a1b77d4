#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The examples of docs/designing.md compile, or the compiler refuses them as the page says.

    examples_test.py PAGE INCLUDE_DIRECTORY COMPILER...

A comment before each block of C++ says which:

    <!-- test: compiles -->
    <!-- test: refused "TEXT" -->    the compiler's message contains TEXT
"""
import subprocess
import sys

from markdown_blocks import blocks_of

page, include, *compiler = sys.argv[1:]
PRELUDE = """#include <fur/root.hpp>
#include <iostream>
#include <pthread.h>
#include <string>
#include <vector>
"""
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-I", include]


def messages_of(blocks):
    """The compiler's messages about these blocks, each in a namespace; none if they compile."""
    text = PRELUDE
    for block in blocks:
        # So that messages have the page's lines.
        text += f'namespace line_{block.line}\n{{\n#line {block.line + 1} "{page}"\n'
        text += "\n".join(block.lines) + "\n}\n"
    done = subprocess.run(
        [*compiler, *FLAGS, "-"], input=text, text=True, stderr=subprocess.PIPE, check=False
    )
    return done.stderr if done.returncode else ""


def check_refused(block, wanted):
    """What is wrong with a block that should not compile, or nothing."""
    messages = messages_of([block])
    if not messages:
        return f"{page}:{block.line}: compiles; the page says that the compiler refuses it"
    if wanted not in messages:
        return f"{page}:{block.line}: is not refused with '{wanted}':\n{messages}"
    return ""


def check(blocks):
    """What is wrong with the blocks."""
    good, wrong = [], []
    for block in blocks:
        note = block.notes[0] if block.notes else ""
        if note == "compiles":
            good.append(block)
        elif note.startswith('refused "'):
            wrong.append(check_refused(block, note.split('"')[1]))
        else:
            wrong.append(
                f"{page}:{block.line}: say before it whether it compiles: <!-- test: compiles --> "
                'or <!-- test: refused "TEXT" -->'
            )
    # All at once, for the headers take longest.
    return [*filter(None, wrong), *filter(None, [messages_of(good)])]


found = [block for block in blocks_of(page) if block.language == "cpp"]
failures = check(found)
sections = {block.section for block in found}
print(f"{len(found)} examples in {len(sections)} sections")
if failures or len(sections) < 14:
    sys.exit("\n".join(failures) or f"{page}: some rules have no example")
