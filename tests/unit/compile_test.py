#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The public headers, as a user's compiler sees them: each compiles alone and without a warning, in
each standard that it supports; a store in a read-only transaction does not compile.

    compile_test.py INCLUDE_DIRECTORY COMPILER LANGUAGE   (LANGUAGE: c or c++)
"""
import subprocess
import sys

include, compiler, language = sys.argv[1], sys.argv[2].split(), sys.argv[3]
standards = {"c": ["c11", "c17", "c2x"], "c++": ["c++11", "c++14", "c++17", "c++20", "c++2b"]}[
    language
]
flags = [
    "-x",
    language,
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wpedantic",
    "-Werror",
    "-fsyntax-only",
    "-I",
    include,
    "-",
]


def compiles(text, standard):
    done = subprocess.run(
        compiler + ["-std=" + standard] + flags, input=text, text=True, stderr=subprocess.PIPE
    )
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
    (
        "loads in a read-only transaction",
        USE
        % (
            "fur_ro",
            "fur_ro",
            "(void)fur_load(tx, p); (void)fur_load(tx, c); fur_read(tx, v, p, 8);",
        ),
        True,
    ),
    (
        "stores in an update",
        USE
        % (
            "fur_update",
            "fur_update",
            "fur_store(tx, p, 1); fur_store(tx, c, 'x'); fur_store(tx, v, p); "
            "(void)fur_load(tx, v);",
        ),
        True,
    ),
    (
        "a load inside a load inside a store",
        USE
        % (
            "fur_update",
            "fur_update",
            "fur_store(tx, p, fur_load(tx, (long *)fur_load(tx, v)) + 1); (void)c;",
        ),
        True,
    ),
    (
        "a store in a read-only transaction",
        USE % ("fur_ro", "fur_ro", "fur_store(tx, p, 1); (void)c; (void)v;"),
        False,
    ),
    (
        "a write in a read-only transaction",
        USE % ("fur_ro", "fur_ro", "fur_write(tx, p, c, 1); (void)v;"),
        False,
    ),
    (
        "a load with something that is no transaction",
        USE % ("fur_heap", "fur_heap", "(void)fur_load(tx, p); (void)c; (void)v;"),
        False,
    ),
    (
        "a store of a large struct",
        "#include <fur.h>\n"
        "struct s { char a[24]; };\n"
        "void f(fur_update *tx, struct s *p, struct s v);\n"
        "void f(fur_update *tx, struct s *p, struct s v) { fur_store(tx, p, v); }\n",
        False,
    ),
]
# fur_load() takes a const T *: no cast at the call, and a T as the result.
CONST = """#include <fur.h>
struct bytes { char a[8]; };
struct halves { uint32_t a, b; };
#define USE(T, name)                                                      \\
    T ro_##name(fur_ro *tx, const T *p);                                  \\
    T ro_##name(fur_ro *tx, const T *p) { return fur_load(tx, p); }       \\
    T up_##name(fur_update *tx, const T *p);                              \\
    T up_##name(fur_update *tx, const T *p)                               \\
    {                                                                     \\
        T value = fur_load(tx, p);                                        \\
        value = fur_load(tx, p);                                          \\
        return value;                                                     \\
    }
USE(int8_t, i8)
USE(uint8_t, u8)
USE(bool, flag)
USE(int16_t, i16)
USE(uint32_t, u32)
USE(float, real)
USE(uint64_t, u64)
USE(double, wide)
USE(struct bytes, bytes)
USE(struct halves, halves)
typedef const long *const_long;
USE(const_long, pointer)
"""
cases.append(("loads through pointers to const", CONST, True))
HPP = """#include <fur.hpp>
long f(fur_thread *t, const long *p);
long f(fur_thread *t, const long *p)
{
    fur::update(t, [&](fur_update *tx) { fur_set_root(tx, 0, fur::make<long>(tx)); });
    return fur::read(t, [&](fur_ro *tx) { return fur_load(tx, p); });
}
"""
ALIGNED = """#include <fur.hpp>
struct alignas(%s) Record { char bytes[40]; };
void f(fur_thread *t);
void f(fur_thread *t)
{
    fur::update(t, [&](fur_update *tx) { fur_set_root(tx, 0, fur::make<Record>(tx)); });
}
"""
bad = 0


def check(name, text, standard, expected, says=""):
    global bad
    result, errors = compiles(text, standard)
    good = result == expected and says in errors
    bad += not good
    print(
        f"{'ok  ' if good else 'FAIL'} {standard}: {name}"
        + ("" if good else f": {'compiles' if result else 'does not compile'}\n{errors}")
    )


for standard in standards:
    for name, text, expected in cases:
        check(name, text, standard, expected)
    if language == "c++" and standard < "c++17":
        check("fur.hpp is refused", HPP, standard, False, "fur.hpp needs C++17")
    elif language == "c++":
        check("fur.hpp", HPP, standard, True)
        check("make at the largest alignment", ALIGNED % "FUR_MOST_ALIGNMENT", standard, True)
        check(
            "make at twice that",
            ALIGNED % "2 * FUR_MOST_ALIGNMENT",
            standard,
            False,
            "the alignment is larger than FUR_MOST_ALIGNMENT",
        )
sys.exit(1 if bad else 0)
