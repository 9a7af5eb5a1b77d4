#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make docs/architecture.md from the sources, and fail if what they say of themselves is not so.

    architecture.py                      write the page
    architecture.py --check              fail if the page is not what the sources say
    architecture.py --build DIRECTORY    also look up calls between files in the built library

Three kinds of comments make the page.

Contract  In the comment at the head of a file of src/FOLDER, a sentence with `contract of
          src/FOLDER`.  The headers that it names, and the file if that is a header, are the
          contract.  What the folder is for is what follows the sentence's colon, or else the first
          sentence of the comment.
Owner     At the end of the comment of a struct or of a member: `Owner: FILE.`, or `Owners: FILES.`
          Only these files of src store to the words.  A member without an owner has its struct's.
Way       In the comment at the head of a file, a line `Way NUMBER, SOMETHING:` and below it the
          functions that it passes.  A function calls those that are indented more than it:

             *     commit()     ends the update
             *       publish()  makes it visible

An error is
  - a folder of src without a contract, or in no layer of structure.py; a contract that is no file;
  - an owner that is no file, or does not name the word; another file that stores to it by arch_*(),
    if no other struct has a word of that name;
  - a step that is no function; that the step above it does not call, directly or by way of two
    other functions at most (the first step, and functions of the interface, need no caller); or
    that comes before a step which their caller calls first;
  - a number that two ways have, or none;
  - a function with a tag of Algorithm 1 (`A1:`) that is on no way.

Exit status: 0 all well, 1 not.
"""
import argparse
import functools
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import structure
import tree

PAGE = "docs/architecture.md"
SOURCES = (*tree.C_SUFFIXES, ".S")
HOPS = 3  # the calls from a step to the next, at most

HEAD = """# Architecture

libfur on one page: the layers, who owns which shared word, and the ways through the code.
`tools/architecture.py` makes this page from the comments of the sources, and its `--help` describes
these comments. `tools/architecture.py --check`, a step of `./check`, fails if the page is out of
date, if a folder or an owner is missing, or if a way names a function that the step before it does
not lead to. Run `tools/architecture.py` after you have changed such a comment.
"""
LAYERS = """
## Layers

The lowest comes first. A file includes headers of its own folder and of lower layers only, and
calls higher ones by function pointers only (`tools/structure.py`). Folders with the same number
stand side by side, and do not use each other. The lines are true to a tenth.

| layer | folder of src | what it is for | lines | contract |
| --- | --- | --- | --- | --- |
"""
OWNERS = """
## Who owns which shared word

Only the owner stores to a word while transactions run; other files call the owner's functions, or
only load it. Files are below `src`.

| struct | words: owner |
| --- | --- |
"""
WAYS = """
## The ways

A function calls those that are indented more than it, in this order, directly or through helpers
that the list leaves out. Some are alternatives: the machine or the kind of update decides. The
numbers `A1` are lines of the paper's Algorithm 1, from the tags in the code.

"""
END = """
## Where to begin

- [protocol.md](protocol.md) explains why each wait and each fence is necessary.
- [glossary.md](glossary.md) has the terms, and where they are in the code.
- [CONTRIBUTING.md](../CONTRIBUTING.md) tells how to build, check and extend libfur.
"""

CONTRACT = re.compile(r"contract of src/(\w+)(?:: (.*))?")
OWNER = re.compile(r"\bOwners?: (\S+(?:, \S+)*)\.(?=\s|$)")
WAY = re.compile(r"Way (\d+), ([^:]+):$")
STEP = re.compile(r"( {4,})(\w+)\(\)  +(\S.*)")
TAG = re.compile(r"\bA1:(\d+)(?: to A1:(\d+))?")
TABLE = re.compile(r"\bstruct (\w+) \w+ = \{([^{}]*)\};")


def flat(comment: str) -> str:
    """The comment's words, without its frame."""
    return " ".join(re.sub(r"(?m)^[ \t]*/?\*+/?|\*/$", " ", comment).split())


def expand(name: str) -> list[str]:
    """`a.{h,c}` is a.h and a.c."""
    match = re.fullmatch(r"(.*)\{(.*)\}(.*)", name)
    return [match[1] + k + match[3] for k in match[2].split(",")] if match else [name]


