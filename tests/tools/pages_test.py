#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Man pages and completions say what the headers and --help say.

    pages_test.py PAGES HEADERS MANDOC [TOOL...]

HEADERS: paths, with commas between them.  MANDOC may be empty: then its part is left out.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

folder, headers, mandoc, *tools = sys.argv[1:]
pages = Path(folder)


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def text_of(page):
    """A page as its reader sees it, in one line."""
    assert page.exists(), f"there is no page {page.name}"
    text = re.sub(r"\\f[BIP]", "", page.read_text())
    text = re.sub(r"\\&", "", text).replace("\\-", "-").replace("\\e", "\\").replace("\\(aq", "'")
    return " ".join(text.split())


def lint():
    for page in sorted(pages.glob("*.[138]")):
        if page.read_text().startswith(".so "):
            continue  # another page's name
        done = subprocess.run(
            [mandoc, "-T", "lint", "-W", "warning", page], stdout=subprocess.PIPE, text=True
        )
        # The pages have no date on purpose.
        faults = [line for line in done.stdout.splitlines() if "missing date" not in line]
        assert not faults, "\n".join(faults)


def calls():
    """Each function has a page, with its prototype and every word of its comment."""
    text = "\n".join(Path(header).read_text() for header in headers.split(","))
    declared = set(re.findall(r"^FUR_API\b[^;(]*?\b(fur_\w+)\(", text, re.M))
    comments = re.findall(
        r"^/\* (fur_\w+(?:, fur_\w+)*) - ((?:(?!\*/).)*)\*/\n((?:FUR_API [^;]*;\n)+)",
        text,
        re.M | re.S,
    )
    commented = [name for names, _, _ in comments for name in names.split(", ")]
    assert declared == set(commented), f"no comment: {declared ^ set(commented)}"
    for names, comment, prototypes in comments:
        name, *also = names.split(", ")
        page = text_of(pages / f"{name}.3")
        for prototype in re.findall(
            r"^FUR_API (?:FUR_MUST_USE |FUR_ITM_SAFE )?([^;]*;)", prototypes, re.M
        ):
            assert " ".join(prototype.split()) in page, f"{name}.3 has not the prototype"
        for other in also:
            assert (pages / f"{other}.3").read_text() == f".so man3/{name}.3\n", other
        words = set(re.findall(r"\w+", comment.lower())) - {"above", "returns"}
        missing = words - set(re.findall(r"\w+", page.lower()))
        assert not missing, f"{name}.3 does not have {missing}"
    for name in (
        "libfur",
        "fur_load",
        "fur_store",
        "fur_read",
        "fur_root",
        "fur_options",
        "fur_stats",
    ):
        assert (pages / f"{name}.3").exists(), name
    return len(commented)


def complete(tool, *words):
    """What bash offers for the last word."""
    script = (
        'source "$1"; COMP_WORDS=("${@:3}"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
        '"$2"; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    function = "_" + tool.replace("-", "_")
    return output_of(
        "bash", "-c", script, "bash", str(pages / tool), function, tool, *words
    ).split()


def described(program):
    """Every option of --help is on the page and in the completions, and no other is."""
    tool = os.path.basename(program)
    rows = re.findall(r"^ {2,6}(?:-\S, {1,2})?(--[\w-]+)", output_of(program, "--help"), re.M)
    assert "--version" in rows, f"{tool}: this test does not read its help"
    (page,) = (p for p in (pages / f"{tool}.{n}" for n in "18") if p.exists())
    text = page.read_text().replace("\\-", "-")
    on_page = set(re.findall(r"^\.TP\n.*\\fB(--[\w-]+)", text, re.M))
    zsh = set(re.findall(r"^ +'\*(--[\w-]+)", (pages / f"_{tool}").read_text(), re.M))
    bash = set(complete(tool, "--"))
    assert set(rows) == on_page == zsh == bash, (tool, rows, on_page, zsh, bash)
    assert complete(tool, "--vers") == ["--version"]
    assert complete(tool, "--", "--vers") == [], f"{tool}: options end at --"
    assert complete(tool, "") == [], f"{tool}: files are not left to bash"


if mandoc:
    lint()
print(f"{calls()} functions")
for path in tools:
    described(path)
    print(os.path.basename(path))
