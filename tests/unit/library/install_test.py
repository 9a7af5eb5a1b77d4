#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""As a user does it: install into a prefix, build the examples with the flags from pkg-config, and
with CMake if it is there, and run them.

    install_test.py SOURCE BUILD

With ccache, where there is one.
"""
import os
import shutil
import subprocess
import sys
import tempfile

source, build = sys.argv[1], sys.argv[2]
ccache = [found] if (found := shutil.which("ccache")) else []

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


def destination_of(place, name):
    """The folder in which a file was installed."""
    found = [folder for folder, _, files in os.walk(place) if name in files]
    if len(found) != 1:
        sys.exit(f"{name} is installed in {found}")
    return found[0]


def run_examples(folder):
    """Programs of the folder, with heaps in memory; that of counter stays beside its program."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as place:
        run_all(folder, place)
        shutil.move(f"{place}/counter.fur", folder)


def run_all(folder, place):
    """bank, phonebook, logins, series, sessions, orders, and counter twice: it survives."""
    run(f"{folder}/bank", f"{place}/bank.fur")
    run(f"{folder}/logins", f"{place}/logins.fur", "login", "ada", "grace", "ada")
    if "ada: login 3" not in run(f"{folder}/logins", f"{place}/logins.fur", "login", "ada"):
        sys.exit("the logins did not survive")
    for name, number in (("Grace", "1906"), ("Ada", "1815"), ("Alan", "1912"), ("Ada", "1852")):
        run(f"{folder}/phonebook", f"{place}/phone.fur", name, number)
    if (
        run(f"{folder}/phonebook", f"{place}/phone.fur", "Ad")
        != "Ada 1852\nAlan 1912\nGrace 1906\n"
    ):
        sys.exit("the phone book is not what was written to it")
    series = run(
        f"{folder}/series",
        f"{place}/series.fur",
        input="add cpu 1 5\nadd cpu 2 6\nforget cpu 2\nshow cpu 0 9\nshow ram 0 9\nshow\n",
    )
    if series != "ok\nok\nok\n2 6\nok\nok\nwhat?\n":
        sys.exit("the series are not what was written to them")
    sessions = (f"{folder}/sessions", f"{place}/sessions.fur")
    for arguments, says in (
        ("start abc 7 1000", ""),
        ("start def 8 -1", ""),
        ("start abc 9 500", ""),
        ("user abc", "9\n"),
        ("user def", "none\n"),
        ("sweep", "1\n"),
        ("stop def", "none\n"),
        ("stop abc", "stopped\n"),
        ("sweep", "0\n"),
    ):
        if run(*sessions, *arguments.split()) != says:
            sys.exit(f"sessions {arguments} does not say {says!r}")
    run_orders(f"{folder}/orders", f"{place}/orders.fur")
    run(f"{folder}/counter", f"{place}/counter.fur")
    if "run 2 times" not in run(f"{folder}/counter", f"{place}/counter.fur"):
        sys.exit("the counter did not survive")


def run_orders(program, heap):
    """Each index finds what was changed by another one; a taken key changes nothing."""
    for arguments, says in (
        ("add 1 ada 10 500", "ok\n"),
        ("add 2 grace 11 600 R-7", "ok\n"),
        ("add 3 ada 12 700", "ok\n"),
        ("add 3 alan 12 700", "there is an order of this number\n"),
        ("bill 3 R-7", "another order has this invoice\n"),
        ("move 4 9", "there is no such order\n"),
        ("move 1 20", "ok\n"),
        ("bill 3 R-8", "ok\n"),
        ("customer ada", "1 ada 20 500 none-1\n3 ada 12 700 R-8\n"),
        ("days 11 13", "2 grace 11 600 R-7\n3 ada 12 700 R-8\n"),
        ("cancel 3", "ok\n"),
        ("cancel 3", "there is no such order\n"),
        ("add 4 alan 11 800 R-8", "ok\n"),
        ("days 11 13", "2 grace 11 600 R-7\n4 alan 11 800 R-8\n"),
        ("customer ada", "1 ada 20 500 none-1\n"),
        ("check", "ok\n"),
    ):
        if run(program, heap, *arguments.split()) != says:
            sys.exit(f"orders {arguments} does not say {says!r}")


def flags_of_pkg_config(place):
    environment = dict(
        os.environ,
        PKG_CONFIG_PATH=destination_of(place, "libfur.pc"),
        PKG_CONFIG_SYSROOT_DIR=place,
    )
    flags = run("pkg-config", "--cflags", "--libs", "libfur", env=environment).split()
    version = run("pkg-config", "--modversion", "libfur", env=environment).strip()
    return flags, version


def with_pkg_config(place, flags):
    folder = f"{place}/pkg-config"
    os.mkdir(folder)
    for compiler, program in (
        (["cc", "-Wall", "-Wextra", "-Werror"], "counter.c"),
        (["cc", "-Wall", "-Wextra", "-Werror"], "phonebook.c"),
        (["c++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread"], "bank.cpp"),
        (["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"], "logins.cpp"),
        (["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"], "series.cpp"),
        (["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"], "sessions.cpp"),
        (["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"], "orders.cpp"),
    ):
        output = f"{folder}/{program.split('.')[0]}"
        # In two steps: ccache keeps only the first one.
        of_compiler = [flag for flag in flags if not flag.startswith(("-l", "-L", "-Wl,"))]
        command = [*ccache, *compiler, "-c", f"{place}/examples/{program}", *of_compiler]
        run(*command, "-o", output + ".o", cwd=place)
        run(*compiler, output + ".o", *flags, "-o", output)
    run_examples(folder)


