#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make a tool's man page, and its completions for bash and zsh, from its --help and --version.

    help_pages.py PROGRAM SECTION DIRECTORY

writes DIRECTORY/NAME.SECTION, DIRECTORY/NAME (bash) and DIRECTORY/_NAME (zsh).
"""
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import roff

TOOLS = {
    "fur-check": "1",
    "fur-copy": "1",
    "fur-group": "1",
    "fur-info": "1",
    "fur-replayer": "8",
    "fur-resize": "1",
    "fur-ship": "8",
    "fur-standby": "8",
    "fur-stat": "1",
    "pm-emulate": "1",
}
PAGES = {**TOOLS, "libfur": "3"}


@dataclass
class Row:
    """An option or an argument."""

    names: list[str]  # of an option: -o, --once
    value: str  # of an option, or the argument's name
    text: str


@dataclass
class Help:
    name: str
    version: str
    usage: str
    about: str
    rows: list[Row]
    exit_status: str

    @property
    def options(self) -> list[Row]:
        return [row for row in self.rows if row.names]


def row_of(left: str, text: str) -> Row:
    names = re.findall(r"(?<![\w-])--?[\w?][\w-]*", left)
    if not names:
        return Row([], left, text)
    return Row(names, re.split(r"[ =]", left.split(", ")[-1] + " ", maxsplit=1)[1].strip(), text)


def rows_of(lines: list[str]) -> list[Row]:
    """A row is indented by a few columns, and its text goes on in lines that are indented more."""
    found: list[list[str]] = []
    for line in lines:
        start = re.match(r" {2,8}(\S.*?)(?: {2,}(.*))?$", line)
        if start:
            found.append([start.group(1), start.group(2) or ""])
        elif found and re.match(" {20}", line):
            found[-1][1] = f"{found[-1][1]} {line.strip()}".strip()
    return [row_of(left, text) for left, text in found]


def read_help(name: str, text: str, version: str) -> Help:
    first, _, rest = text.partition("\n")
    blocks = rest.split("\n\n")
    about = " ".join(blocks[0].split())
    rows = rows_of("\n".join(blocks[1:]).split("\n"))
    # The other paragraphs, without argp's on options in general.
    ends = [b for b in blocks[1:] if not b.startswith((" ", "Mandatory or optional"))]
    end = " ".join(" ".join(ends).split())
    more, _, status = end.partition("Exit status: ")
    return Help(name, version, first.removeprefix("Usage: "), f"{about} {more}", rows, status)


def summary_of(about: str) -> str:
    """The first sentence, up to a colon, for NAME."""
    words = re.split(r"[.:](?:\s|$)", about, maxsplit=1)[0]
    return words[0].lower() + words[1:]


def man_page(tool: Help) -> str:
    section = TOOLS[tool.name]
    text = roff.title(tool.name, section, tool.version, summary_of(tool.about))
    words = tool.usage.removeprefix(tool.name).strip()
    text += f".SH SYNOPSIS\n.B {roff.escaped(tool.name)}\n{roff.escaped(words)}\n"
    text += ".SH DESCRIPTION\n" + roff.filled(tool.about, {})
    for heading, rows in (
        ("ARGUMENTS", [row for row in tool.rows if not row.names]),
        ("OPTIONS", tool.options),
    ):
        text += f".SH {heading}\n" if rows else ""
        for row in rows:
            names = ", ".join(f"\\fB{roff.escaped(name)}\\fP" for name in row.names)
            value = f"\\fI{roff.escaped(row.value)}\\fP" if row.value else ""
            text += f".TP\n{' '.join(filter(None, (names, value)))}\n"
            text += roff.filled(row.text, {})
    if tool.exit_status:
        text += ".SH EXIT STATUS\n" + roff.filled(tool.exit_status, {})
    return text + roff.see_also([name for name in PAGES if name != tool.name], PAGES)


def bash_completion(tool: Help) -> str:
    """Options of the tool, but not after `--`; else files, which bash completes by itself."""
    words = " ".join(name for row in tool.options for name in row.names if name.startswith("--"))
    function = "_" + tool.name.replace("-", "_")
    return f"""# bash completion for {tool.name}
{function}()
{{
    COMPREPLY=()
    [[ ${{COMP_WORDS[COMP_CWORD]}} == -* ]] || return 0
    [[ " ${{COMP_WORDS[*]:1:COMP_CWORD-1}} " != *" -- "* ]] || return 0
    mapfile -t COMPREPLY < <(compgen -W '{words}' -- "${{COMP_WORDS[COMP_CWORD]}}")
}}
complete -o default -F {function} {tool.name}
"""


def zsh_quoted(text: str) -> str:
    text = re.sub(r"([\\\[\]:])", r"\\\1", text)
    return text.replace("'", "'\\''")


def zsh_completion(tool: Help) -> str:
    specs = []
    for row in tool.options:
        files = "" if row.value in ("N", "NUMBER", "BYTES") else "_files"
        value = f":{row.value}:{files}" if row.value else ""
        for name in row.names:
            equals = "=" if row.value and name.startswith("--") else ""
            specs.append(f"'*{name}{equals}[{zsh_quoted(row.text)}]{value}'")
    if "-- PROGRAM" in tool.usage:
        specs += ["'(-)1:program: _command_names -e'", "'*::argument: _normal'"]
    else:
        specs.append("'*:file:_files'")
    return f"#compdef {tool.name}\n_arguments -S \\\n    " + " \\\n    ".join(specs) + "\n"


def output_of(program: str, option: str) -> str:
    environment = {**os.environ, "LC_ALL": "C", "ARGP_HELP_FMT": ""}
    done = subprocess.run(
        [program, option], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    program, section, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    name = os.path.basename(program)
    version = output_of(program, "--version").split()[-1]
    tool = read_help(name, output_of(program, "--help"), version)
    assert section == TOOLS[name], f"{name}: help_pages.py and meson.build differ in its section"
    (folder / f"{name}.{section}").write_text(man_page(tool))
    (folder / name).write_text(bash_completion(tool))
    (folder / f"_{name}").write_text(zsh_completion(tool))
    return 0


if __name__ == "__main__":
    sys.exit(main())
