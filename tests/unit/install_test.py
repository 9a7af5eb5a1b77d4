#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""As a user does it: install into a prefix, build the examples with the flags from pkg-config, run
them.  Only fur_ symbols are exported.

    install_test.py SOURCE BUILD
"""
import os
import subprocess
import sys
import tempfile

source, build = sys.argv[1], sys.argv[2]

VERSION_PROGRAM = """#include <fur.h>
#include <stdio.h>

int main(void)
{
\tprintf("%d.%d.%d %s", FUR_VERSION_MAJOR, FUR_VERSION_MINOR, FUR_VERSION_PATCH, fur_version());
\treturn 0;
}
"""


def run(*command, **more):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
    )
    print("$ " + " ".join(command) + "\n" + done.stdout, end="")
    if done.returncode:
        sys.exit(1)
    return done.stdout


with tempfile.TemporaryDirectory() as place:
    run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", place)
    pc = next(
        os.path.join(d, "libfur.pc") for d, _, files in os.walk(place) if "libfur.pc" in files
    )
    environment = dict(
        os.environ, PKG_CONFIG_PATH=os.path.dirname(pc), PKG_CONFIG_SYSROOT_DIR=place
    )
    flags = run("pkg-config", "--cflags", "--libs", "libfur", env=environment).split()
    library = next(f[2:] for f in flags if f.startswith("-L"))
    for compiler, program in (
        (["cc", "-Wall", "-Wextra", "-Werror"], "counter.c"),
        (["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread"], "bank.cpp"),
    ):
        name = program.split(".")[0]
        run(
            *compiler,
            f"{source}/examples/{program}",
            *flags,
            "-Wl,-rpath," + library,
            "-o",
            f"{place}/{name}",
        )
        heap = f"{place}/{name}.fur"
        run(f"{place}/{name}", heap)
        if name == "counter" and "run 2 times" not in run(f"{place}/{name}", heap):
            sys.exit("the counter did not survive")
    version = run("pkg-config", "--modversion", "libfur", env=environment).strip()
    with open(f"{place}/version.c", "w") as file:
        file.write(VERSION_PROGRAM)
    run("cc", f"{place}/version.c", *flags, "-Wl,-rpath," + library, "-o", f"{place}/version")
    if run(f"{place}/version").split() != [version, version]:
        sys.exit(f"the header or the library is not of version {version}, as pkg-config says")
    if not os.path.exists(f"{library}/libfur.so.{version}"):
        sys.exit(f"there is no libfur.so.{version}")
    for tool in ("fur-replayer", "fur-info", "fur-stat", "fur-check"):
        program = next(os.path.join(d, tool) for d, _, files in os.walk(place) if tool in files)
        run(
            program,
            *(["--once", "--heap"] if tool == "fur-replayer" else []),
            f"{place}/counter.fur",
        )
    exported = [
        line.split()[-1]
        for line in run("nm", "-D", "--defined-only", f"{library}/libfur.so").splitlines()
    ]
    foreign = [s for s in exported if not s.startswith("fur_")]
    if foreign or "fur_commit" not in exported:
        sys.exit(f"exported besides fur_*: {foreign}")
