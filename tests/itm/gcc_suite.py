#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compile the tests of GCC's own library for transactions against libfur-itm, and run them, with
and without optimisation.  They come from the package gcc-N-source, where N is the compiler's
version; nothing of them is part of this project.

    gcc_suite.py HEAP_SOURCE INCLUDE_DIRECTORY CC CXX LIBRARY...

Exit status: 0 all passed, 1 one failed, 77 the package or the compiler is missing.
"""
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

heap_source, include, cc, cxx, *libraries = sys.argv[1:]
compilers = {".c": cc.split(), ".C": cxx.split()}
SECONDS = 120

# Tests that no library can pass with this GCC, by name, perhaps with the option, and the reason.
UNSUPPORTED = {
    "libitm.c/dropref-2.c -O2": "GCC removes the stores that it expects, because the block is "
    "cancelled in any case; GCC's own suite expects it to fail",
    "libitm.c++/static_ctor.C": "GCC does not compile a static variable of a safe function "
    "(PR libitm/51822); its own suite leaves the test out",
}
OPTIMISED = ("-O0", "-O2")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def version_of(compiler):
    done = subprocess.run(
        [*compiler, "-dumpversion"], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout.strip().split(".")[0]


def find_sources():
    version = version_of(compilers[".c"])
    for archive in sorted(Path(f"/usr/src/gcc-{version}").glob("gcc-*.tar.*")):
        return archive
    return skip(f"GCC's sources are missing: apt-get install gcc-{version}-source")


def extract(archive, place):
    """The header, and the tests in C and C++."""
    wanted = re.compile(r"[^/]+/libitm/(libitm\.h|testsuite/libitm\.c(\+\+)?/[^/]+\.[cC])$")
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() and wanted.match(member.name):
                content = tar.extractfile(member)
                assert content
                target = Path(place) / member.name.split("/", 1)[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content.read())
    return Path(place) / "libitm"


def run(command, **more):
    """Exit status and output."""
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
            **more,
        )
    except subprocess.TimeoutExpired:
        return 1, f"it ran for more than {SECONDS} s"
    return done.returncode, done.stdout


def one(test, sources, place, option):
    """Compile and run.  Returns: nothing, or what is wrong."""
    text = test.read_text(errors="replace")
    more = re.findall(r"dg-(?:additional-)?options \"([^\"]*)\"", text)
    program = f"{place}/program"
    command = [*compilers[test.suffix], option, "-fgnu-tm", "-pthread", "-w"]
    command += [f"-I{sources}", *" ".join(more).split(), str(test)]
    if "dg-do compile" in text:
        status, output = run([*command, "-c", "-o", f"{place}/object.o"])
        return output if status else ""
    folders = sorted({os.path.dirname(os.path.abspath(library)) for library in libraries})
    command += ["-x", "none", f"{place}/heap.o", *libraries, "-o", program]
    command += [f"-Wl,-rpath,{folder}" for folder in folders]
    status, output = run(command)
    if not status:
        status, output = run([program], cwd=place)
        output = output or f"exit status {status}"
    return output if status else ""


def main(place):
    sources = extract(find_sources(), place)
    status, output = run(
        [*compilers[".c"], "-O1", f"-I{include}", "-c", heap_source, "-o", f"{place}/heap.o"]
    )
    if status:
        sys.exit(output)
    tests = sorted((sources / "testsuite").glob("*/*.[cC]"))
    known = {f"{test.parent.name}/{test.name}": test for test in tests}
    if len(known) < 25 or not {name.split()[0] for name in UNSUPPORTED} <= set(known):
        sys.exit(f"only {len(known)} tests were found, or an unsupported one is gone")
    failed = 0
    for name, option in ((name, option) for name in known for option in OPTIMISED):
        why = UNSUPPORTED.get(name) or UNSUPPORTED.get(f"{name} {option}")
        if why:
            print(f"{name} {option}: unsupported: {why}")
            continue
        wrong = one(known[name], sources, place, option)
        print(f"{name} {option}: {'FAILED' if wrong else 'passed'}\n{wrong}".rstrip())
        failed += bool(wrong)
    print(f"{failed} failed; {len(known)} tests, unsupported: {', '.join(UNSUPPORTED)}")
    return 1 if failed else 0


with tempfile.TemporaryDirectory() as folder:
    sys.exit(main(folder))
