#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make the man pages of section 3 from the comments of the headers: one for each function, for
each struct of the interface, and for the codes of errors.  The first comments of the headers are
libfur(3), fur_map(3) and libfur-itm(3).

    manpages.py VERSION DIRECTORY HEADER...     write the pages there
    manpages.py --list HEADER...                print the names of their files
"""
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import roff

SECTION = "3"
# Pages of the headers' first comments, and how a program is built.
OVERVIEWS = {
    "fur.h": ("libfur", "cc program.c $(pkg-config --cflags --libs libfur)"),
    "fur_bulk.h": ("fur_bulk", "cc program.c $(pkg-config --cflags --libs libfur)"),
    "fur_group.h": ("fur_group", "cc program.c $(pkg-config --cflags --libs libfur)"),
    "fur_map.h": ("fur_map", "cc program.c $(pkg-config --cflags --libs libfur)"),
    "fur_itm.h": ("libfur-itm", "cc -fgnu-tm program.c $(pkg-config --cflags --libs libfur-itm)"),
}
# Declarations without a comment in the form of the functions' ones: what NAME says about them.
SHOWN = {
    "fur_error": "codes that the functions of libfur return",
    "fur_options": "options for fur_create() and fur_open()",
    "fur_info": "what is running, and why",
    "fur_stats": "statistics of a heap",
}
WIDTH = 97  # of the header's lines, without the star
FIELDS = "Visible, Durable|Visible|Durable|Crash|Nested|Waits|Price|Units|Source|Returns|Errors"


@dataclass
class Call:
    """A function, or something that looks like one."""

    header: str
    name: str
    also: list[str]  # functions of the same comment
    prototype: str
    what: str  # the first sentence
    paragraphs: list[str]
    fields: dict[str, str]


def begun(text: str) -> str:
    """As the beginning of a paragraph."""
    return text if text.startswith(("fur_", "libfur")) else text[0].upper() + text[1:]


def unframed(comment: str) -> list[str]:
    """The lines of a comment, without the stars."""
    return [re.sub(r"^ \* ?", "", line.rstrip()) for line in comment.split("\n")]


def paragraphs_of(lines: list[str]) -> list[str]:
    """A paragraph ends at an empty line, and where a line has room for the next one's word."""
    paragraphs = [""]
    before = ""
    for line in lines:
        word = line.split()[0] if line.split() else ""
        if not word or before.endswith(".") and len(before) + 1 + len(word) <= WIDTH:
            paragraphs.append("")
        paragraphs[-1] += line + "\n"
        before = line
    return [p.rstrip("\n") for p in paragraphs if p.strip()]


def read_comment(header: str, names: str, prototype: str, comment: str) -> Call:
    """Fields go on until an empty line or the next field."""
    name, *also = names.split(", ")
    fields: dict[str, str] = {}
    body: list[str] = []
    current = ""
    # Two fields may share a line.
    comment = re.sub(rf" {{2,}}({FIELDS}):", r"\n * \1:", comment)
    comment = re.sub(r'("[^"]+"), above', r"\1 in libfur(3)", comment)
    for line in unframed(comment):
        start = re.match(rf"({FIELDS}): *(.*)", line)
        if start:
            current = start.group(1)
            fields[current] = start.group(2)
        elif line and current:
            fields[current] += "\n" + line
        else:
            current = ""
            body.append(line)
    paragraphs = paragraphs_of(body)
    sentence = re.match(r".*?(?=\.?$|\.\s)", paragraphs[0], re.S)
    assert sentence, f"{name}: the comment does not begin with a sentence"
    return Call(
        header, name, also, prototype, " ".join(sentence.group().split()), paragraphs, fields
    )


def functions_of(header: str, text: str) -> list[Call]:
    found = re.finditer(
        r"^/\* (fur_\w+(?:, fur_\w+)*) - ((?:(?!\*/).)*?) ?\*/\n"
        r"((?:FUR_API|static inline) [^;{]*?\)(?:;\nFUR_API [^;{]*?\))*)(?:;|\n\{)",
        text,
        re.M | re.S,
    )
    calls = []
    for names, comment, declarations in (match.groups() for match in found):
        prototype = re.sub(
            r"^(FUR_API |static inline )(FUR_MUST_USE |FUR_ITM_SAFE )?", "", declarations, 0, re.M
        )
        prototype = re.sub(r"\n +", "\n        ", prototype) + ";"
        calls.append(read_comment(header, names, prototype, comment))
    return calls


def typed_accesses_of(header: str) -> list[Call]:
    """fur_load, fur_store, fur_read: macros in C and templates in C++, described in one comment."""
    block = re.search(r"^/\* -+ typed loads and stores\n \*\n(.*?) \*/", header, re.M | re.S)
    assert block, "fur.h has no comment about typed loads and stores"
    text = "\n".join(unframed(block.group(1)))
    calls = []
    for part in re.split(r"\n(?=fur_\w+ - )", "\n" + text.strip())[1:]:
        name, prototype, rest = re.match(
            r"(fur_\w+) - (.*?\)): (.*)", part, re.S
        ).groups()  # type: ignore
        rest = "\n".join(line.removeprefix("    ") for line in rest.split("\n"))
        calls.append(read_comment("fur.h", name, " ".join(prototype.split()) + ";", rest))
    return calls


