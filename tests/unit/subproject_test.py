#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library alone, as a Meson subproject or on its own: it builds without a C++ compiler, and
nothing else is built.

    subproject_test.py SOURCE
"""
import json
import os
import subprocess
import sys
import tempfile

source = sys.argv[1]
PROJECT = """project('user', 'c')
libfur = dependency('libfur', fallback: 'libfur')
executable('user', 'user.c', dependencies: libfur)
"""
PROGRAM = """#include <fur.h>
#include <stdio.h>

int main(void)
{
    return puts(fur_strerror(FUR_ENOSPC)) < 0;
}
"""
# Any use of it fails.
NO_CPP = dict(os.environ, CXX="/no/c++/compiler")


def run(*command):
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=NO_CPP
    )
    if done.returncode:
        sys.exit("$ " + " ".join(command) + "\n" + done.stdout)
    return done.stdout


def built(build):
    """The targets that `ninja` builds there, and their languages."""
    targets = json.loads(run("meson", "introspect", "--targets", build))
    return {t["name"] for t in targets if t["build_by_default"]}, {
        s["language"]
        for t in targets
        for s in t["target_sources"]
        if s.get("language", "unknown") != "unknown"
    }


def expect(found, names):
    if found != (names, {"c"}):
        sys.exit(f"built are {found}, and should be {names}, of C")


with tempfile.TemporaryDirectory() as place:
    project, build, alone = (os.path.join(place, name) for name in ("user", "build", "alone"))
    os.makedirs(project + "/subprojects")
    os.symlink(source, project + "/subprojects/libfur")
    for name, text in (("meson.build", PROJECT), ("user.c", PROGRAM)):
        with open(f"{project}/{name}", "w") as file:
            file.write(text)
    # An installed libfur must not take the subproject's place.
    run("meson", "setup", "--wrap-mode=forcefallback", "-Doptimization=0", build, project)
    expect(built(build), {"user", "fur", "fur_internal"})
    run("ninja", "-C", build)
    print(run(build + "/user"), end="")
    run("meson", "setup", "-Dbench=false", "-Dtools=false", "-Dtests=false", alone, source)
    expect(built(alone), {"fur", "fur_internal", "fur-replayer"})
print("ok")
