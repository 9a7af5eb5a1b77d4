#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tutorial does what it says: its code is that of the steps, which cut_steps.sh cuts from the
programs in examples/tutorial, it shows each line that a step adds, and its commands, run with the
installed library, print what the page says.

    tutorial_test.py SOURCE BUILD COMPILER...

Comments before a block of the page say how to compare its output:

    <!-- test: numbers vary -->    any number stands for any other, and `1 hole` for `2 holes`
    <!-- test: in flight -->       fur-check may report updates that were in flight as well
    <!-- test: fails -->           the last command fails; all others must succeed
"""
import difflib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from markdown_blocks import blocks_of

source, build, *words = sys.argv[1:]
# By its path: ccache would find the test's own `c++` in its place.
compiler = [shutil.which(word) or word for word in words]
page = f"{source}/docs/tutorial.md"
tutorial = f"{source}/examples/tutorial"

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
NUMBER = re.compile(rf"{UUID}|0x[0-9a-f]+|\d+(?:\.\d+)?")
# A shell that runs a script says more about a command that was killed than one with a terminal.
KILLED = re.compile(r"^\S+: line \d+: +\d+ Killed .*$", re.MULTILINE)
IN_FLIGHT = re.compile(r"\S+: lost or never finished: update \d+ ")
END = "end of command"
# The test's own `c++`.  A command that compiles a program and links it does so in two steps: ccache
# keeps only the first one.
COMPILE = """#!/bin/sh
set -e
compiler() {
    %s "$@"
}
# compile ARGUMENT...: without those for the linker
compile() {
    name=
    for word do
        shift
        case $name$word in
        -o) name=of: ;;
        of:* | -l* | -L*) name= ;;
        *) set -- "$@" "$word" ;;
        esac
    done
    compiler -c "$@" -o "$object"
}
source=
for word do
    case $word in
    -c) compiler "$@"; exit ;;
    *.cpp) source=$word ;;
    esac
done
if [ "$source" ]; then
    object=$0.o
    compile "$@"
    for word do
        shift
        [ "$word" != "$source" ] || word=$object
        set -- "$@" "$word"
    done
fi
compiler "$@"
"""
SECONDS = 200


def fail(block, problem):
    sys.exit(f"{page}:{block.line}: {problem}")


# ---------------------------------------------------------------- the code


def code_of(path):
    """The lines of a file, as the page shows them: without a first comment and tabs."""
    with open(path) as f:
        text = f.read().expandtabs(8)
    return (
        text[text.index("*/\n") + 3 :].splitlines() if path.endswith(".cpp") else text.splitlines()
    )


def contains(lines, part):
    return any(lines[at : at + len(part)] == part for at in range(len(lines)))


def added(before, after):
    """The lines of `after` that are new, with text in them."""
    return [
        line[2:]
        for line in difflib.ndiff(before, after)
        if line.startswith("+ ") and line.strip(" +")
    ]


def cut_steps(folder):
    """Copy examples/tutorial to `folder` and cut the steps there; return their names."""
    shutil.copytree(tutorial, folder)
    subprocess.run(["sh", f"{folder}/cut_steps.sh"], check=True)
    steps = sorted(file for file in os.listdir(folder) if re.fullmatch(r"step\d+\.cpp", file))
    if steps != [f"step{n:02}.cpp" for n in range(1, 12)]:
        sys.exit(f"cut_steps.sh writes {steps}")
    return steps


def check_code(blocks, folder):
    """Each block is a part of its step's program; together they show every new line."""
    steps = cut_steps(folder)
    code = {file: code_of(f"{folder}/{file}") for file in [*steps, "CMakeLists.txt"]}
    shown: dict[str, list[str]] = {}
    for block in blocks:
        step = re.match(r"Step (\d+)", block.section)
        file = f"step{int(step[1]):02}.cpp" if step else ""
        if block.language == "cmake":
            file = "CMakeLists.txt"
        if block.language not in ("cpp", "cmake"):
            continue
        if not file or not contains(code.get(file, []), block.lines):
            fail(block, f"the block is not a part of {file}, as cut_steps.sh cuts it: copy it")
        shown.setdefault(file, []).extend(block.lines)
    if sorted(shown) != sorted(code):
        sys.exit(f"{page}: it shows {sorted(shown)}, and examples/tutorial has {sorted(code)}")
    before: list[str] = []
    for file in steps:
        hidden = [line for line in added(before, code[file]) if line not in shown[file]]
        if hidden:
            sys.exit(f"{page}: it does not show these new lines of {file}:\n" + "\n".join(hidden))
        before = code[file]
    if code["CMakeLists.txt"][-len(shown["CMakeLists.txt"]) :] != shown["CMakeLists.txt"]:
        sys.exit(f"{page}: it does not show the whole CMakeLists.txt")


