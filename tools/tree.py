# SPDX-License-Identifier: BSD-3-Clause
"""The project's files, and the functions in them; for structure.py, invariants.py
and architecture.py.

Universal Ctags finds the functions of C and C++.  It needs no build, reads every file whatever the
processor (clang-tidy sees only the code that this machine compiles), and tells where a function
ends.
"""
import ast
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
C_SUFFIXES = (".c", ".h", ".cpp", ".hpp")
NOT_OURS = {".git", "subprojects", "__pycache__", ".mypy_cache"}


@dataclass(frozen=True)
class Function:
    file: str  # below the root
    name: str
    first: int  # the line with its name
    last: int  # the line with its closing brace

    @property
    def lines(self) -> int:
        return self.last - self.first + 1


def project_files(root: Path) -> list[str]:
    """All files below `root`, except builds and what tools leave behind."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in NOT_OURS and not f.startswith("build"))
        found += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)]
    return found


def kind_of(root: Path, file: str) -> str:
    """c, python, shell, meson, markdown, or nothing."""
    suffix = os.path.splitext(file)[1]
    if suffix in C_SUFFIXES:
        return "c"
    if os.path.basename(file) == "meson.build":
        return "meson"
    kinds = {".py": "python", ".sh": "shell", ".md": "markdown"}
    if suffix in kinds:
        return kinds[suffix]
    if not suffix or suffix == ".in":
        with open(root / file, "rb") as opened:
            first = opened.readline()
        if first.startswith((b"#!/bin/sh", b"#!/bin/bash")):
            return "shell"
    return ""


def c_functions(root: Path, files: list[str]) -> list[Function]:
    if not files:
        return []
    command = "ctags --languages=C,C++ --langmap=C++:+.h --output-format=json --fields=+ne "
    command += "--kinds-C=f --kinds-C++=f --sort=no -L - -f -"
    try:
        done = subprocess.run(
            command.split(), cwd=root, input="\n".join(files), text=True, capture_output=True
        )
    except FileNotFoundError:
        sys.exit("ctags is missing: install universal-ctags")
    if done.returncode:
        sys.exit(f"ctags failed: {done.stderr}")
    tags = [json.loads(line) for line in done.stdout.splitlines()]
    return [Function(t["path"], t["name"], t["line"], t["end"]) for t in tags if "end" in t]


def python_functions(root: Path, files: list[str]) -> list[Function]:
    return [
        Function(file, node.name, node.lineno, node.end_lineno or node.lineno)
        for file in files
        for node in ast.walk(ast.parse((root / file).read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def make_page(page: Path, text: str, check: bool) -> bool:
    """Write a generated page; with `check`, write nothing. Does the page have this text?"""
    if not check:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
    return page.exists() and page.read_text() == text
