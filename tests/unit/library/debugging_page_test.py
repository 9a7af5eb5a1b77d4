#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the table of messages in docs/debugging.md with the headers and the library's sources.

    debugging_page_test.py ROOT

The table has a row for each FUR_E code of fur.h and fur_group.h, and no other code.  Each message
that it quotes is in the sources, "..." standing for what differs.  The page names each word of
FUR_DEBUG.
Exit status: 0 all of that holds, 1 something does not.
"""
import re
import sys
from pathlib import Path


def codes_of(header: str) -> set[str]:
    enum = re.search(r"enum fur_error \{(.*?)\n\};", header, re.S)
    assert enum, "fur.h has no enum fur_error"
    return set(re.findall(r"^\s*(FUR_\w+) = ", enum[1], re.M))


def codes_of_groups(header: str) -> set[str]:
    """FUR_EGROUP has its place beside the functions that return it."""
    codes = set(re.findall(r"^\s*(FUR_E\w+) = -", header, re.M))
    assert codes, "fur_group.h has no code"
    return codes


def texts_of(sources: list[Path]) -> str:
    """All string literals, adjacent ones joined, one a line."""
    literal = r'"(?:[^"\\\n]|\\.)*"'
    joined = rf"{literal}(?:\s*{literal})*"
    lines = []
    for source in sources:
        for match in re.finditer(joined, source.read_text()):
            lines.append("".join(part[1:-1] for part in re.findall(literal, match[0])))
    return "\n".join(lines)


def rows_of(page: str) -> list[list[str]]:
    table = page[page.index("\n## Messages") :]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def in_texts(message: str, texts: str) -> bool:
    parts = [re.escape(part) for part in message.split("...") if part]
    return re.search("[^\n]*".join(parts), texts) is not None


def main() -> int:
    root = Path(sys.argv[1])
    page = (root / "docs/debugging.md").read_text()
    codes = codes_of((root / "include/fur.h").read_text())
    codes |= codes_of_groups((root / "include/fur_group.h").read_text())
    texts = texts_of(sorted((root / "src").glob("*/*.c*")))
    rows = rows_of(page)
    wrong = []
    for row in rows:
        if len(row) != 4 or not all(row):
            wrong.append(f"a row of the table has not four cells: {row}")
            continue
        messages = re.findall("`([^`]+)`", row[1])
        if not messages:
            wrong.append(f"a row of {row[0]} quotes no message")
        wrong += [f"no message of libfur is {m!r}" for m in messages if not in_texts(m, texts)]
    told = {row[0].strip("`") for row in rows}
    wrong += [f"no row for {code}" for code in sorted(codes - told)]
    wrong += [f"the headers have no {code}" for code in sorted(told - codes)]
    aids = re.findall(r'\{"([a-z-]+)", FUR_DEBUG_\w+\}', (root / "src/api/options.c").read_text())
    wrong += [f"the words of FUR_DEBUG: no {aid!r}" for aid in aids if f"`{aid}`" not in page]
    if not aids:
        wrong.append("options.c has no words of FUR_DEBUG")
    for line in wrong:
        print(f"docs/debugging.md: {line}: bring the page up to date", file=sys.stderr)
    print(f"{len(codes)} codes, {len(rows)} rows, {len(wrong)} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
