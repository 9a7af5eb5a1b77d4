#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make docs/invariants.md from the sources, and fail if the invariants' ids do not add up.

    invariants.py            write the page
    invariants.py --check    fail if the page is not what the sources say

A file defines an invariant in its head, as a line of a comment; deeper lines continue the text:

     *   INV-X1  The text,
     *           and more of it.

So does a model (tests/models/*.pml), of a protocol whose sources are yet to come.  Every other
mention of an id in code, tests or pages is a citation.  An error is
  - an id that two places define, or that is cited and defined nowhere;
  - an invariant that no code cites: nothing tells what keeps it;
  - a planted bug (tests/plants) whose invariant or case of the model does not exist, or whose case
    breaks another invariant;
  - a comment of a source with "model: NAME" where no model has a mutation of that name.

Ids that begin with INV-X are examples.  Exit status: 0 all well, 1 not.
"""
import argparse
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import tree

PAGE = "docs/invariants.md"
ID = re.compile(r"\bINV-(?!X)[A-Z]+\d+\b")
DEFINITION = re.compile(r"(\s*\*\s+)(INV-(?!X)[A-Z]+\d+)  +(\S.*)")
MODELS = [
    f"tests/models/{name}.pml"
    for name in (
        "fur",
        "software",
        "parallel",
        "versions",
        "sweep",
        "switch",
        "snapshot",
        "group",
        "async",
        "naming",
        "fresh",
        "event",
        "claims",
        "bulk",
        "bulkblock",
        "bulkoperator",
        "ship",
        "shipapply",
        "grouplocks",
        "groupwaits",
        "groupdraws",
        "groupheaps",
        "batches",
        "gate",
    )
]
# A line of the list of mutations at the head of a model.
MUTATION = re.compile(r" \*   ([A-Z]{4,})  .*\((INV-[A-Z]+\d+)\)")
# Where a comment cites one; maybe on the next line.
CITED_MUTATION = re.compile(r"\bmodel:[\s*]+([A-Z]{4,})\b")

HEAD = """# Invariants

tools/invariants.py makes this page from the comments of the sources; `./check` fails if it is out
of date. Each section is a file that defines invariants. *Cited in* names the functions, tests and
pages that refer to one: the code that keeps it is among them. *Planted bugs* break it, and a test
must find each ([tests/plants](../tests/plants/plants.py)). *Model* names the mutations of
[fur.pml](../tests/models/fur.pml), [software.pml](../tests/models/software.pml),
[parallel.pml](../tests/models/parallel.pml), [versions.pml](../tests/models/versions.pml),
[sweep.pml](../tests/models/sweep.pml), [snapshot.pml](../tests/models/snapshot.pml),
[group.pml](../tests/models/group.pml), [async.pml](../tests/models/async.pml),
[naming.pml](../tests/models/naming.pml), [fresh.pml](../tests/models/fresh.pml),
[event.pml](../tests/models/event.pml), [claims.pml](../tests/models/claims.pml),
[bulk.pml](../tests/models/bulk.pml), [bulkblock.pml](../tests/models/bulkblock.pml),
[bulkoperator.pml](../tests/models/bulkoperator.pml), [ship.pml](../tests/models/ship.pml),
[shipapply.pml](../tests/models/shipapply.pml), [grouplocks.pml](../tests/models/grouplocks.pml),
[groupwaits.pml](../tests/models/groupwaits.pml),
[groupdraws.pml](../tests/models/groupdraws.pml),
[groupheaps.pml](../tests/models/groupheaps.pml) and
[batches.pml](../tests/models/batches.pml) that break it.
"""


@dataclass
class Invariant:
    id: str
    file: str
    text: str
    cited: list[str] = field(default_factory=list)
    plants: list[str] = field(default_factory=list)
    mutations: list[str] = field(default_factory=list)


@dataclass
class Source:
    """A file's definitions, and the lines that cite."""

    definitions: list[Invariant] = field(default_factory=list)
    citations: list[tuple[int, str]] = field(default_factory=list)  # line, id


def read_source(file: str, lines: list[str]) -> Source:
    source = Source()
    indent = 0  # of the definition that the next line may continue
    for number, line in enumerate(lines, 1):
        match = DEFINITION.match(line)
        if match and file.endswith(tree.C_SUFFIXES + (".pml",)):
            source.definitions.append(Invariant(match.group(2), file, match.group(3)))
            indent = len(match.group(1))
            continue
        text = line.lstrip(" *")
        if indent and text and "*/" not in line and len(line) - len(text) > indent:
            source.definitions[-1].text += " " + text
            continue
        indent = 0
        source.citations += [(number, cited) for cited in ID.findall(line)]
    return source


def place(file: str, number: int, lines: list[str], functions: list[tree.Function]) -> str:
    """file, with the function that the line is in, or that the comment of the line describes."""
    for f in functions:
        if f.first <= number <= f.last:
            return f"{file}: {f.name}"
    end = number
    while end < len(lines) and "*/" not in lines[end - 1]:
        end += 1
    for f in functions:
        if end < f.first <= end + 2 and "*/" in lines[end - 1]:
            return f"{file}: {f.name}"
    return file


class Tree:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.errors: list[str] = []
        self.invariants: dict[str, Invariant] = {}
        self.by_mutation: dict[str, str] = {}  # mutation of the model -> id
        files = [f for f in tree.project_files(root) if tree.kind_of(root, f) or f[-4:] == ".pml"]
        self.lines = {f: self.read(f) for f in files if f != PAGE}
        self.functions: dict[str, list[tree.Function]] = defaultdict(list)
        c = [f for f in files if tree.kind_of(root, f) == "c"]
        for function in tree.c_functions(root, c):
            self.functions[function.file].append(function)
        self.find_all()
        self.find_mutations()
        self.check_cited_mutations(c)
        self.find_plants()
        for i in self.invariants.values():
            if not any(not c.endswith(".md") for c in i.cited):
                self.errors.append(f"{i.file}: {i.id} is cited nowhere: cite it where it is kept")

    def read(self, file: str) -> list[str]:
        return (self.root / file).read_text(errors="replace").splitlines()

    def find_all(self) -> None:
        sources = {file: read_source(file, lines) for file, lines in self.lines.items()}
        for source in sources.values():
            for i in source.definitions:
                if i.id in self.invariants:
                    first = self.invariants[i.id].file
                    self.errors.append(f"{i.file}: {i.id} is already defined in {first}")
                self.invariants.setdefault(i.id, i)
        for file, source in sources.items():
            for number, cited in source.citations:
                if cited not in self.invariants:
                    self.errors.append(f"{file}:{number}: {cited} is defined nowhere")
                    continue
                where = place(file, number, self.lines[file], self.functions[file])
                if where not in self.invariants[cited].cited:
                    self.invariants[cited].cited.append(where)

    def find_mutations(self) -> None:
        for model in MODELS:
            for line in self.lines.get(model, []):
                match = MUTATION.match(line)
                if match and match.group(2) in self.invariants:
                    self.by_mutation[match.group(1)] = match.group(2)
                    self.invariants[match.group(2)].mutations.append(match.group(1))

    def check_cited_mutations(self, files: list[str]) -> None:
        for file in files:
            for name in CITED_MUTATION.findall("\n".join(self.lines[file])):
                if name not in self.by_mutation:
                    self.errors.append(f"{file}: no model has a mutation '{name}'")

    def cases(self) -> set[str]:
        """The names of the model's cases."""
        models = self.root / "tests/models/models.py"
        if not models.exists():
            return set()
        command = [sys.executable, str(models), "--long", "--list"]
        return set(subprocess.run(command, capture_output=True, text=True).stdout.split())

    def find_plants(self) -> None:
        cases = self.cases()
        for patch in sorted((self.root / "tests/plants").glob("*.patch")):
            heading = patch.read_text().split("--- a/")[0]
            named = re.findall(r"^Invariant: (.*)$", heading, re.MULTILINE)
            for name in named:
                if name in self.invariants:
                    self.invariants[name].plants.append(patch.stem)
            if not named or any(name not in self.invariants for name in named):
                self.errors.append(f"{patch.name}: no invariant, or one that is defined nowhere")
            for case in re.findall(r"^Model: (.*)$", heading, re.MULTILINE):
                breaks = self.by_mutation.get(case.split("-")[-1])
                if case not in cases:
                    self.errors.append(f"{patch.name}: models.py has no case '{case}'")
                elif breaks not in named:
                    self.errors.append(f"{patch.name}: case '{case}' of the model breaks {breaks}")

    def page(self) -> str:
        text = HEAD
        by_file: dict[str, list[Invariant]] = defaultdict(list)
        for i in self.invariants.values():
            by_file[i.file].append(i)
        for file, invariants in sorted(by_file.items(), key=lambda item: order(item[0])):
            text += f"\n## {file}\n\n| id | invariant | cited in | planted bugs | model |\n"
            text += "| --- | --- | --- | --- | --- |\n"
            for i in invariants:
                words = " ".join(i.text.split()).replace("|", "\\|")
                columns = [", ".join(c) for c in (short(i.cited), i.plants, i.mutations)]
                text += " | ".join([f"| {i.id}", words, *columns]) + " |\n"
        return text


def order(file: str) -> tuple[int, str]:
    """The library first."""
    return 0 if file.startswith("src/") else 1, file


def short(cited: list[str]) -> list[str]:
    """`file: f`, `file: g` become `file: f, g`; a file alone is left out if functions are named."""
    by_file: dict[str, list[str]] = {}
    for where in cited:
        file, _, function = where.partition(": ")
        by_file.setdefault(file, [])
        if function:
            by_file[file].append(f"`{function}`")
    ordered = sorted(by_file.items(), key=lambda item: order(item[0]))
    return [f"{file} {' '.join(functions)}".rstrip() for file, functions in ordered]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--root", type=Path, default=tree.ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    found = Tree(args.root)
    text = found.page()
    if not tree.make_page(args.root / PAGE, text, args.check):
        found.errors.append(f"{PAGE} is out of date: run tools/invariants.py")
    for error in found.errors:
        print(error)
    print(f"{len(found.invariants)} invariants, {len(found.errors)} errors")
    return 1 if found.errors else 0


if __name__ == "__main__":
    sys.exit(main())
