#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Planted bugs: patches of libfur's sources, each of which a test must find.

    plants.py --table FINDER...        the bugs that FINDER must find, a line each, between tabs:
                                       name, source file, options for the finder, with ~ for a
                                       blank in a word; an empty line before the next FINDER's
    plants.py --header                 a C++ table of explore's bugs
    plants.py --write DIRECTORY        DIRECTORY/plant-BUG.c for every bug: its source file with the
                                       bug in it.  A file that would not change stays as it is
    plants.py --record BUG             make the patch again from `git diff` of the source files, and
                                       take the bug out of them; a new patch gets an empty heading
    plants.py --witnesses BUILD [BUG...]
                                       run the tests of BUILD that search for these bugs, or for
                                       all; write into each heading the seed that found the bug
    plants.py --refresh                make every patch again: line numbers and context as they are;
                                       report all patches that no longer apply

A patch, tests/plants/BUG.patch, has a heading before its diff:

    the bug in one line
    Invariant: INV-X0                  the invariant it breaks
    Model: CASE                        the mutation of tests/models that also breaks it; optional
    Found by: FINDER OPTION...         explore, explore-claims, explore-ship, pm-emulate, kill-test,
                                       damage-test, scan-test, fresh-test, durability-test,
                                       follow-test, rejoin-test, shipper-fake-test,
                                       standby-test, power-test, submit-test, join-test,
                                       operators-test or near-test; a line each.
                                       Option of near-test: `threads`, if the bug is in that back
                                       end

The options of explore, explore-claims and explore-ship end with `--must-find SEED`, the witness:
the test tries this seed first.  When the library has changed so that the seed stands for another
schedule, the test searches, passes, and prints the seed that found the bug; --witnesses brings the
headings up to date.  Without a witness the test searches from 1.  A bug that few schedules meet has
an `--order` in single quotes: points that threads reach in this order (explore --help).

The diff touches one .c file: a finder is linked with that one object in place of the library's, so
a bug in a header would change nothing.  The diff applies while its context is there, give or take
two lines: comments next to it may change.  When it no longer applies, the build stops and says so.
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KERNELS = "lab/near/tests/kernels"


def not_compiled(source: str) -> str:
    return (
        f"{source} is no .c file, so a bug in it would change no object: put the bug into a .c "
        f"file that includes it, in place of the call"
    )


