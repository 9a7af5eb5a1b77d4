# SPDX-License-Identifier: BSD-3-Clause
"""Man pages: text becomes requests of the macros `man`."""
import re

# A function or a struct, and not fur_options.field or fur_*.
NAME = r"\b(fur_[a-z_]+)(\(\)|(?!\w|\*|\.\w))"


def escaped(text: str) -> str:
    """Text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.split("\n"))


def filled(text: str, pages: dict[str, str], own: str = "") -> str:
    """A paragraph, each sentence on a line.  A name with a page of its own is bold, and followed by
    its section; so is a `quoted` word, without a section."""
    lines = []
    for sentence in re.split(r"(?<=[.:;?!)]) +(?=[A-Z`*]|libfur|fur_)", " ".join(text.split())):
        line = escaped(sentence)
        line = re.sub(r"\\\(ga(.+?)\\\(ga", r"\\fB\1\\fP", line)
        line = re.sub(NAME, lambda match: _name(match, pages, own), line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _name(match: re.Match[str], pages: dict[str, str], own: str) -> str:
    name, call = match.groups()
    if name == own or name not in pages:
        return f"\\fB{name}\\fP{call}"
    return f"\\fB{name}\\fP({pages[name]})"


def verbatim(text: str) -> str:
    return ".nf\n" + escaped(text.expandtabs(8)) + "\n.fi\n"


def title(name: str, section: str, version: str, what: str) -> str:
    """The first lines of a page.  It has no date: a build today and one tomorrow are equal."""
    return (
        f'.TH {escaped(name)} {section} "" "libfur {version}" "libfur"\n'
        f".SH NAME\n{escaped(name)} \\- {escaped(what)}\n"
    )


def see_also(names: list[str], pages: dict[str, str]) -> str:
    rows = [f".BR {escaped(name)} ({pages[name]})" for name in names]
    return ".SH SEE ALSO\n" + " ,\n".join(rows) + "\n"
