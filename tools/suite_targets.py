#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print the files that `ninja` must build for the tests of some suites.

    suite_targets.py BUILD SUITE...
"""
import json
import os
import subprocess
import sys


def introspect(what):
    return json.loads(
        subprocess.run(
            ["meson", "introspect", what, build], check=True, stdout=subprocess.PIPE
        ).stdout
    )


build, suites = sys.argv[1], set(sys.argv[2:])
# A suite's name is PROJECT:SUITE.
needed = {
    target
    for test in introspect("--tests")
    for target in test["depends"]
    if suites & {suite.split(":")[-1] for suite in test["suite"]}
}
files = [
    file
    for target in introspect("--targets")
    if target["id"] in needed
    for file in target["filename"]
]
print("\n".join(sorted(os.path.relpath(file, build) for file in files)))
