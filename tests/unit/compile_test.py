#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The public header, as a user's compiler sees it: it compiles alone, without a warning; and a store in a read-only transaction does not
compile, in C and in C++.

    compile_test.py INCLUDE_DIRECTORY COMPILER LANGUAGE   (LANGUAGE: c or c++)
"""
import subprocess
import sys

include, compiler, language = sys.argv[1], sys.argv[2].split(), sys.argv[3]
standard = {"c": "-std=c11", "c++": "-std=c++20"}[language]
flags = ["-x", language, standard, "-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", include, "-"]


def compiles(text):
    done = subprocess.run(compiler + flags, input=text, text=True, stderr=subprocess.PIPE)
    return done.returncode == 0, done.stderr


USE = """#include <fur.h>
void use(%s *tx, long *p, char *c, void **v);
void use(%s *tx, long *p, char *c, void **v)
{
	%s
}
"""
cases = [
    ("the header alone", "#include <fur.h>\n", True),
    ("loads in a read-only transaction", USE % ("fur_ro", "fur_ro", "(void)fur_load(tx, p); (void)fur_load(tx, c); fur_read(tx, v, p, 8);"), True),
    ("stores in an update", USE % ("fur_update", "fur_update", "fur_store(tx, p, 1); fur_store(tx, c, 'x'); fur_store(tx, v, p); (void)fur_load(tx, v);"), True),
    ("a load inside a load inside a store", USE % ("fur_update", "fur_update", "fur_store(tx, p, fur_load(tx, (long *)fur_load(tx, v)) + 1); (void)c;"), True),
    ("a store in a read-only transaction", USE % ("fur_ro", "fur_ro", "fur_store(tx, p, 1); (void)c; (void)v;"), False),
    ("a write in a read-only transaction", USE % ("fur_ro", "fur_ro", "fur_write(tx, p, c, 1); (void)v;"), False),
    ("a load with something that is no transaction", USE % ("fur_heap", "fur_heap", "(void)fur_load(tx, p); (void)c; (void)v;"), False),
    ("a store of a large struct", "#include <fur.h>\nstruct s { char a[24]; };\nvoid f(fur_update *tx, struct s *p, struct s v);\nvoid f(fur_update *tx, struct s *p, struct s v) { fur_store(tx, p, v); }\n", False),
]
if language == "c++":
    cases.append(("fur.hpp alone", "#include <fur.hpp>\n", True))
bad = 0
for name, text, expected in cases:
    result, errors = compiles(text)
    if result != expected:
        bad += 1
        print(f"FAIL {name}: {'compiles' if result else 'does not compile'}\n{errors}")
    else:
        print(f"ok   {name}")
sys.exit(1 if bad else 0)
