#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The interpreter of near memory against QEMU: all registers before each instruction.

    qemu_test.py NEAR_STEPS COMPILER KERNEL.LD [--seeds N]

Random programs have every instruction of RV32I and of the extension M, between values at the edges.
"""
import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

REGISTER = ["add", "sub", "sll", "slt", "sltu", "xor", "srl", "sra", "or", "and"]
M = ["mul", "mulh", "mulhsu", "mulhu", "div", "divu", "rem", "remu"]
IMMEDIATE = ["addi", "slti", "sltiu", "xori", "ori", "andi"]
SHIFT = ["slli", "srli", "srai"]
BRANCH = ["beq", "bne", "blt", "bge", "bltu", "bgeu"]
LOAD = {"lb": 1, "lh": 2, "lw": 4, "lbu": 1, "lhu": 2}
STORE = {"sb": 1, "sh": 2, "sw": 4}
OTHERS = ["lui", "auipc", "jal", "jalr", "fence"]
EDGES = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0xFFFFFFFE, 0x55555555, 31, 32]

IMMEDIATES = [-2048, -1, 0, 1, 2, 31, 32, 2047]

INSTRUCTIONS = 3000
DATA = 2000  # bytes


class Programs:
    """Makes programs.  x31 points to the data, x30 is for jumps: nothing else writes to them."""

    def __init__(self, seed: int, isa: str) -> None:
        self.random = random.Random(seed)
        self.isa = isa
        self.lines: list[str] = []
        self.labels = 0

    def value(self) -> int:
        r = self.random
        return r.choice(EDGES) if r.random() < 0.5 else r.getrandbits(32)

    def source(self) -> int:
        return self.random.randrange(32)

    def target(self) -> int:
        return self.random.randrange(30)

    def skip(self) -> str:
        """A label a few instructions further on."""
        self.labels += 1
        return f"f{self.labels}"

    def add(self, name: str) -> None:
        r, a, b, d = self.random, self.source(), self.source(), self.target()
        out = self.lines.append
        if name in REGISTER or name in M:
            out(f"{name} x{d}, x{a}, x{b}")
        elif name in IMMEDIATE:
            out(f"{name} x{d}, x{a}, {r.randint(-2048, 2047)}")
        elif name in SHIFT:
            out(f"{name} x{d}, x{a}, {r.randrange(32)}")
        elif name in LOAD:
            out(f"{name} x{d}, {r.randrange(DATA // 4) // LOAD[name] * LOAD[name]}(x31)")
        elif name in STORE:
            out(f"{name} x{b}, {r.randrange(DATA // 4) // STORE[name] * STORE[name]}(x31)")
        elif name in BRANCH:
            self.jump_over(f"{name} x{a}, x{b if r.random() < 0.8 else a}, {{}}")
        elif name == "jal":
            self.jump_over(f"jal x{d}, {{}}")
        elif name == "jalr":
            # The lowest bit of the sum is ignored.
            out("auipc x30, 0")
            out(f"jalr x{d}, {r.choice([12, 13, 16])}(x30)")
            self.lines += [f"addi x{d}, x{d}, 1", f"xori x{a % 30}, x{b}, 5"]
        elif name in ("lui", "auipc"):
            out(f"{name} x{d}, {r.getrandbits(20)}")
        else:
            out(name)

    def jump_over(self, text: str) -> None:
        label = self.skip()
        self.lines.append(text.format(label))
        for _ in range(self.random.randrange(3)):
            self.add(self.random.choice(IMMEDIATE))
        self.lines.append(f"{label}:")

    def begin(self) -> None:
        self.lines = [f"li x{k}, {self.value()}" for k in range(1, 31)]
        self.lines.append("la x31, data")

    def edges(self) -> str:
        """Every operation on every pair of edges."""
        self.begin()
        ops = REGISTER + (M if self.isa == "rv32im" else [])
        for a in EDGES:
            self.lines.append(f"li x5, {a}")
            for b in EDGES:
                self.lines.append(f"li x6, {b}")
                self.lines += [f"{op} x7, x5, x6" for op in ops]
                for op in BRANCH:
                    self.jump_over(f"{op} x5, x6, {{}}")
            for b in IMMEDIATES:
                self.lines += [f"li x5, {b}"] if a == EDGES[0] else []
                self.lines += [f"{op} x7, x5, {b}" for op in IMMEDIATE]
                self.lines += [f"{op} x7, x5, {b & 31}" for op in SHIFT]
            self.lines += [f"li x5, {a}", "sw x5, 0(x31)"]
            self.lines += [f"{op} x7, 0(x31)" for op in LOAD]
        return self.whole()

    def text(self) -> str:
        self.begin()
        names = REGISTER + IMMEDIATE + SHIFT + BRANCH + list(LOAD) + list(STORE) + OTHERS
        names += M if self.isa == "rv32im" else []
        # Each at least once, then as it comes; now and then a register gets an edge again.
        for name in names + self.random.choices(names, k=INSTRUCTIONS):
            self.add(name)
            if self.random.random() < 0.1:
                self.lines.append(f"li x{self.target()}, {self.value()}")
        # A loop backwards.
        self.lines += ["li x5, 20", "loop:", "addi x5, x5, -1", "sw x5, 8(x31)", "bnez x5, loop"]
        return self.whole()

    def whole(self) -> str:
        words = ", ".join(str(self.value()) for _ in range(DATA // 4))
        return (
            ".globl near_start\n.text\n.option norvc\n.option norelax\nnear_start:\n"
            + "\n".join(self.lines)
            + "\nli a7, 93\nli a0, 0\necall\n.data\n.balign 8\ndata:\n.word "
            + words
            + "\n"
        )


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def steps_of_qemu(elf: Path, log: Path) -> list[str]:
    run(["qemu-riscv32", "-singlestep", "-d", "cpu,nochain", "-D", str(log), str(elf)])
    steps = []
    for state in re.split(r"^ pc +", log.read_text(), flags=re.MULTILINE)[1:]:
        values = dict(re.findall(r"x(\d+)/\w+ +([0-9a-f]{8})", state))
        steps.append(" ".join([state[:8]] + [values[str(k)] for k in range(1, 32)]))
    return steps


def compare(ours: list[str], theirs: list[str], where: str) -> None:
    # Linux gives a program a stack pointer and nothing else: the first instructions set all
    # registers, so compare whole rows from there.
    if len(ours) != len(theirs):
        sys.exit(f"{where}: {len(ours)} steps, and QEMU makes {len(theirs)}")
    for at, (a, b) in enumerate(zip(ours, theirs)):
        if a[:8] != b[:8] or (at > 70 and a != b):
            sys.exit(f"{where}: step {at}:\n    {a}\nQEMU:\n    {b}\nbefore:\n    {ours[at - 1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps")
    parser.add_argument("compiler")
    parser.add_argument("script")
    parser.add_argument("--seeds", type=int, default=8)
    args = parser.parse_args()
    total = 0
    with tempfile.TemporaryDirectory() as scratch:
        source, elf, log = (Path(scratch) / name for name in ("p.S", "p.elf", "log"))
        for seed in range(args.seeds):
            isa = ["rv32im", "rv32i"][seed % 2]
            programs = Programs(seed, isa)
            source.write_text(programs.edges() if seed < 2 else programs.text())
            command = [args.compiler, f"-march={isa}", "-mabi=ilp32", "-nostdlib", "-static"]
            command += ["-Wl,--no-warn-rwx-segments", "-T", args.script, str(source)]
            run(command + ["-o", str(elf)])
            *ours, fault = run([args.steps, str(elf), isa]).splitlines()
            # NEAR_FAULT_INSTRUCTION, at the ecall that ends the program for QEMU.
            if fault != f"fault 11 {ours[-1][:8]}":
                sys.exit(f"seed {seed}: the interpreter ends with '{fault}'")
            compare(ours, steps_of_qemu(elf, log), f"seed {seed}, {isa}")
            total += len(ours)
    if total < args.seeds * INSTRUCTIONS / 2:
        sys.exit(f"only {total} instructions were compared")
    print(f"{total} instructions compared")


main()
