#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""architecture.py accepts a small tree, makes its page, and reports each error planted in it.

    architecture_test.py ARCHITECTURE.PY
"""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from planted_tree import plant, run

BASE = """/* base.h - the machine.  The contract of src/base. */
#define arch_store(p, v) (*(p) = (v))
"""
WORDS = """/* words.h - what threads share.
 *
 * It is the contract of src/pm: words, and how they move.
 */
/* Two words.  Owner: pm/words.c. */
struct words {
\tint first, second;
\tint other; /* Owners: tx/tx.c, pm/words.c. */
};
struct ops {
\tvoid (*end)(struct words *w);
};
void words_move(struct words *w);
"""
MOVER = """/* words.c - moves words. */
static void put(struct words *w)
{
\tarch_store(&w->first, 1); /* A1:31 */
\tw->second = w->other;
}
static void finish(struct words *w)
{
\t(void)w;
}
static const struct ops operations = {finish};
void words_move(struct words *w)
{
\tput(w);
}
"""
TX = """/* tx.c - begins and ends.  The contract of src/tx is fur.h.
 *
 * Way 1, a transaction:
 *
 *     fur_begin()       begins
 *       helper()        helps
 *         put()         stores in active[]
 *     fur_end()         ends
 *       finish()        is called by a table
 */
static void helper(struct words *w)
{
\twords_move(w); /* finish(w) is no call here */
}
int fur_begin(struct words *w)
{
\tprepare(w);
\thelper(w);
\treturn 0;
}
void prepare(struct words *w)
{
\tarch_store(&w->other, 2);
}
int fur_end(struct words *w, const struct ops *ops)
{
\tops->end(w);
\treturn 0;
}
"""
SOUND = {
    "include/fur.h": "int fur_begin(struct words *w);\nint fur_end(struct words *w);\n",
    "src/base/base.h": BASE,
    "src/pm/words.h": WORDS,
    "src/pm/words.c": MOVER,
    "src/tx/tx.c": TX,
}
PAGE = """| 1 | `base` | the machine | 2 | base.h |
| 2 | `pm` | words, and how they move | 28 | words.h |
| 6 | `tx` | begins and ends | 29 | fur.h |
| `words` (pm/words.h) | `first`, `second`: pm/words.c; `other`: tx/tx.c, pm/words.c |
1. A transaction:
    - `fur_begin` (tx/tx.c) begins
      - `helper` (tx/tx.c) helps
        - `put` (pm/words.c) stores in `active[]` (A1: 31)
    - `fur_end` (tx/tx.c) ends
      - `finish` (pm/words.c) is called by a table