@dataclass
class Plant:
    name: str
    what: str = ""
    invariant: str = ""
    models: list[str] = field(default_factory=list)
    found_by: dict[str, str] = field(default_factory=dict)  # finder -> options
    diff: str = ""

    @property
    def patch_file(self) -> Path:
        return HERE / f"{self.name}.patch"

    @property
    def source(self) -> str:
        """The file that the patch changes, below the project's root."""
        files = re.findall(r"^\+\+\+ b/(\S+)", self.diff, re.MULTILINE)
        if len(files) != 1:
            sys.exit(f"{self.patch_file}: the diff must change one file, and changes {len(files)}")
        if not files[0].endswith(".c"):
            sys.exit(f"{self.patch_file}: {not_compiled(files[0])}")
        return str(files[0])

    def heading(self) -> str:
        lines = [self.what, f"Invariant: {self.invariant}"]
        lines += [f"Model: {model}" for model in self.models]
        lines += [
            f"Found by: {finder} {options}".rstrip() for finder, options in self.found_by.items()
        ]
        return "\n".join(lines) + "\n"

    def planted(self) -> str:
        """The source with the bug in it."""
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "planted")
            command = [
                "patch",
                "--batch",
                "--forward",
                "--fuzz=2",
                "--reject-file=-",
                "--output",
                out,
            ]
            done = subprocess.run(
                command + [str(ROOT / self.source)],
                input=self.diff,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            if done.returncode:
                sys.exit(
                    f"{self.patch_file}: does not apply to {self.source}: bring the bug up to "
                    f"date with the source (see plants.py --record)\n{done.stdout}"
                )
            return Path(out).read_text()


def load(name: str) -> Plant:
    path = HERE / f"{name}.patch"
    if not path.is_file():
        sys.exit(f"no bug '{name}': {HERE} has no {name}.patch")
    text = path.read_text()
    at = text.find("--- a/")
    heading, diff = (text, "") if at < 0 else (text[:at], text[at:])
    lines = heading.splitlines()
    plant = Plant(name, lines[0] if lines else "", diff=diff)
    for line in lines[1:]:
        key, _, value = line.partition(": ")
        if key == "Invariant":
            plant.invariant = value
        elif key == "Model":
            plant.models.append(value)
        elif key == "Found by":
            finder, _, options = value.partition(" ")
            plant.found_by[finder] = options
        else:
            sys.exit(f"{path}: '{line}': not a line of a heading (see plants.py --help)")
    return plant


def load_all() -> list[Plant]:
    return [load(path.stem) for path in sorted(HERE.glob("*.patch"))]


def diff_of(source: str, planted: str) -> str:
    """A diff as git makes it, without what changes from commit to commit."""
    with tempfile.TemporaryDirectory() as scratch:
        changed = os.path.join(scratch, "planted")
        Path(changed).write_text(planted)
        labels = ["--label", f"a/{source}", "--label", f"b/{source}"]
        done = subprocess.run(
            ["diff", "-up"] + labels + [str(ROOT / source), changed],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout


def record(name: str) -> None:
    changed = subprocess.run(
        ["git", "diff", "--name-only", "--", "src", "lab", KERNELS],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    if len(changed) != 1:
        sys.exit(
            f"--record: one changed file below src, lab or {KERNELS} is needed, and `git diff` has "
            f"{len(changed)}"
        )
    if not changed[0].endswith(".c"):
        sys.exit(f"--record: {not_compiled(changed[0])}")
    plant = (
        load(name)
        if (HERE / f"{name}.patch").exists()
        else Plant(name, "TODO", "TODO", found_by={"explore": "TODO"})
    )
    buggy = (ROOT / changed[0]).read_text()
    subprocess.run(["git", "checkout", "--", changed[0]], cwd=ROOT, check=True)
    plant.patch_file.write_text(plant.heading() + diff_of(changed[0], buggy))
    print(f"{plant.patch_file}: complete its heading; then meson setup --reconfigure BUILD")


def refresh() -> None:
    broken = []
    for plant in load_all():
        try:
            plant.patch_file.write_text(plant.heading() + diff_of(plant.source, plant.planted()))
        except SystemExit as reason:
            broken.append(str(reason))
    if broken:
        sys.exit("\n".join(broken))


def write(directory: Path) -> None:
    broken = []
    for plant in load_all():
        path = directory / f"plant-{plant.name}.c"
        try:
            planted = plant.planted()
        except SystemExit as reason:
            broken.append(str(reason))
            continue
        if not path.is_file() or path.read_text() != planted:
            path.write_text(planted)
    if broken:
        sys.exit("\n".join(broken))


# The finders that search by seeds, and the names of their tests.
SEARCHES = {"explore": "plant-", "explore-claims": "claims-finds-", "explore-ship": "ship-finds-"}
WITNESS = re.compile(r" ?--must-find (\d+)$")


def options_for_test(plant: Plant, finder: str) -> str:
    options = plant.found_by[finder]
    if finder in SEARCHES and not WITNESS.search(options):
        options = f"{options} --must-find 1".lstrip()
    # Meson splits them at blanks.
    return " ".join(word.replace(" ", "~") for word in shlex.split(options))


def refresh_witnesses(build: str, bugs: list[str]) -> None:
    tests = json.loads(
        subprocess.run(
            ["meson", "introspect", build, "--tests"], check=True, capture_output=True
        ).stdout
    )
    commands = {test["name"]: test["cmd"] for test in tests}
    missed = []
    for plant in [load(bug) for bug in bugs] or load_all():
        for finder in SEARCHES.keys() & plant.found_by.keys():
            command = commands[SEARCHES[finder] + plant.name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            found = re.search(r"^found with seed (\d+)$", done.stdout, re.MULTILINE)
            if done.returncode or not found:
                missed.append(plant.name)
                continue
            options = WITNESS.sub("", plant.found_by[finder])
            plant.found_by[finder] = f"{options} --must-find {found[1]}".lstrip()
            plant.patch_file.write_text(plant.heading() + plant.diff)
            print(f"{plant.name}: {found[1]}", flush=True)
    if missed:
        sys.exit(f"not found: {', '.join(missed)}")


def tables(finders: list[str]) -> list[str]:
    plants = load_all()
    for p in plants:
        if "TODO" in p.heading():
            sys.exit(f"{p.patch_file}: complete its heading")
    return [
        "\n".join(
            "\t".join([p.name, p.source, options_for_test(p, finder)])
            for p in plants
            if finder in p.found_by
        )
        for finder in finders
    ]


def header() -> str:
    rows = "".join(
        f'\t{{"{p.name}", "{p.what} ({p.invariant})"}},\n'
        for p in load_all()
        if "explore" in p.found_by
    )
    return (
        "/* Made by plants.py. */\n"
        "static const struct {\n\tconst char *name, *what;\n} planted_bugs[] = {\n" + rows + "};"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--table", nargs="+", metavar="FINDER", help=argparse.SUPPRESS)
    group.add_argument("--header", action="store_true", help=argparse.SUPPRESS)
    group.add_argument("--write", metavar="DIRECTORY", help=argparse.SUPPRESS)
    group.add_argument("--record", metavar="BUG", help=argparse.SUPPRESS)
    group.add_argument("--witnesses", nargs="+", metavar="BUILD", help=argparse.SUPPRESS)
    group.add_argument("--refresh", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.table:
        print("\n\n".join(tables(args.table)))
    elif args.header:
        print(header())
    elif args.write:
        write(Path(args.write))
    elif args.record:
        record(args.record)
    elif args.witnesses:
        refresh_witnesses(args.witnesses[0], args.witnesses[1:])
    else:
        refresh()
    return 0


if __name__ == "__main__":
    sys.exit(main())
