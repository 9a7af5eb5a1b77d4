#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compile a kernel (near/kernel.h) for the emulated elements, as a C file that has its images.

    kernel_images.py --compiler GCC|none [--include DIRECTORY] ... [--define MACRO] ...
                     [--name KERNEL] KERNEL.c OUTPUT.c DEPFILE

OUTPUT.c defines `const struct near_images KERNEL_images`: an ELF image for each instruction set
of the machines.  Without a compiler the list is empty, and near_load() says what is missing.
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent

# DPUs have no 32-bit multiplication; MicroBlaze cores have one.
ISAS = ["rv32i", "rv32im"]

FLAGS = (
    "-std=gnu11 -O2 -mabi=ilp32 -mcmodel=medlow -ffreestanding -fno-pic -fno-common "
    "-ffunction-sections -fno-tree-loop-distribute-patterns -Wall -Wextra -Werror"
).split()
LINK_FLAGS = (
    "-mabi=ilp32 -nostdlib -nostartfiles -static -Wl,--gc-sections -Wl,--no-warn-rwx-segments"
).split()


def run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def check_variables(compiler: str, elf: Path, kernel: Path) -> None:
    """On the host, all elements would share a variable."""
    nm = re.sub(r"gcc$", "nm", compiler)
    for line in run([nm, str(elf)]).splitlines():
        kind, name = line.split()[-2:]
        if kind in "bBdDgGsS" and name not in ("near_shared", "__global_pointer$"):
            sys.exit(f"{kernel}: `{name}` has static storage: put it into the shared struct")


def compile_for(isa: str, args: argparse.Namespace, scratch: Path) -> bytes:
    elf, compiled = scratch / f"{isa}.elf", scratch / f"{isa}.o"
    # ccache keeps what is compiled, and nothing that is linked in the same step.
    ccache = [found] if (found := shutil.which("ccache")) else []
    command = [*ccache, args.compiler, f"-march={isa}", *FLAGS]
    command += [f"-I{folder}" for folder in args.include]
    command += [f"-D{macro}" for macro in args.define]
    # One translation unit, so one depfile.
    command += ["-MMD", "-MF", str(scratch / "dep"), "-MT", args.output]
    command += ["-include", str(HERE / "runtime_rv32.c"), "-c", str(args.kernel)]
    run(command + ["-o", str(compiled)])
    script = ["-T", str(HERE / "kernel.ld")]
    run(
        [args.compiler, f"-march={isa}", *LINK_FLAGS, str(compiled), *script]
        + ["-o", str(elf), "-lgcc"]
    )
    check_variables(args.compiler, elf, args.kernel)
    return elf.read_bytes()


def numbers_of(data: bytes) -> str:
    return "".join(
        "\t" + "".join(f"{byte}," for byte in data[at : at + 24]) + "\n"
        for at in range(0, len(data), 24)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--define", action="append", default=[])
    parser.add_argument("--name", help="of the kernel, if it is not that of its file")
    parser.add_argument("kernel", type=Path)
    parser.add_argument("output")
    parser.add_argument("depfile", type=Path)
    args = parser.parse_args()
    name = args.name or args.kernel.stem
    text = '#include "near/kernel_image.h"\n\nextern const struct near_images %s_images;\n' % name
    version, rows, dependencies = "NULL", "", f"{args.output}: {args.kernel}"
    if args.compiler != "none":
        version = '"%s"' % run([args.compiler, "--version"]).splitlines()[0].replace('"', "'")
        with tempfile.TemporaryDirectory() as scratch:
            for isa in ISAS:
                image = compile_for(isa, args, Path(scratch))
                text += f"static const unsigned char {isa}[] = {{\n{numbers_of(image)}}};\n"
                rows += f'\t{{"{isa}", {isa}, sizeof({isa})}},\n'
            dependencies = (Path(scratch) / "dep").read_text().rstrip("\n")
    if rows:
        text += f"static const struct near_image images[] = {{\n{rows}}};\n"
    images = f"images, {len(ISAS)}" if rows else "NULL, 0"
    text += f"const struct near_images {name}_images = {{{version}, {images}}};\n"
    Path(args.output).write_text(text)
    own = f" {HERE / 'kernel.ld'} {HERE / 'kernel_images.py'}"
    args.depfile.write_text(dependencies + own + "\n")


main()
