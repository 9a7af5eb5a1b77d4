#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make a header of the examples of a page that compile, each in the namespace that the comment
before it names: <!-- test: compiles, NAME -->.

    examples_header.py PAGE HEADER
"""
import sys

from markdown_blocks import blocks_of

PRELUDE = """#include <fur/root.hpp>
#include <iostream>
#include <pthread.h>
#include <string>
#include <vector>
"""


def text_of(page, block, name):
    """A block in a namespace; the compiler's messages have the page's lines."""
    lines = "\n".join(block.lines)
    return f'namespace {name}\n{{\n#line {block.line + 1} "{page}"\n{lines}\n}}\n'


def main(page, header):
    text = PRELUDE
    for block in blocks_of(page):
        if block.language == "cpp" and block.notes[:1] == ["compiles"]:
            text += text_of(page, block, block.notes[1])
    with open(header, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