def shown_of(header: str, name: str) -> str:
    found = re.search(rf"^(?:struct|enum) {name} \{{\n.*?^\}};", header, re.M | re.S)
    assert found, f"fur.h does not define {name}"
    return found.group()


def page_of_call(call: Call, version: str, pages: dict[str, str]) -> str:
    text = roff.title(call.name, SECTION, version, call.what)
    text += f".SH SYNOPSIS\n.nf\n#include <{call.header}>\n.fi\n.PP\n"
    text += roff.verbatim(call.prototype)
    text += ".SH DESCRIPTION\n"
    bodies = [roff.filled(begun(p), pages, call.name) for p in call.paragraphs]
    text += ".PP\n".join(bodies)
    for name, value in call.fields.items():
        if name not in ("Returns", "Errors"):
            text += f".TP\n.B {name}\n" + roff.filled(begun(value), pages, call.name)
    returns = call.fields.get("Returns", "")
    if not returns and call.prototype.startswith("int "):
        returns = "0, or a negative code: fur_strerror() names it, and fur_errormsg() describes it."
    if returns:
        text += ".SH RETURN VALUE\n" + roff.filled(begun(returns), pages, call.name)
    if "Errors" in call.fields:
        text += ".SH ERRORS\n" + roff.filled(begun(call.fields["Errors"]), pages, call.name)
    words = " ".join([*call.paragraphs, *call.fields.values()])
    others = sorted({n for n in re.findall(r"\bfur_\w+", words) if n in pages} - {call.name})
    return text + roff.see_also([overview_of(call.header), *others], pages)


def page_of_shown(name: str, code: str, version: str, pages: dict[str, str]) -> str:
    text = roff.title(name, SECTION, version, SHOWN[name])
    text += ".SH SYNOPSIS\n.nf\n#include <fur.h>\n.fi\n.SH DESCRIPTION\n" + roff.verbatim(code)
    others = sorted({n for n in re.findall(r"\bfur_\w+", code) if n in pages} - {name})
    return text + roff.see_also([overview_of("fur.h"), *others], pages)


def overview_block(block: str, pages: dict[str, str]) -> str:
    """Items, a table, which keeps its columns, or paragraphs."""
    if re.search(r"\S {3,}\S", block):
        return roff.verbatim(re.sub("^   ", "", block, flags=re.M))
    items = re.split(r"^ +- ", block, flags=re.M)
    if len(items) > 1:
        return "".join(".IP \\(bu 2\n" + roff.filled(item, pages) for item in items[1:])
    paragraphs = paragraphs_of(block.split("\n"))
    return ".PP\n".join(roff.filled(paragraph, pages) for paragraph in paragraphs)


def page_of_overview(
    header: str, comment: str, version: str, own: list[str], pages: dict[str, str]
) -> str:
    """`own`: the pages to which this one leads."""
    name = overview_of(header)
    found = re.search(rf"{re.escape(header)} - (.*?)\.\n(.*?) \*/", comment, re.S)
    assert found, f"{header} does not begin with a comment"
    text = roff.title(name, SECTION, version, " ".join(found.group(1).split()))
    text += f".SH SYNOPSIS\n.nf\n#include <{header}>\n.fi\n.PP\n"
    text += roff.verbatim(OVERVIEWS[header][1])
    text += ".SH DESCRIPTION\n" if header == "fur_map.h" else ""
    between = ""
    for block in re.split(r"\n{2,}", "\n".join(unframed(found.group(2))).strip("\n")):
        if re.fullmatch(r"[A-Z ,]+", block):
            text, between = text + f".SH {block}\n", ""
        elif block.startswith("    "):
            text += roff.verbatim(re.sub("^    ", "", block, flags=re.M))
        else:
            text, between = text + between + overview_block(block, pages), ".PP\n"
    return text + roff.see_also(sorted(set(own) - {name}), pages)


def overview_of(header: str) -> str:
    """The name of the page of a header's first comment; fur.h's for a header without a page."""
    return OVERVIEWS.get(header, OVERVIEWS["fur.h"])[0]


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    listing = sys.argv[1] == "--list"
    headers = {Path(h).name: Path(h).read_text() for h in sys.argv[2 if listing else 3 :]}
    headers["fur.h"] += headers.pop("info.h")  # it includes that
    calls = typed_accesses_of(headers["fur.h"])
    for name, text in headers.items():
        calls = functions_of(name, text) + calls
    names = [name for call in calls for name in [call.name, *call.also]]
    pages = {name: SECTION for name in [*map(overview_of, headers), *SHOWN, *names]}
    if listing:
        print("\n".join(f"{name}.{SECTION}" for name in pages))
        return 0
    version, folder = sys.argv[1], Path(sys.argv[2])
    texts = {call.name: page_of_call(call, version, pages) for call in calls}
    for call in calls:
        for name in call.also:
            texts[name] = f".so man{SECTION}/{call.name}.{SECTION}\n"
    for name in SHOWN:
        texts[name] = page_of_shown(name, shown_of(headers["fur.h"], name), version, pages)
    for header in OVERVIEWS.keys() & headers.keys():
        own = [call.name for call in calls if call.header == header]
        if header == "fur.h":
            own += [*SHOWN, *map(overview_of, headers)]
        texts[overview_of(header)] = page_of_overview(header, headers[header], version, own, pages)
    for name, text in texts.items():
        (folder / f"{name}.{SECTION}").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