"""

# What is changed, the program's options, and a line of the report.
BROKEN = {
    "a function that was removed": (
        {"src/pm/words.c": MOVER.replace("finish", "close")},
        "src/tx/tx.c: way 1: finish is no function",
    ),
    "a step that the one above it does not call": (
        {"src/pm/words.c": MOVER.replace("\tput(w);", "\t/* put(w) */")},
        "src/tx/tx.c: way 1: put is not called by helper",
    ),
    "a step below no function": (
        {"src/tx/tx.c": TX.replace(" *     fur_end()  ", " *     prepare()")},
        "src/tx/tx.c: way 1: prepare stands below no function that calls it",
    ),
    "steps in another order": (
        {
            "src/tx/tx.c": TX.replace("()     ends", "()     ends").replace(
                " *         put()         stores in active[]\n",
                " *       prepare()       too late\n",
            )
        },
        "src/tx/tx.c: way 1: prepare comes before helper in fur_begin",
    ),
    "a way with the wrong number": (
        {"src/tx/tx.c": TX.replace("Way 1", "Way 2")},
        "src/tx/tx.c: way 2 should be number 1",
    ),
    "a step of Algorithm 1 on no way": (
        {
            "src/pm/words.c": MOVER.replace("\t(void)w;", "\t(void)w; /* A1:40 */").replace(
                "finish", "fallback"
            )
        },
        "src/pm/words.c:fallback: has A1:40, and is on no way",
    ),
    "a new folder without a description": (
        {"src/file/heap.h": "/* heap.h - the heap. */\n"},
        "src/file: no file says that it is its contract",
    ),
    "a new folder in no layer": (
        {"src/news/news.h": "/* news.h - the news.  The contract of src/news. */\n"},
        "src/news: in no layer: add it to LAYERS of structure.py",
    ),
    "a contract that is no file": (
        {"src/pm/words.h": WORDS.replace(" * It is", " * With gone.h it is")},
        "src/pm/words.h: the contract names gone.h, which is no file",
    ),
    "an owner that is no file": (
        {"src/pm/words.h": WORDS.replace("Owner: pm/words.c", "Owner: pm/gone.c")},
        "src/pm/words.h: words: the owner src/pm/gone.c is no file",
    ),
    "an owner that does not know its word": (
        {"src/pm/words.c": MOVER.replace("\tw->second = w->other;\n", "")},
        "src/pm/words.h: words.second: pm/words.c has no such word",
    ),
    "a store by a file that does not own the word": (
        {"src/tx/tx.c": TX.replace("&w->other", "&w->second")},
        "src/tx/tx.c: stores to `second`, which it does not own",
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
        page = (root / "docs/architecture.md").read_text()
        for line in PAGE.splitlines():
            if line not in page.splitlines():
                return f"the page lacks '{line}':\n{page}"
        status, output = run(program, root, "--check")
        if status:
            return f"the page just made is refused: {output}"
        plant(root, {"src/pm/words.h": WORDS + "\n"})
        if run(program, root, "--check")[0]:
            return "one more line of code makes the page out of date"
        plant(root, {"src/pm/words.h": WORDS + 9 * "\n"})
        if run(program, root, "--check")[0] == 0:
            return "a page that is a third off is accepted"
        plant(root, {"src/pm/words.h": WORDS})
        plant(root, {"src/base/base.h": BASE.replace("machine", "processor")})
        status, output = run(program, root, "--check")
        if status == 0 or "docs/architecture.md is out of date" not in output:
            return "a page that is out of date is accepted"
    return ""


def compile_library(root: Path, tx: str) -> None:
    """Build what looks like the library, with this text for tx.c."""
    objects = []
    for source, text in {"pm/words.c": MOVER, "tx/tx.c": tx}.items():
        built = root / "build/src" / (source.replace("/", "_") + ".o")
        built.parent.mkdir(parents=True, exist_ok=True)
        headers = BASE + WORDS + "void prepare(struct words *w);\n"
        command = ["cc", "-w", "-xc", "-c", "-", "-o", str(built)]
        subprocess.run(command, input=headers + text, text=True, check=True)
        objects.append(str(built))
    archive = root / "build/src/libfur_internal.a"
    archive.unlink(missing_ok=True)
    subprocess.run(["ar", "rcs", str(archive), *objects], check=True)


def check_built(program: str) -> str:
    """With the built library, a call between files needs a reference there."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        plant(root, SOUND)
        options = ["--build", str(root / "build")]
        compile_library(root, TX)
        status, output = run(program, root, *options)
        if status:
            return f"the sound library is refused: {output}"
        compile_library(root, TX.replace("\twords_move(w);", "\t"))
        status, output = run(program, root, *options)
        if status == 0 or "put is not called by helper" not in output:
            return f"a call that the library lacks is accepted: {output}"
    return ""


def main() -> int:
    failed = False
    checks = {"the page": check_sound}
    if shutil.which("cc") and shutil.which("ar"):
        checks["the page of a built library"] = check_built
    for name, check in checks.items():
        wrong = check(sys.argv[1])
        print(f"FAIL {wrong}" if wrong else f"ok   {name}")
        failed = failed or bool(wrong)
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
