#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library alone, as a Meson subproject or on its own: it builds without a C++ compiler, and
nothing else is built.  A program links statically with it, and runs.

    subproject_test.py SOURCE
"""
import json
import os
import platform
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
HEAP_PROGRAM = """#include <fur.h>
#include <stdio.h>

static fur_heap *heap;
static fur_thread *self;
static fur_update *update;
static fur_ro *ro;

int main(int n, char **path)
{
    if (n != 2 || fur_create(path[1], NULL, &heap) || fur_thread_register(heap, NULL, &self) ||
        fur_begin_update(self, &update))
        return puts(fur_errormsg());
    fur_set_root(update, 0, fur_alloc(update, 64));
    if (fur_commit(update, NULL) || fur_close(heap) || fur_open(path[1], NULL, &heap) ||
        fur_thread_register(heap, NULL, &self) || fur_begin_ro(self, &ro))
        return puts(fur_errormsg());
    return fur_root(ro, 0) == NULL || fur_end_ro(ro, NULL) || fur_close(heap);
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
    """The libraries and programs that `ninja` builds there, and their languages."""
    targets = json.loads(run("meson", "introspect", "--targets", build))
    targets = [t for t in targets if t["type"] != "custom"]
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
    # The program is linked with -static, and so with a libfur.a.
    with open(f"{project}/user.c", "w") as file:
        file.write(HEAP_PROGRAM)
    static = os.path.join(place, "static")
    options = ["-Ddefault_library=static", "-Dc_link_args=-static", "-Dlibfur:pmem=disabled"]
    run("meson", "setup", "--wrap-mode=forcefallback", *options, static, project)
    run("ninja", "-C", static, "user")
    assert "INTERP" not in run("readelf", "-l", static + "/user"), "it is not static"
    assert os.path.exists(static + "/subprojects/libfur/src/libfur.a"), "there is no libfur.a"
    run(static + "/user", place + "/heap")
    without = ("-Dbench=false", "-Dtools=false", "-Dtests=false", "-Dkafka=disabled")
    run("meson", "setup", *without, alone, source)
    itm = {"fur-itm", "fur_itm_internal"} if platform.machine() in ("x86_64", "aarch64") else set()
    programs = {"fur-replayer", "fur-ship", "fur-standby"}
    expect(built(alone), {"fur", "fur_internal", "fur_ship"} | programs | itm)
print("ok")
