#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""invariants.py accepts a small tree, makes its page, and reports each error planted in it.

    invariants_test.py INVARIANTS.PY
"""
import sys
import tempfile
from pathlib import Path

from planted_tree import plant, run

# Not in one piece: the project's own invariants are found by their names.
Q1, Q2, Q3, Q4, Q9 = ("INV" + f"-Q{n}" for n in (1, 2, 3, 4, 9))
HEADER = f"""/* a.h - of a.
 *
 *   {Q1}  The first,
 *           in two lines; see {Q2}.
 *   {Q2}  The second.
 */
"""
SOURCE = f"""/* {Q2}, {Q4} */
int f(void)
{{
\treturn 0; /* {Q1} */
}}
"""
PATCH = f"a bug\nInvariant: {Q1}\nModel: tsx-MUTANT\nFound by: explore\n--- a/src/a.c\n"
SOUND = {
    "src/base/a.h": HEADER,
    "src/base/a.c": SOURCE,
    "docs/a.md": f"Argued here ({Q1}).\n",
    "tests/plants/a-bug.patch": PATCH,
    "tests/models/fur.pml": (
        f"/*\n *   {Q4}  The fourth.\n *   MUTANT  something is missing ({Q1})\n */\n"
    ),
    "tests/models/models.py": "print('tsx')\nprint('tsx-MUTANT')\nprint('tsx-OTHER')\n",
}
ROWS = (
    f"| {Q1} | The first, in two lines; see {Q2}. | src/base/a.c `f`, docs/a.md, "
    "tests/models/fur.pml | a-bug | MUTANT |",
    f"| {Q4} | The fourth. | src/base/a.c `f` |  |  |",
)

# What is changed, and a line of the report.
BROKEN = {
    "an id with two definitions": (
        {"src/pm/b.h": f"/*\n *   {Q1}  Another.\n */\n"},
        f"src/pm/b.h: {Q1} is already defined in src/base/a.h",
    ),
    "a citation of nothing": (
        {"src/pm/b.c": f"int g(void); /* {Q9} */\n"},
        f"src/pm/b.c:1: {Q9} is defined nowhere",
    ),
    "a citation of nothing in a page": (
        {"docs/b.md": f"See {Q9}.\n"},
        f"docs/b.md:1: {Q9} is defined nowhere",
    ),
    "a citation of no mutation": (
        {"src/pm/b.c": "int g(void); /* (model:\n * NOMUTANT). */\n"},
        "src/pm/b.c: no model has a mutation 'NOMUTANT'",
    ),
    "an invariant that only a page cites": (
        {"src/pm/b.h": f"/*\n *   {Q3}  Idle.\n */\n", "docs/b.md": f"See {Q3}.\n"},
        f"src/pm/b.h: {Q3} is cited nowhere",
    ),
    "a planted bug that breaks nothing": (
        {"tests/plants/b.patch": PATCH.replace(Q1, Q9)},
        "b.patch: no invariant, or one that is defined nowhere",
    ),
    "a case that the model lacks": (
        {"tests/plants/b.patch": PATCH.replace("MUTANT", "NOBODY")},
        "b.patch: models.py has no case 'tsx-NOBODY'",
    ),
    "a case that breaks another invariant": (
        {"tests/plants/b.patch": PATCH.replace(Q1, Q2)},
        f"b.patch: case 'tsx-MUTANT' of the model breaks {Q1}",
    ),
}


def check_sound(program: str) -> str:
    """What is wrong with the page of the sound tree, if anything."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        plant(root, SOUND)
        if run(program, root, "--check")[0] == 0:
            return "a missing page is accepted"
        status, output = run(program, root)
        if status:
            return f"the sound tree is refused: {output}"
        page = root / "docs/invariants.md"
        for row in ROWS:
            if row not in page.read_text():
                return f"the page lacks '{row}':\n{page.read_text()}"
        status, output = run(program, root, "--check")
        if status:
            return f"the page just made is refused: {output}"
        plant(root, {"src/base/a.h": HEADER.replace("second", "2nd")})
        if run(program, root, "--check")[0] == 0:
            return "a page that is out of date is accepted"
    return ""


def main() -> int:
    wrong = check_sound(sys.argv[1])
    print(f"FAIL {wrong}" if wrong else "ok   the page")
    failed = bool(wrong)
    for name, (changes, line) in BROKEN.items():
        with tempfile.TemporaryDirectory() as scratch:
            plant(Path(scratch), {**SOUND, **changes})
            status, output = run(sys.argv[1], Path(scratch))
        good = status == 1 and line in output
        print(f"{'ok  ' if good else 'FAIL'} {name}")
        if not good:
            print(f"status {status}, without '{line}':\n{output}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