@dataclass
class Body:
    """A function, without comments."""

    function: tree.Function
    code: list[str]  # its lines
    tags: list[tuple[int, str]]  # its line with a tag of Algorithm 1, and the paper's line
    hidden: bool  # from other files
    calls: dict[str, int] = field(default_factory=dict)  # key of the function -> first line

    @property
    def key(self) -> str:
        return f"{self.function.file}:{self.function.name}"

    def last_call(self, name: str) -> int:
        found = [n for n, line in enumerate(self.code) if re.search(rf"\b{name}\b", line)]
        return found[-1] if found else -1


@dataclass
class Step:
    name: str
    text: str
    indentation: int
    caller: "Step | None"
    body: Body | None = None
    lines: list[str] = field(default_factory=list)  # of Algorithm 1

    @property
    def depth(self) -> int:
        return self.caller.depth + 1 if self.caller else 0


@dataclass
class Way:
    file: str
    number: int
    name: str
    steps: list[Step] = field(default_factory=list)


@dataclass
class Owned:
    struct: str
    file: str
    owners: tuple[str, ...]  # as written
    words: list[str]
    whole: bool  # the owner is that of the struct


class Sources:
    def __init__(self, root: Path, archive: Path | None) -> None:
        self.errors: list[str] = []
        page = root / PAGE
        self.old_page = page.read_text() if page.exists() else ""
        files = [f for f in tree.project_files(root) if f.endswith(SOURCES)]
        self.text = {f: (root / f).read_text() for f in files if f.startswith(("src/", "include/"))}
        self.sources = [f for f in self.text if f.startswith("src/")]
        self.code = {
            f: structure.COMMENT_OR_TEXT.sub(lambda m: "\n" * m.group().count("\n"), text)
            for f, text in self.text.items()
        }
        self.interface = set(
            re.findall(r"\b(\w+)\(", "".join(t for f, t in self.code.items() if f[:4] == "incl"))
        )
        self.bodies = self.find_bodies(root)
        self.find_calls(structure.symbols_of(archive) if archive else None)

    # ------------------------------------------------------------------------ calls

    def find_bodies(self, root: Path) -> dict[str, Body]:
        c = [f for f in self.sources if f.endswith(tree.C_SUFFIXES)]
        found = {}
        for function in tree.c_functions(root, c):
            span = slice(function.first - 1, function.last)
            raw = self.text[function.file].splitlines()[span]
            above = self.text[function.file].splitlines()[function.first - 2]
            heading = raw[0] if above.endswith((";", "}", "/")) else above + "\n" + raw[0]
            tags = []
            for number, line in enumerate(raw):
                for match in TAG.finditer(line):
                    tags.append((number, "-".join(k for k in match.groups() if k)))
            static = re.search(r"^static\b", heading, re.MULTILINE)
            hidden = function.file.endswith(".c") and bool(static)
            code = self.code[function.file].splitlines()[span]
            body = Body(function, code, tags, hidden)
            found[body.key] = body
        return found

    def tables(self) -> dict[str, set[str]]:
        """What a call by `ops->NAME` may call: functions in a table of pointers to functions."""
        members = {
            match[1]: re.findall(r"\(\*(\w+)\)\(", match[2])
            for text in self.code.values()
            for match in re.finditer(r"\bstruct (\w+) \{([^{}]*)\};", text)
        }
        found: dict[str, set[str]] = defaultdict(set)
        for file, text in self.code.items():
            for match in TABLE.finditer(text):
                values = [v.strip() for v in match[2].split(",") if v.strip()]
                for member, value in zip(members.get(match[1], []), values):
                    named = re.fullmatch(r"\.(\w+) = (\w+)", value)
                    member, value = (named[1], named[2]) if named else (member, value)
                    found[member].add(f"{file}:{value}")
        return found

    def find_calls(self, symbols: tuple[dict[str, str], list[tuple[str, str]]] | None) -> None:
        by_name: dict[str, list[Body]] = defaultdict(list)
        for body in self.bodies.values():
            by_name[body.function.name].append(body)
        tables = self.tables()
        references, users = set(), set()
        if symbols:
            for user, symbol in symbols[1]:
                references.add((os.path.basename(user), symbol))
                users.add(os.path.basename(user))
            users |= {os.path.basename(user) for user in symbols[0].values()}
        for body in self.bodies.values():
            for number, line in enumerate(body.code[1:], 1):
                for match in re.finditer(r"(ops->)?\b([a-z]\w+)\b(\s*\()?", line):
                    if match[1]:
                        called = [self.bodies[k] for k in tables[match[2]] if k in self.bodies]
                    else:
                        called = self.meant(body, by_name.get(match[2], []), bool(match[3]))
                    for other in called:
                        if match[1] or self.is_referred(body, other, references, users):
                            body.calls.setdefault(other.key, number)

    @staticmethod
    def meant(caller: Body, named: list[Body], calls: bool) -> list[Body]:
        """Those of this name that the caller can mean; without a call, one of its own file."""
        own = [b for b in named if b.function.file == caller.function.file and b is not caller]
        return own or ([b for b in named if not b.hidden and b is not caller] if calls else [])

    @staticmethod
    def is_referred(
        body: Body, other: Body, references: set[tuple[str, str]], users: set[str]
    ) -> bool:
        """Does the library's object refer to the function?  Inline functions, functions of one file
        and files of other machines have no references."""
        ends = (body.function.file, other.function.file)
        if ends[0] == ends[1] or not all(f.endswith(".c") for f in ends):
            return True
        user = ends[0][len("src/") :].replace("/", "_") + ".o"
        return user not in users or (user, other.function.name) in references

    def distance(self, start: Body, goal: str) -> int:
        """The calls from a function to another; HOPS + 1: more than HOPS."""
        seen, edge = {start.key}, {start.key}
        for calls in range(1, HOPS + 1):
            edge = {k for key in edge for k in self.bodies[key].calls} - seen
            if goal in edge:
                return calls
            seen |= edge
        return HOPS + 1

    # ------------------------------------------------------------------------ layers

    def layers(self) -> str:
        folders = sorted({structure.folder_of(f) for f in self.sources} - {""})
        found: dict[str, tuple[str, list[str]]] = {}
        for file in self.sources:
            head = flat(self.text[file].partition("*/")[0])
            sentences = re.split(r"\.(?:\s+|$)", head)
            for sentence in sentences:
                match = CONTRACT.search(sentence)
                if not match or match[1] != structure.folder_of(file):
                    continue
                first = next((s for s in sentences if f"{os.path.basename(file)} - " in s), "")
                named = re.findall(r"\b\w+\.h\b", sentence)
                if file.endswith(".h"):
                    named.insert(0, os.path.basename(file))
                for name in named:
                    if not self.text.keys() & {f"src/{match[1]}/{name}", f"include/{name}"}:
                        self.errors.append(f"{file}: the contract names {name}, which is no file")
                found[match[1]] = (match[2] or without_files(first.partition(" - ")[2]), named)
        rows = []
        for folder in folders:
            if folder not in structure.LEVEL:
                self.errors.append(f"src/{folder}: in no layer: add it to LAYERS of structure.py")
            elif folder not in found or not found[folder][0]:
                self.errors.append(f"src/{folder}: no file says that it is its contract")
            else:
                text, headers = found[folder]
                lines = sum(
                    self.text[f].count("\n")
                    for f in self.sources
                    if structure.folder_of(f) == folder
                )
                told = re.search(rf"\| `{folder}` \|.*\| ([\d,]+) \|", self.old_page)
                number = rounded(lines, told[1] if told else "0")
                row = (f"`{folder}`", text, number, ", ".join(dict.fromkeys(headers)))
                rows.append((structure.LEVEL[folder], *row))
        rows.sort(key=lambda row: row[0])
        return LAYERS + "".join(f"| {n + 1} | {' | '.join(r)} |\n" for n, *r in rows)

    # ------------------------------------------------------------------------ owners

    def owners(self) -> str:
        found: dict[tuple[str, tuple[str, ...]], Owned] = {}
        for file in self.sources:
            if file.endswith(".h"):
                for owned in find_owned(file, self.text[file]):
                    mine = found.setdefault((owned.struct, owned.owners), owned)
                    if mine is not owned:
                        mine.words += owned.words
        owners_of: dict[str, set[str]] = defaultdict(set)
        for owned in found.values():
            files = ["src/" + f for name in owned.owners for f in expand(name)]
            for word in owned.words:
                owners_of[word] |= set(files)
            self.check_owner(owned, files)
        for word, files_of in owners_of.items():
            if self.is_of_many(word):
                continue
            stores = re.compile(rf"\barch_(?:store|cas|exchange|fetch)\w*\(\s*&[^,;]*\b{word}\s*,")
            for file in self.sources:
                code = self.code[file]
                if file not in files_of and word in code and stores.search(code):
                    self.errors.append(f"{file}: stores to `{word}`, which it does not own")
        rows: dict[str, list[str]] = defaultdict(list)
        for o in found.values():
            whole = o.whole and sum(o.struct == other.struct for other in found.values()) == 1
            words = "all" if whole else ", ".join(f"`{w}`" for w in o.words)
            rows[f"`{o.struct}` ({o.file[4:]})"].append(f"{words}: {', '.join(o.owners)}")
        return OWNERS + "".join(f"| {struct} | {'; '.join(r)} |\n" for struct, r in rows.items())

    @functools.cached_property
    def structs(self) -> list[str]:
        """The text between the braces of each struct."""
        struct = re.compile(r"\bstruct(?: \w+)? \{([^{}]*)")
        return [body for text in self.code.values() for body in struct.findall(text)]

    def is_of_many(self, word: str) -> bool:
        """Has more than one struct a word of this name?"""
        declared = re.compile(rf"\b{word}\b(?:\[[^\]]*\])?(?: ARCH_PADDED)?[;,]")
        return sum(word in body and bool(declared.search(body)) for body in self.structs) > 1

    def check_owner(self, owned: Owned, files: list[str]) -> None:
        for file in files:
            if file not in self.text:
                self.errors.append(f"{owned.file}: {owned.struct}: the owner {file} is no file")
        owning = "".join(self.code.get(f, "") for f in files)
        for word in owned.words:
            if not re.search(rf"(?:->|\.){word}\b", owning):
                said = f"{owned.file}: {owned.struct}.{word}"
                self.errors.append(f"{said}: {', '.join(owned.owners)} has no such word")

    # ------------------------------------------------------------------------ ways

    def ways(self) -> str:
        text = WAYS
        on_a_way = set()
        ways = [way for file in self.sources for way in find_ways(file, self.text[file])]
        for number, way in enumerate(sorted(ways, key=lambda w: w.number), 1):
            if way.number != number:
                self.errors.append(f"{way.file}: way {way.number} should be number {number}")
            self.follow(way)
            text += f"{way.number}. {way.name[0].upper()}{way.name[1:]}:\n"
            for step in way.steps:
                if step.body:
                    on_a_way.add(step.body.key)
                    lines = f" (A1: {', '.join(step.lines)})" if step.lines else ""
                    file = step.body.function.file[len("src/") :]
                    indent, said = "  " * step.depth, as_code(step.text)
                    text += f"    {indent}- `{step.name}` ({file}) {said}{lines}\n"
        for key, body in self.bodies.items():
            if body.tags and key not in on_a_way:
                lines = ", ".join(line for _, line in body.tags)
                self.errors.append(f"{key}: has A1:{lines}, and is on no way")
        return text

    def follow(self, way: Way) -> None:
        """Find the steps' functions, who calls them, and their lines of Algorithm 1."""
        for number, step in enumerate(way.steps):
            named = [b for b in self.bodies.values() if b.function.name == step.name]
            said = f"{way.file}: way {way.number}: {step.name}"
            if not named:
                self.errors.append(f"{said} is no function")
                continue
            if not step.caller:
                step.body = next((b for b in named if b.function.file == way.file), named[0])
                if number and step.name not in self.interface:
                    self.errors.append(f"{said} stands below no function that calls it")
            elif caller := step.caller.body:
                far, _, step.body = min(
                    ((self.distance(caller, b.key), b.key, b) for b in named),
                    key=lambda found: found[:2],
                )
                if far > HOPS:
                    self.errors.append(f"{said} is not called by {caller.function.name}")
        self.check_order(way)
        for step in way.steps:
            note_lines(way, step)

    def check_order(self, way: Way) -> None:
        last: dict[int, tuple[int, str]] = {}  # of each caller: the line of its latest step
        for step in way.steps:
            caller = step.caller and step.caller.body
            if not caller or not step.body or step.body.key not in caller.calls:
                continue
            line, before = last.get(id(caller), (-1, ""))
            if caller.last_call(step.name) < line and caller.last_call(step.name) >= 0:
                said = f"{way.file}: way {way.number}: {step.name}"
                self.errors.append(f"{said} comes before {before} in {caller.function.name}")
            last[id(caller)] = (max(line, caller.calls[step.body.key]), step.name)

    def page(self) -> str:
        return HEAD + self.layers() + self.owners() + self.ways() + END


