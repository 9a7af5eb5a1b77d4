#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The library has the instructions that its protocol needs, in the right places.

    disassembly_test.py OBJDUMP LIBRARY PROCESSOR COMPILER INCLUDE_DIRECTORY
"""
import re
import subprocess
import sys
import tempfile

objdump, library, processor, compiler, include = sys.argv[1:6]
failures = []


def disassemble(path, symbol=None):
    text = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn"]
        + ([f"--disassemble={symbol}"] if symbol else [])
        + [path],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return [m.group(1).strip() for m in re.finditer(r"^\s+[0-9a-f]+:\s+(.*)$", text, re.M)]


def expect(condition, what):
    print(("ok   " if condition else "FAIL ") + what)
    if not condition:
        failures.append(what)


def order(lines, *patterns):
    """The patterns, each found after the one before."""
    at = 0
    for pattern in patterns:
        while at < len(lines) and not re.search(pattern, lines[at]):
            at += 1
        if at == len(lines):
            return False
        at += 1
    return True


def load_is_one_instruction():
    with tempfile.TemporaryDirectory() as place:
        source = (
            "#include <fur.h>\n"
            "long f(fur_ro *tx, const long *p);\n"
            "long f(fur_ro *tx, const long *p) { return fur_load(tx, p); }\n"
        )
        subprocess.run(
            compiler.split()
            + [
                "-x",
                "c",
                "-O2",
                "-fcf-protection=none" if processor == "x86_64" else "-O2",
                "-I",
                include,
                "-c",
                "-o",
                place + "/f.o",
                "-",
            ],
            input=source,
            text=True,
            check=True,
        )
        lines = [
            line
            for line in disassemble(place + "/f.o", "f")
            if not line.startswith(("nop", "data16", "cs nop", "xchg   %ax"))
        ]
    body = {
        "x86_64": [r"^mov +\(%rsi\),%rax$", r"^ret"],
        "ppc64": [r"^ld +r3,0\(r4\)$", r"^blr$"],
        "aarch64": [r"^ldr\s+x0, \[x1\]$", r"^ret$"],
    }[processor]
    expect(
        len(lines) >= 2 and all(re.match(p, line) for p, line in zip(body, lines)),
        f"fur_load in a read-only transaction is one load: {lines[:3]}",
    )


def disassemble_functions(path):
    """The instructions of each function."""
    text = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", path], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found = {}
    for part in re.split(r"^[0-9a-f]+ <", text, flags=re.M)[1:]:
        name, body = part.split(">:\n", 1)
        found[name] = [
            re.sub(r"\s+", " ", line.split("//")[0]).strip()
            for line in re.findall(r"^\s+[0-9a-f]+:\s+(.*)$", body, re.M)
        ]
    return found


def read_modify_writes_are_full_fences(functions):
    """The compiler's own are none: arch_fence_after_rmw()."""
    one = r"^(bl .*<__aarch64_\w+_acq_rel>|casal |swpal |ldaddal |stlxr )"
    some, bare = 0, []
    for name, body in functions.items():
        if name.startswith("__aarch64_"):
            continue
        for at, line in enumerate(body):
            if re.search(one, line):
                some += 1
                if "dmb ish" not in body[at : at + 5]:
                    bare.append(f"{name}: {line}")
    expect(
        some > 20 and not bare, f"aarch64: dmb ish after each of {some} read-modify-writes: {bare}"
    )


def test_aarch64():
    functions = disassemble_functions(library)
    read_modify_writes_are_full_fences(functions)
    for name, what, *patterns in [
        (
            "reader_enter",
            "enters active[], dmb ish, looks at `shut`",
            "^str",
            "^dmb ish$",
            "^ldar",
        ),
        (
            "reader_leave",
            "dmb ishld and ishst, then leaves active[]",
            "^dmb ishld$",
            "^dmb ishst$",
            "^str xzr",
        ),
        (
            "readers_try_shut_out",
            "sets `shut`, dmb ish, drains",
            "^str",
            "^dmb ish$",
            "active_drain",
        ),
        ("stamps_hold", "holds a stamp by a full fence", "cas", "^dmb ish$"),
        ("sweep_begin", "the number, dmb ish, active[]", "^str", "^dmb ish$", "^ldr"),
        ("fur_load_bits", "loads, dmb ishld, looks at the stamp", "^ldr", "^dmb ishld$", "^ldr"),
        ("arch_write_back_fence", "dsb sy", "^dsb sy$"),
    ]:
        expect(order(functions[name], *patterns), f"aarch64: {name}: {what}")
    lines = [line for body in functions.values() for line in body]
    expect(
        any(re.match("^dc cvap,", line) for line in lines)
        and any(re.match("^dc cvac,", line) for line in lines),
        "aarch64: write-back to the point of persistence, and to that of coherency",
    )


load_is_one_instruction()
lines = disassemble(library)
if processor == "x86_64":
    expect(order(lines, r"^xbegin", r"^xabort"), "tsx: xbegin, then the look at `shut` and xabort")
    expect(
        order(lines, r"xsusldtrk", r"^mfence", r"xresldtrk", r"^xend"),
        "tsx: suspend, mfence, resume, xend, in this order",
    )
    expect(
        any("pmem_drain" in line or line.startswith("sfence") for line in lines),
        "x86: write-backs end with libpmem's drain or, without libpmem, with sfence",
    )
elif processor == "aarch64":
    test_aarch64()
else:
    expect(order(lines, r"^tbegin\.\s*1?$"), "power: tbegin.")
    expect(
        any(re.match(r"^tbegin\.\s+1$", line) for line in lines), "power: tbegin. 1, rollback-only"
    )
    suspend = next((i for i, line in enumerate(lines) if line.startswith("tsuspend.")), None)
    expect(suspend is not None, "power: tsuspend.")
    if suspend is not None:
        window = lines[suspend - 1 : suspend + 4]
        expect(
            all(
                re.match(p, line)
                for p, line in zip(
                    [r"^mr +r1,", r"^tsuspend\.", r"^bctrl", r"^tresume\.", r"^mr +r1,"], window
                )
            )
            and len(window) == 5,
            "power: a suspended thread has r1 on the window's stack, where signals may go: "
            f"{window}",
        )
    expect(
        any(line.startswith("tend.") for line in lines)
        and any(line.startswith("tabort.") for line in lines),
        "power: tend., tabort.",
    )
    expect(
        any(re.match(r"^(mfspr +r\d+,130|mftexasr)", line) for line in lines),
        "power: TEXASR is read",
    )
    expect(
        any(re.match(r"^dcbf\s", line) for line in lines)
        and any(re.match(r"^(hw)?sync", line) for line in lines),
        "power: dcbf and sync",
    )
    expect(not any(re.match(r"^dcbst", line) for line in lines), "power: no dcbst")
sys.exit(1 if failures else 0)
