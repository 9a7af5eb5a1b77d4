# SPDX-License-Identifier: BSD-3-Clause
"""What pip builds and installs: the package, with its types, and nothing else."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).parents[1]


@unittest.skipUnless(importlib.util.find_spec("setuptools"), "setuptools is not installed")
class Packaging(unittest.TestCase):
    def test_a_source_distribution_can_be_installed(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            source = os.path.join(place, "source")
            shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("__pycache__"))
            self.run_python(source, "import setuptools.build_meta as b; b.build_sdist('..')")
            (archive,) = pathlib.Path(place).glob("libfur-*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(place)
            unpacked = os.path.join(place, archive.name[: -len(".tar.gz")])
            target = os.path.join(place, "target")
            self.run_python(
                unpacked,
                "from setuptools import setup; setup()",
                *("install_lib", "--install-dir", target, "--no-compile"),
            )
            files = [str(f.relative_to(target)) for f in pathlib.Path(target).rglob("*.*")]
            ours = ["libfur/__init__.py", "libfur/_sets.py", "libfur/_ship.py", "libfur/py.typed"]
            self.assertEqual(sorted(files), ours)
            self.run_python(target, "import libfur; assert 'target' in libfur.__file__")

    def run_python(self, folder: str, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