def with_transactions(place):
    """The example for gcc -fgnu-tm, if this build has libfur-itm, and cc is such a compiler."""
    if not any("libfur-itm.pc" in files for _, _, files in os.walk(place)):
        print("no libfur-itm: its part is left out")
        return
    if "__clang__" in run("cc", "-dM", "-E", "-x", "c", "/dev/null"):
        print("cc is clang: the part of libfur-itm is left out")
        return
    environment = dict(
        os.environ,
        PKG_CONFIG_PATH=destination_of(place, "libfur-itm.pc"),
        PKG_CONFIG_SYSROOT_DIR=place,
    )
    flags = run("pkg-config", "--cflags", "--libs", "libfur-itm", env=environment).split()
    library = next(f[2:] for f in flags if f.startswith("-L"))
    program, heap = f"{place}/transactions", f"{place}/names.fur"
    command = ["cc", "-fgnu-tm", "-Wall", "-Werror", f"{place}/examples/transactions.c"]
    run(*command, *flags, f"-Wl,-rpath,{library}", "-o", program)
    run(program, heap, "ada", "grace")
    if run(program, heap, "barbara") != "barbara\ngrace\nada\n":
        sys.exit("the names did not survive")


def find_versions(place, prefix, version):
    """Versions that find_package() must find, and must not."""
    major, minor, patch = map(int, version.split("."))
    wanted = {
        version: True,
        f"{version} EXACT": True,
        f"{major}": True,
        f"{major}.{minor}": True,
        f"{major}.{minor}.{patch + 1}": False,
        f"{major}.{minor + 1}": False,
        f"{major + 1}": False,
    }
    project = f"{place}/versions"
    os.mkdir(project)
    with open(f"{project}/CMakeLists.txt", "w") as file:
        file.write("cmake_minimum_required(VERSION 3.16)\nproject(user LANGUAGES C)\n")
        for version in wanted:
            file.write(
                f"find_package(libfur {version} QUIET)\n"
                f'message(STATUS "{version}: ${{libfur_FOUND}}")\n'
                "unset(libfur_DIR CACHE)\n"
            )
    output = run("cmake", "-S", project, "-B", f"{project}/build", f"-DCMAKE_PREFIX_PATH={prefix}")
    for version, good in wanted.items():
        if f"-- {version}: {int(good)}\n" not in output:
            sys.exit(f"find_package(libfur {version}) should {'' if good else 'not '}find it")


def with_cmake(place, version):
    if not shutil.which("cmake"):
        print("no cmake: its part is left out")
        return
    prefix = os.path.dirname(destination_of(place, "fur.h"))
    folder = f"{place}/cmake-examples"
    run("cmake", "-S", f"{place}/examples", "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", folder)
    run_examples(folder)
    find_versions(place, prefix, version)


def check_versions(place, flags, version, library):
    with open(f"{place}/version.c", "w") as file:
        file.write(VERSION_PROGRAM)
    run("cc", f"{place}/version.c", *flags, "-o", f"{place}/version")
    if run(f"{place}/version").split() != [version, version]:
        sys.exit(f"the header or the library is not of version {version}, as pkg-config says")
    if not os.path.exists(f"{library}/libfur.so.{version}"):
        sys.exit(f"there is no libfur.so.{version}")


def run_tools(place, version):
    heap = f"{place}/pkg-config/counter.fur"
    for tool, *arguments in (
        ("fur-replayer", "--once", heap),
        ("fur-ship", "--status", heap),
        ("fur-standby", "--help"),
        ("fur-info", heap),
        ("fur-stat", heap),
        ("fur-check", heap),
        ("fur-copy", heap, f"{place}/copy.fur"),
        ("fur-group", "create", f"{place}/bank.group"),
        ("fur-resize", heap),
        ("pm-emulate", "--quiet", "--", f"{place}/pkg-config/counter", heap),
    ):
        prefix = os.path.dirname(destination_of(place, "fur.h"))
        program = f"{prefix}/bin/{tool}"
        run(program, *arguments)
        if run(program, "--version") != f"{tool} (libfur) {version}\n":
            sys.exit(f"{tool} is not of version {version}")
        section = 8 if tool in ("fur-replayer", "fur-ship", "fur-standby") else 1
        for file in (
            f"man/man{section}/{tool}.{section}",
            f"bash-completion/completions/{tool}",
            f"zsh/site-functions/_{tool}",
            "man/man3/fur_commit.3",
        ):
            if not os.path.exists(f"{prefix}/share/{file}"):
                sys.exit(f"{file} is not installed")


def main(place):
    # ccache goes by names: that of the place is another each time, and that of the source in each
    # clone.
    os.environ["CCACHE_BASEDIR"] = place
    shutil.copytree(f"{source}/examples", f"{place}/examples")
    if ccache:
        os.environ["CMAKE_C_COMPILER_LAUNCHER"] = ccache[0]
        os.environ["CMAKE_CXX_COMPILER_LAUNCHER"] = ccache[0]
    run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", place)
    flags, version = flags_of_pkg_config(place)
    library = next(f[2:] for f in flags if f.startswith("-L"))
    flags.append("-Wl,-rpath," + library)
    with_pkg_config(place, flags)
    check_versions(place, flags, version, library)
    run_tools(place, version)
    with_transactions(place)
    with_cmake(place, version)


with tempfile.TemporaryDirectory() as install_place:
    main(install_place)