def without_files(text: str) -> str:
    """Without what is in parentheses, if that names files."""
    return re.sub(r" \([^)]*\.[hc]\b[^)]*\)", "", text)


def as_code(text: str) -> str:
    return re.sub(r"\b(\w+(?:\[\]|\(\)))", r"`\1`", text)


def rounded(lines: int, told: str) -> str:
    """With two digits; or as the page told it, while that is true to a tenth.  So not every change
    of the code changes the page."""
    if abs(int(told.replace(",", "")) - lines) <= lines / 10:
        return told
    return f"{int(float(f'{lines:.2g}')):,}"


def find_owned(file: str, text: str) -> list[Owned]:
    """The structs and members that have an owner."""
    found = []
    for match in re.finditer(r"\nstruct (\w+) \{\n(.*?)\n\}", text, re.DOTALL):
        before = text[: match.start() + 1]
        comment = before[before.rfind("/*") :] if before.rstrip().endswith("*/") else ""
        whole = OWNER.findall(flat(comment))
        pending: list[str] = []  # of the comment above the next member
        for piece in re.finditer(r"/\*(.*?)\*/|([^;/]*);[ \t]*(/\*.*?\*/)?", match[2], re.DOTALL):
            if not piece[2]:
                pending = OWNER.findall(flat(piece[0]))
                continue
            own = OWNER.findall(flat(piece[3] or "")) or pending
            owner = own or whole
            pending = []
            declared = re.sub(r"\bARCH_\w+|\[[^\]]*\]|\b__attribute__.*", "", piece[2])
            names = [n for n in re.findall(r"(\w+)\s*(?:,|$)", declared.strip()) if n != "gap"]
            if owner and names:
                owners = tuple(owner[0].split(", "))
                found.append(Owned(match[1], file, owners, names, not own))
    return found


