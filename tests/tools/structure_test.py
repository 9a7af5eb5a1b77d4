#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""structure.py passes a small tree that follows the rules, and reports each rule broken in it.

    structure_test.py STRUCTURE.PY
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from planted_tree import plant, run

LONG_LINE = "word " * 25

# What a page may tell of the layers.
LAYERS = """base < pm < media < file < durability < tx, replay < htm < stm < update < alloc <
bulk < api < map, replayer, ship, itm, group < fur_ship, fur_standby"""
FOLDERS = "    src/ the library\n" + "".join(
    f"      {folder}/ a folder\n"
    for folder in (
        "map group api bulk alloc update stm htm tx replay durability file media pm base".split()
    )
)
FOLDERS += "    src/fur_ship/ a program\n    src/fur_standby/ a program\n"
FOLDERS += "    src/replayer/ a program\n    src/ship/ a library\n"
FOLDERS += "    src/itm/ a library\n"

# A tree that follows the rules, those that need care included.
SOUND = {
    "include/fur.h": "int fur_a(void);\n",
    "emulator/emulated.h": "int emu(void);\n",
    "src/base/arch.h": '#if defined(FUR_EMULATED)\n#include "emulated.h"\n#endif\n',
    "src/base/error.h": '#include "base/arch.h"\nint fail(void);\n',
    "src/base/error.c": '#include "base/error.h"\nint fail(void)\n{\n\treturn 0;\n}\n',
    "src/htm/htm.h": '#include "base/error.h"\nint begin(void);\n',
    "src/htm/htm.c": '#include "htm/htm.h"\nint begin(void)\n{\n\treturn fail();\n}\n',
    "src/replay/replay.h": '#include "base/error.h"\n/* open() a file */\n',
    "src/base/system.c": 'int fail(void);\nint opens(void)\n{\n\treturn open("x", 0);\n}\n',
    "src/internals.hpp": '#include "htm/htm.h"\n',
    "README.md": f"# Short\n\n| {LONG_LINE} |\n\n    {LONG_LINE}\n\n```\n{LONG_LINE}\n```\n\n"
    f"https://example.org/{'x' * 100}\n",
    "CONTRIBUTING.md": f"The layers:\n`{LAYERS}`.\n\n{FOLDERS}",
    "docs/figures/runs.jsonl": '{"run": 1}\n' * 2000,
    "docs/figures/picture.png": "\x89PNG\0" + "\n" * 2001,
    "tools/short.py": "def f():\n" + "    pass\n" * 59,
    # Words that pages and comments do without, where they may stand.
    "docs/words.md": "# `nobody`\n\n    nobody logs in\n\n```\nmore or less\n```\n\n"
    "So many updates wait that\nthe ring is full. They, too, wait.\n",
    "src/base/words.h": "enum { NOBODY, nobody }; /* NOBODY, or `whoever` */\n"
    "/* HoldsNobodyUp */\n",
    "tests/words.cpp": 'const char *name = "user nobody, or more or less so";\n',
}


def function(lines: int) -> str:
    return "int many(void)\n{\n" + "\tfail();\n" * (lines - 4) + "\treturn 0;\n}\n"


