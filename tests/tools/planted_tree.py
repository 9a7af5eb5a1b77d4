# SPDX-License-Identifier: BSD-3-Clause
"""For tests of the programs that read a tree: plant a small one, and run the program on it."""
import subprocess
from pathlib import Path


def plant(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def run(program: str, root: Path, *options: str) -> tuple[int, str]:
    """The program's exit status, and all that it prints."""
    command = [program, "--root", str(root), *options]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr
