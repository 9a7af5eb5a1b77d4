# SPDX-License-Identifier: BSD-3-Clause
"""The fenced blocks of a page, each with its section and the comment before it."""
import dataclasses
import re


@dataclasses.dataclass
class Block:
    language: str
    lines: list[str]
    line: int  # of the first fence, from 1
    section: str  # the last heading before it
    notes: list[str]  # of a comment before it: <!-- test: NOTE, NOTE -->


def blocks_of(path):
    """All fenced blocks of the page."""
    blocks: list[Block] = []
    notes: list[str] = []
    section = ""
    fence: Block | None = None
    with open(path) as file:
        for number, line in enumerate(file.read().splitlines(), 1):
            if fence:
                if line == "```":
                    blocks.append(fence)
                    fence, notes = None, []
                else:
                    fence.lines.append(line)
            elif line.startswith("```"):
                fence = Block(line[3:], [], number, section, notes)
            elif comment := re.fullmatch(r"<!-- test: (.*) -->", line):
                notes = comment[1].split(", ")
            elif line:
                notes = []
                if line.startswith("#"):
                    section = line.lstrip("# ")
    if fence:
        raise ValueError(f"{path}:{fence.line}: the block does not end: add a line with ```")
    return blocks