def find_ways(file: str, text: str) -> list[Way]:
    found: list[Way] = []
    open_at = 0  # the indentation of the steps of the way that may continue
    begun = False
    for line in text.partition("*/")[0].splitlines():
        content = line[2:] if line.startswith(" *") else ""
        if match := WAY.search(content):
            found.append(Way(file, int(match[1]), match[2]))
            begun, open_at = True, 0
        elif begun and (step := STEP.fullmatch(content)):
            open_at, steps = len(step[1]), found[-1].steps
            callers = [s for s in steps if s.indentation < open_at]
            steps.append(Step(step[2], step[3], open_at, callers[-1] if callers else None))
        elif begun and (content.strip() or open_at):
            begun = False
    return found


def note_lines(way: Way, step: Step) -> None:
    """A tag counts for the step that its line calls, or else for the function that it is in."""
    names = [s.name for s in way.steps]
    if caller := step.caller and step.caller.body:
        step.lines += [
            tag for n, tag in caller.tags if re.search(rf"\b{step.name}\(", caller.code[n])
        ]
    if step.body:
        step.lines += [
            tag
            for n, tag in step.body.tags
            if not any(re.search(rf"\b{name}\(", step.body.code[n]) for name in names)
        ]
    step.lines = sorted(set(step.lines), key=lambda line: [int(k) for k in line.split("-")])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--build", type=Path, help="a build directory, whose library has the calls")
    parser.add_argument("--root", type=Path, default=tree.ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    archive = args.build / "src" / "libfur_internal.a" if args.build else None
    if archive and not archive.exists():
        parser.error(f"{archive} is missing: run ninja -C {args.build}")
    found = Sources(args.root, archive)
    text = found.page()
    if not tree.make_page(args.root / PAGE, text, args.check):
        found.errors.append(f"{PAGE} is out of date: run tools/architecture.py")
    for error in found.errors:
        print(error)
    print(f"{len(text.splitlines())} lines, {len(found.errors)} errors")
    return 1 if found.errors else 0


if __name__ == "__main__":
    sys.exit(main())