# ------------------------------------------------------------ the commands


def destination_of(place, name):
    """The folder in which a file was installed."""
    found = [folder for folder, _, files in os.walk(place) if name in files]
    if len(found) != 1:
        sys.exit(f"{name} is installed in {found}")
    return found[0]


def install(place):
    """Install libfur; return the environment of a user who has it."""
    subprocess.run(
        ["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", place], check=True
    )
    prefix = os.path.dirname(destination_of(place, "fur.h"))
    os.mkdir(f"{place}/bin")
    with open(f"{place}/bin/c++", "w") as file:
        file.write(COMPILE % shlex.join([*compiler, *"-Wall -Wextra -Wshadow -Werror".split()]))
    os.chmod(f"{place}/bin/c++", 0o755)
    library = os.path.realpath(destination_of(place, "libfur.so"))
    more = {
        "PATH": f"{place}/bin:{prefix}/bin:{os.environ['PATH']}",
        "CXX": f"{place}/bin/c++",
        "CCACHE_BASEDIR": place,  # whose name is another each time
        "PKG_CONFIG_PATH": destination_of(place, "libfur.pc"),
        "PKG_CONFIG_SYSROOT_DIR": place,
        "CMAKE_PREFIX_PATH": prefix,
        "LD_LIBRARY_PATH": library,
        "LC_ALL": "C",
    }
    return {**os.environ, **more}


def run_script(script, folder, environment):
    """What a shell prints that runs the script."""
    shell = subprocess.Popen(
        ["bash", "--norc"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    try:
        return shell.communicate(script, timeout=SECONDS)[0]
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        return shell.communicate()[0] + f"\n... and went on after {SECONDS} s\n"


def split_console(block):
    """Pairs of a command and the output that the page shows."""
    pairs: list[tuple[str, list[str]]] = []
    for line in block.lines:
        if line.startswith("$ "):
            pairs.append((line[2:], []))
        elif pairs:
            pairs[-1][1].append(line)
        else:
            fail(block, "a block of console begins with a command: $ COMMAND")
    return pairs


def comparable(lines, block):
    if "in flight" in block.notes:
        lines = [line for line in lines if not IN_FLIGHT.match(line)]
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    if "numbers vary" in block.notes:
        # Columns of numbers are aligned.
        text = re.sub(" +", " ", NUMBER.sub("0", text))
        text = re.sub(r"\b0 (\w+)s\b", r"0 \1", text)
    return text


def check_console(block, folder, environment):
    pairs = split_console(block)
    if any(command.startswith("cmake ") for command, _ in pairs) and not shutil.which("cmake"):
        print("no cmake: its part is left out")
        return
    script = "".join(f"{command}\nprintf '\\n{END} %d\\n' $?\n" for command, _ in pairs)
    output = run_script(script, folder, environment)
    print(f"--- {block.section}\n{output}", flush=True)
    parts = re.split(rf"\n{END} (\d+)\n", KILLED.sub("Killed", output))
    if len(parts) != 2 * len(pairs) + 1:
        fail(block, f"not all commands came to an end:\n{output}")
    for n, (command, expected) in enumerate(pairs):
        printed, status = parts[2 * n].splitlines(), int(parts[2 * n + 1])
        if comparable(printed, block) != comparable(expected, block):
            difference = "\n".join(difflib.ndiff(expected, printed))
            fail(block, f"$ {command}\nprints something else (+) than the page (-):\n{difference}")
        must_fail = "fails" in block.notes and n == len(pairs) - 1
        if (status != 0) != must_fail:
            fail(block, f"$ {command}\nends with status {status}")


def main(place):
    blocks = blocks_of(page)
    check_code(blocks, f"{place}/cut")
    folder = f"{place}/work"
    shutil.copytree(tutorial, folder, ignore=shutil.ignore_patterns("step*.cpp"))
    environment = install(place)
    consoles = [block for block in blocks if block.language == "console"]
    if len(consoles) < 10:
        sys.exit(f"{page}: only {len(consoles)} blocks of commands: each step has one")
    for block in consoles:
        check_console(block, folder, environment)


with tempfile.TemporaryDirectory() as test_place:
    main(test_place)