# What is changed in it, and a line of the report.
BROKEN = {
    "an upward include": (
        {"src/base/error.h": '#include "htm/htm.h"\n'},
        "layers   src/base/error.h:1: includes src/htm/htm.h: base may not use htm",
    ),
    "an include sideways": (
        {"src/replay/replay.h": '#include "htm/htm.h"\n'},
        "layers   src/replay/replay.h:1: includes src/htm/htm.h: replay may not use htm",
    ),
    "a layer that includes the header for tests": (
        {"src/replay/replay.h": '#include "internals.hpp"\n'},
        "layers   src/replay/replay.h:1: includes src/internals.hpp, which is no part of",
    ),
    "an unknown folder": (
        {"src/news/news.c": '#include "base/error.h"\n'},
        "layers   src/news/news.c:1: folder news is in no layer",
    ),
    "the emulated machine in the wrong file": (
        {"src/htm/htm.h": '#if defined(FUR_EMULATED)\n#include "emulated.h"\n#endif\n'},
        "layers   src/htm/htm.h:2: includes emulator/emulated.h; only",
    ),
    "the emulated machine for everybody": (
        {"src/base/arch.h": '#include "emulated.h"\n'},
        "layers   src/base/arch.h:1: includes emulator/emulated.h without FUR_EMULATED",
    ),
    "files in a circle": (
        {"src/base/arch.h": '#include "base/error.h"\n'},
        "circles  src/base/arch.h: includes in a circle: src/base/arch.h src/base/error.h",
    ),
    "folders in a circle": (
        {"src/base/up.h": '#include "replay/replay.h"\n'},
        "circles  base: includes in a circle: base replay",
    ),
    "a long line": (
        {"src/base/error.c": "\t\t\t/* " + "x" * 80 + " */\n"},
        "width    src/base/error.c:1: 110 columns",
    ),
    "a long line of prose": (
        {"README.md": f"# Short\n\n{LONG_LINE}\n"},
        "width    README.md:3: 125 columns",
    ),
    "a word in a comment": (
        {"src/htm/htm.h": "int begin(void);\n/* So nobody\n * waits. */\n"},
        "words    src/htm/htm.h:2: 'nobody': write it another way",
    ),
    "a word in two lines of a comment": (
        {"src/htm/htm.h": "int begin(void);\n/* You had\n * better wait. */\n"},
        "words    src/htm/htm.h:2: 'had better'",
    ),
    "a word at the end of a comment": (
        {"src/htm/htm.h": "int begin(void); /* it waits,\n * too */\n/* Next */\n"},
        "words    src/htm/htm.h:1: ', too'",
    ),
    "a word in a message of two lines": (
        {"src/htm/htm.c": 'int begin(void)\n{\n\treturn fail("wait some "\n\t\t"ten ns");\n}\n'},
        "words    src/htm/htm.c:3: 'some ten'",
    ),
    "a word of a page": (
        {"README.md": "# Short\n\nThe log holds so many\nupdates. That is all.\n"},
        "words    README.md:3: 'so many'",
    ),
    "a word in a table": (
        {"README.md": "| it holds | it reports, too |\n"},
        "words    README.md:1: ', too'",
    ),
    "a word in a docstring": (
        {"tools/short.py": 'def f():\n    """F.\n\n    About 5, more or\n    less."""\n'},
        "words    tools/short.py:4: 'more or less'",
    ),
    "a word in a comment of the build": (
        {"meson.build": "# As large as it may be\n# for whoever builds.\n"},
        "words    meson.build:2: 'whoever'",
    ),
    "a long function of C": (
        {"src/htm/htm.c": function(61)},
        "length   src/htm/htm.c:1: many: 61 lines",
    ),
    "a long function of Python": (
        {"tools/short.py": "def f():\n" + "    pass\n" * 60},
        "length   tools/short.py:1: f: 61 lines",
    ),
    "generated data of many lines": (
        {"docs/figures/results.json": "[\n" + "1,\n" * 1998 + "1\n]\n"},
        "data     docs/figures/results.json: has 2001 lines, more than 2000: write a run on each",
    ),
    "a page without a layer": (
        {"CONTRIBUTING.md": f"`{LAYERS.replace('bulk < ', '')}`\n"},
        "pages    CONTRIBUTING.md: the layers are base < pm",
    ),
    "a page without a folder": (
        {"CONTRIBUTING.md": FOLDERS.replace("      bulk/ a folder\n", "")},
        "pages    CONTRIBUTING.md: the list of src's folders has no bulk",
    ),
    "a page with folders in another order": (
        {
            "CONTRIBUTING.md": FOLDERS.replace("api/", "x/")
            .replace("bulk/", "api/")
            .replace("x/", "bulk/")
        },
        "pages    CONTRIBUTING.md: lists bulk above api, a higher layer",
    ),
    "a file that is opened in another place": (
        {"src/htm/htm.c": 'int begin(void)\n{\n\treturn open("x", 0);\n}\n'},
        "system   src/htm/htm.c:3: calls open(): call it by base/system.h",
    ),
    "a call that a signal may fail": (
        {"src/htm/htm.c": "int begin(void)\n{\n\treturn fdatasync(0); /* open() */\n}\n"},
        "system   src/htm/htm.c:3: calls fdatasync(): call it by base/system.h",
    ),
    "a call that goes up": (
        {"src/base/error.c": "int begin(void);\nint fail(void)\n{\n\treturn begin();\n}\n"},
        "calls    src/base/error.c: refers to begin, which src/htm/htm.c defines",
    ),
}


def build(root: Path) -> None:
    """An archive with objects named as Meson names them."""
    place = root / "build" / "src"
    place.mkdir(parents=True)
    sources = sorted((root / "src").glob("*/*.c"))
    names = [f"{source.parent.name}_{source.name}.o" for source in sources]
    for source, name in zip(sources, names):
        command = ["cc", "-w", f"-I{root}/src", "-c", str(source), "-o", name]
        subprocess.run(command, cwd=place, check=True)
    subprocess.run(["ar", "rcs", "libfur_internal.a", *names], cwd=place, check=True)


def check(structure: str, changes: dict[str, str]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        plant(root, {**SOUND, **changes})
        options = []
        if any(name.endswith(".c") for name in changes) or not changes:
            if "src/news/news.c" not in changes:
                build(root)
                options = ["--build", str(root / "build")]
        return run(structure, root, *options)


def main() -> int:
    structure = sys.argv[1]
    status, output = check(structure, {})
    if status:
        print(f"FAIL: the sound tree is refused:\n{output}")
        return 1
    failed = 0
    for name, (changes, line) in BROKEN.items():
        status, output = check(structure, changes)
        good = status == 1 and line in output
        print(f"{'ok  ' if good else 'FAIL'} {name}")
        if not good:
            print(f"status {status}, without '{line}':\n{output}")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
