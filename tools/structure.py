#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure the tree, and fail if it breaks one of these rules.

length    A function has at most 60 lines, from the line with its name to its closing brace.
width     A line has at most 100 columns (a tab goes to the next multiple of 8) in C, C++, Python,
          shell, meson.build and Markdown.  Excepted: lines that hold one URL or link, tables, code
          blocks, and generated pages.
data      A text file in docs/figures has at most 2,000 lines: a journal has a run on each line.
words     Comments, docstrings, pages and (outside tests and examples) messages of the same files
          do without `nobody`, `whoever`, `had better`, `more or less`, `some ten` for about ten,
          `so many` and `so much` without a `that`, `as large as it may`, and a `, too` that ends a
          sentence.  Excepted: identifiers, code, and what stands between backticks.
circles   Files do not include each other in a circle, nor do the folders of src.
layers    A file of src includes headers of its own folder, or of a lower layer:
              base < pm < media < file < durability < tx, replay < htm < stm < update < alloc <
              bulk < api < map, replayer, ship, itm, group < fur_ship, fur_standby
          Neither of two that stand side by side includes the other.  They include nothing
          from elsewhere, except the emulated machine, under FUR_EMULATED, in base/arch.h and
          htm/*_insn.h.  A header in src itself is for programs that look inside the library: it may
          include any layer, and no layer includes it.  Only the lab and tests include files of
          the folder lab.
calls     An object of the library does not refer to a symbol that a higher layer defines.  A lower
          layer calls a higher one by function pointers only: `replay` of
          struct durability_ops (a thread that needs room in the ring or its log replays) and
          those in `after_update` of struct engine (the API hands DRAM back, reports events ...).
          Files of one folder do not call each other in a circle.
pages     A page that tells the layers, as `base < ...` or as a list of the folders of src from the
          highest to the lowest, tells them as they are here.
system    In src only base/system.c opens files, writes or reads them, syncs them, or changes their
          length and blocks: no descriptor of libfur is below 3, and no signal fails a call.

    structure.py [--root DIRECTORY] [--build DIRECTORY]

Without --build the rule `calls` is left out.  Exit status: 0 all rules hold, 1 one is broken.
"""
import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import tree

LONGEST = 60
WIDEST = 100
MOST_DATA = 2000

# Layers, lowest first; folders on one line stand side by side.
LAYERS = [
    ["base"],
    ["pm"],
    ["media"],
    ["file"],
    ["durability"],
    ["tx", "replay"],
    ["htm"],
    ["stm"],
    ["update"],
    ["alloc"],
    ["bulk"],
    ["api"],
    ["map", "replayer", "ship", "itm", "group"],
    ["fur_ship", "fur_standby"],
]
LEVEL = {folder: level for level, layer in enumerate(LAYERS) for folder in layer}

# The files that may include the emulated machine.
MAY_EMULATE = ["src/base/arch.h", "src/htm/*_insn.h"]

# Pages and tables that a program makes.
GENERATED = ["docs/figures/*", "docs/invariants.md", "docs/architecture.md"]

# Places where a rule does not hold yet: (rule, pattern of the file).  To be emptied; an exception
# that excuses nothing counts as a broken rule.
EXCEPTIONS: list[tuple[str, str]] = []


@dataclass(frozen=True)
class Offence:
    rule: str
    file: str
    text: str


# ---------------------------------------------------------------------------- length


def measure_lengths(kind: str, functions: list[tree.Function]) -> Iterator[Offence]:
    lengths = sorted(f.lines for f in functions)
    if not lengths:
        return
    median, p90 = lengths[len(lengths) // 2], lengths[len(lengths) * 9 // 10]
    print(
        f"{kind:8} {len(lengths):6} functions: median {median}, p90 {p90}, max {lengths[-1]} lines"
    )
    for f in sorted(functions, key=lambda f: -f.lines):
        if f.lines > LONGEST:
            yield Offence("length", f.file, f"{f.first}: {f.name}: {f.lines} lines")


# ---------------------------------------------------------------------------- width

LINK_ONLY = re.compile(r"\W*(\[[^\]]*\](: |\())?<?https?://\S+$|\W*\[[^\]]*\]\([^)]*\)\W*$")


def prose_of(text: str, tables: bool = False) -> Iterator[tuple[int, str]]:
    """The lines of a Markdown page that are no code, and no table unless `tables` asks for them."""
    fenced = indented = blank = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        indented = bool(re.match(r"    |\t", line)) and (indented or blank) or indented and not line
        blank = not line
        if not fenced and not indented and (tables or not line.lstrip().startswith("|")):
            yield number, line


def check_width(root: Path, file: str, kind: str) -> Iterator[Offence]:
    if any(fnmatch.fnmatch(file, pattern) for pattern in GENERATED):
        return
    text = (root / file).read_text(errors="replace")
    lines = prose_of(text) if kind == "markdown" else enumerate(text.splitlines(), 1)
    for number, line in lines:
        columns = len(line.expandtabs(8))
        if columns > WIDEST and not LINK_ONLY.match(line):
            yield Offence("width", file, f"{number}: {columns} columns")


# ---------------------------------------------------------------------------- data


def check_data(root: Path, files: list[str]) -> Iterator[Offence]:
    """Pictures are no text: they have zero bytes."""
    texts = {file: text for file in files if b"\0" not in (text := (root / file).read_bytes())}
    print(f"data     {len(texts):6} text files in docs/figures")
    for file, text in texts.items():
        lines = len(text.splitlines())
        if lines > MOST_DATA:
            advice = "write a run on each line (journal_line() of lab/figures/results.py)"
            yield Offence("data", file, f"has {lines} lines, more than {MOST_DATA}: {advice}")


# ---------------------------------------------------------------------------- words

# What a native speaker would not write in a manual.  END is the end of a comment, text or cell.
END = "\0"
WORDS = re.compile(
    r"\b(?:nobody|whoever|had\s+better|more\s+or\s+less|as\s+\w+\s+as\s+it\s+may"
    r"|some\s+(?:\d|(?:ten|dozen|hundred|thousand|million)s?\b)"
    r"|so\s+(?:many|much)\b(?![^.;:\0]*\bthat\b))"
    r"|,\s+too(?=\s*[.;:?!)|\0])",
    re.IGNORECASE,
)
C_PROSE = re.compile(
    r"""(?:/\*.*?\*/|(//)[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])')(?=\s*(//|")?)""", re.DOTALL
)
HASH_PROSE = re.compile(r"(?:^|(?<=\s))#[^\n]*", re.MULTILINE)
FSTRING = getattr(tokenize, "FSTRING_MIDDLE", -1)


