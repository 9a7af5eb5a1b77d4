#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print "passed failed skipped" for a JUnit file written by meson."""
import sys
import xml.etree.ElementTree as xml

passed = failed = skipped = 0
for case in xml.parse(sys.argv[1]).iter("testcase"):
    if case.find("failure") is not None or case.find("error") is not None:
        failed += 1
    elif case.find("skipped") is not None or case.get("status") in ("notrun", "SKIP"):
        skipped += 1
    else:
        passed += 1
print(passed, failed, skipped)
