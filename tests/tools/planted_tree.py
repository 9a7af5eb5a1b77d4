# SPDX-License-Identifier: BSD-3-Clause
"""For tests of the programs that read a tree: plant a small one, and run the program on it."""
import contextlib
import importlib
import io
import sys
import unittest.mock
from pathlib import Path


def plant(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def run(program: str, root: Path, *options: str) -> tuple[int, str]:
    """The program's exit status, and all that it prints.  It runs in this process, because an
    interpreter takes longer to start than it takes for the tree."""
    sys.path.insert(0, str(Path(program).parent))
    main = importlib.import_module(Path(program).stem).main
    said = io.StringIO()
    arguments = unittest.mock.patch.object(sys, "argv", [program, "--root", str(root), *options])
    with arguments, contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status = main()
        except SystemExit as error:
            status = error.code
    return status, said.getvalue()