def is_message(file: str, text: str) -> bool:
    return " " in text and not re.match(r"(.*/)?(tests|examples)/", file)


def c_prose(file: str, text: str) -> Iterator[tuple[int, str]]:
    for match in C_PROSE.finditer(text):
        if match[0].startswith("/") or match[0].startswith('"') and is_message(file, match[0]):
            # A comment's frame is no prose.
            prose = re.sub(r"(?m)^[ \t]*(?:/?\*+/?|//)|\*/$", " ", match[0].strip('"'))
            goes_on = match[2] and match[2] == (match[1] or match[0][0])
            yield text.count("\n", 0, match.start()) + 1, prose + ("" if goes_on else END)


def python_prose(file: str, path: Path) -> Iterator[tuple[int, str]]:
    with open(path, "rb") as opened:
        for token in tokenize.tokenize(opened.readline):
            text = token.string.strip("\"'")
            if token.type == tokenize.COMMENT:
                yield token.start[0], text.lstrip("# ")
            elif token.type in (tokenize.STRING, FSTRING):
                if '"""' in token.string[:4] or is_message(file, text):
                    yield token.start[0], text


def joined(pieces: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The pieces, those of neighbouring lines in one: a sentence may go on in the next line."""
    first, so_far, last = 0, "", -1
    for number, text in pieces:
        if so_far and number <= last + 1:
            so_far += ("\n" if number > last else " ") + text
        else:
            if so_far:
                yield first, so_far
            first, so_far = number, text
        last = number + text.count("\n")
    if so_far:
        yield first, so_far


def check_words(root: Path, file: str, kind: str) -> Iterator[Offence]:
    text = (root / file).read_text(errors="replace")
    if kind == "markdown":
        pieces = prose_of(text, tables=True)
    elif kind == "c":
        pieces = c_prose(file, text)
    elif kind == "python":
        pieces = python_prose(file, root / file)
    else:
        hashes = HASH_PROSE.finditer(text)
        pieces = ((text.count("\n", 0, m.start()) + 1, m[0].lstrip("# ")) for m in hashes)
    for first, prose in joined(pieces):
        plain = re.sub(r"`[^`\n]*`", "`", prose) + END
        for match in WORDS.finditer(plain):
            if not match[0].isupper():
                number = first + plain.count("\n", 0, match.start())
                word = " ".join(match[0].split())
                yield Offence("words", file, f"{number}: '{word}': write it another way")


# ---------------------------------------------------------------------------- includes


@dataclass(frozen=True)
class Include:
    file: str
    line: int
    name: str  # as written
    target: str  # below the root; empty if it is not ours
    emulated: bool  # the line before is #if defined(FUR_EMULATED)


def find_target(file: str, name: str, quoted: bool, known: set[str]) -> str:
    """The file that is meant: next to the includer, below src, or the only one with such an end.
    <name> is the system's, or one of the public headers."""
    if not quoted:
        return "include/" + name if "include/" + name in known else ""
    near = os.path.normpath(os.path.join(os.path.dirname(file), name))
    for candidate in (near, "src/" + name, "lab/" + name):
        if candidate in known:
            return candidate
    ends = [k for k in known if k.endswith("/" + name)]
    return ends[0] if len(ends) == 1 else ""


def includes_of(root: Path, files: list[str]) -> Iterator[Include]:
    known = set(files)
    for file in files:
        before = ""
        for number, line in enumerate((root / file).read_text(errors="replace").splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match:
                quote, name = match.groups()
                target = find_target(file, name, quote == '"', known)
                emulated = bool(re.match(r"#\s*if(def)?\b.*\bFUR_EMULATED\b", before))
                yield Include(file, number, name, target, emulated)
            before = line or before


def circles_of(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan), and nodes that reach themselves."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in number:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == number[node]:
            group = stack[stack.index(node) :]
            del stack[-len(group) :]
            if len(group) > 1 or node in edges.get(node, ()):
                found.append(sorted(group))

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found


def folder_of(file: str) -> str:
    """The folder of src in which it lies, or nothing."""
    parts = file.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else ""


def check_circles(includes: list[Include]) -> Iterator[Offence]:
    files: dict[str, set[str]] = {}
    folders: dict[str, set[str]] = {}
    for i in includes:
        if not i.target or i.emulated:
            continue
        files.setdefault(i.file, set()).add(i.target)
        a, b = folder_of(i.file), folder_of(i.target)
        if a and b and a != b:
            folders.setdefault(a, set()).add(b)
    for edges in files, folders:
        for circle in circles_of(edges):
            yield Offence("circles", circle[0], "includes in a circle: " + " ".join(circle))


def may_use(lower: str, higher: str) -> bool:
    """May folder `lower` use folder `higher`?"""
    return lower == higher or LEVEL[higher] < LEVEL[lower]


def layer_fault(i: Include) -> str:
    """The rule that an include breaks, or nothing."""
    if i.target.startswith("lab/") and not i.file.startswith(("lab/", "tests/")):
        return f"includes {i.target}: only the lab and tests may use the lab"
    folder, other = folder_of(i.file), folder_of(i.target)
    if not folder:
        return ""
    if folder not in LEVEL:
        return f"folder {folder} is in no layer: add it to LAYERS of structure.py"
    if i.target.startswith("emulator/"):
        if not any(fnmatch.fnmatch(i.file, pattern) for pattern in MAY_EMULATE):
            return f"includes {i.target}; only {' and '.join(MAY_EMULATE)} may"
        return "" if i.emulated else f"includes {i.target} without FUR_EMULATED"
    if other:
        allowed = other in LEVEL and may_use(folder, other)
        return "" if allowed else f"includes {i.target}: {folder} may not use {other}"
    if i.target and not i.target.startswith("include/"):
        return f"includes {i.target}, which is no part of the library"
    return ""


def check_layers(includes: list[Include]) -> Iterator[Offence]:
    for i in includes:
        if i.file.startswith("src/"):
            fault = layer_fault(i)
            if fault:
                yield Offence("layers", i.file, f"{i.line}: {fault}")


# ---------------------------------------------------------------------------- system

# The files with the calls, and the calls.
# libfur-itm has no part in libfur.  It reads /proc; a descriptor that is only read may have any
# number.
SYSTEM = ["src/base/system.c", "src/base/standard_files.h", "src/itm/stack.c"]
SYSTEM_CALL = re.compile(
    r"(?<![\w.>])(open(at)?(64)?|creat|f(d|re)?open|opendir|mkn?o?s?temp|memfd_create|pipe2?|"
    r"socket(pair)?|accept4?|eventfd|signalfd|timerfd_create|pidfd_open|epoll_create1?|"
    r"inotify_init1?|dup[23]?|p?(read|write)(v2?)?|(pread|pwrite)(64)?|fsync|fdatasync|syncfs|"
    r"msync|f?truncate|(posix_)?fallocate)\s*\("
)
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def check_system(root: Path, c_files: list[str]) -> Iterator[Offence]:
    for file in c_files:
        if not file.startswith("src/") or file in SYSTEM:
            continue
        text = (root / file).read_text(errors="replace")
        code = COMMENT_OR_TEXT.sub(lambda m: "\n" * m.group().count("\n"), text)
        for number, line in enumerate(code.splitlines(), 1):
            if match := SYSTEM_CALL.search(line):
                yield Offence(
                    "system", file, f"{number}: calls {match[1]}(): call it by base/system.h"
                )


# ---------------------------------------------------------------------------- calls


def check_pages(root: Path, pages: list[str]) -> Iterator[Offence]:
    layers = " < ".join(", ".join(layer) for layer in LAYERS)
    for page in pages:
        text = (root / page).read_text()
        for told in re.findall(r"`(base < [^`]*)`", " ".join(text.split())):
            if told != layers:
                yield Offence("pages", page, f"the layers are {layers}, not {told}")
        if not re.search(r"^    src/ ", text, re.M):
            continue
        listed = re.findall(r"^ +(?:src/)?(\w+)/ ", text, re.M)
        for folder in LEVEL:
            if folder not in listed:
                yield Offence("pages", page, f"the list of src's folders has no {folder}")
        inside = [f for f in re.findall(r"^      (\w+)/ ", text, re.M) if f in LEVEL]
        for higher, lower in zip(inside, inside[1:]):
            if LEVEL[higher] < LEVEL[lower]:
                yield Offence("pages", page, f"lists {higher} above {lower}, a higher layer")


def symbols_of(archive: Path) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """symbol -> object that defines it; (object, symbol) for each reference."""
    lines = subprocess.run(
        ["nm", "-A", "-g", "-P", archive], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    defined: dict[str, str] = {}
    needed = []
    for line in lines:
        match = re.match(r".*\[(.+)\]: (\S+) (\S)", line)
        if not match:
            sys.exit(f"{archive}: nm says '{line}', which structure.py does not understand")
        file, symbol, letter = match.groups()
        if letter in "Uw":
            needed.append((file, symbol))
        else:
            defined[symbol] = file
    return defined, needed


def check_calls(archive: Path, sources: list[str]) -> Iterator[Offence]:
    # Meson's names: base/error.c becomes base_error.c.o.
    source_of = {s[len("src/") :].replace("/", "_") + ".o": s for s in sources}
    defined, needed = symbols_of(archive)
    objects = {os.path.basename(o) for o in [*defined.values(), *(o for o, _ in needed)]}
    for unknown in sorted(objects - set(source_of)):
        yield Offence("calls", unknown, f"an object of {archive.name} that belongs to no source")
    references = 0
    within: dict[str, set[str]] = {}  # files of one folder
    for file, symbol in needed:
        user, owner = (source_of.get(os.path.basename(o)) for o in (file, defined.get(symbol, "")))
        if not user or not owner:
            continue
        references += 1
        if not may_use(folder_of(user), folder_of(owner)):
            yield Offence("calls", user, f"refers to {symbol}, which {owner} defines")
        if user != owner and folder_of(user) == folder_of(owner):
            within.setdefault(user, set()).add(owner)
    for circle in circles_of(within):
        yield Offence("calls", circle[0], "calls in a circle: " + " ".join(circle))
    print(f"calls    {references:6} references between the library's objects")


# ---------------------------------------------------------------------------- all


def measure(root: Path, archive: Path | None) -> list[Offence]:
    files = tree.project_files(root)
    kinds = {file: tree.kind_of(root, file) for file in files}
    c, python = ([f for f in files if kinds[f] == k] for k in ("c", "python"))
    offences = list(measure_lengths("C, C++", tree.c_functions(root, c)))
    offences += measure_lengths("Python", tree.python_functions(root, python))
    for file in files:
        if kinds[file]:
            offences += check_width(root, file, kinds[file])
            offences += check_words(root, file, kinds[file])
    print(f"width    {sum(map(bool, kinds.values())):6} files")
    offences += check_data(root, [f for f in files if f.startswith("docs/figures/")])
    includes = list(includes_of(root, c))
    print(f"includes {sum(bool(i.target) for i in includes):6} between the tree's files")
    offences += check_circles(includes)
    offences += check_layers(includes)
    offences += check_pages(root, [f for f in files if f.endswith(".md")])
    offences += check_system(root, c)
    if archive:
        offences += check_calls(archive, [f for f in c if f.startswith("src/")])
    return offences


def report(title: str, offences: list[Offence]) -> None:
    if offences:
        print(f"\n{title}:")
    for o in offences:
        print(
            f"{o.rule:8} {o.file}:{o.text}"
            if o.text[0].isdigit()
            else f"{o.rule:8} {o.file}: {o.text}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=tree.ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=Path, help="a build directory, for the rule `calls`")
    args = parser.parse_args()
    archive = args.build / "src" / "libfur_internal.a" if args.build else None
    if archive and not archive.exists():
        parser.error(f"{archive} is missing: run ninja -C {args.build}")
    exceptions = EXCEPTIONS if args.root == tree.ROOT else []
    excused: dict[tuple[str, str], list[Offence]] = {e: [] for e in exceptions}
    broken = []
    for offence in measure(args.root, archive):
        for rule, pattern in excused:
            if offence.rule == rule and fnmatch.fnmatch(offence.file, pattern):
                excused[rule, pattern].append(offence)
                break
        else:
            broken.append(offence)
    for (rule, pattern), offences in excused.items():
        report(f"excused for now ({rule} in {pattern})", offences)
        if not offences:
            broken.append(Offence(rule, pattern, "an exception no longer needed: remove it"))
    report("broken", broken)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
