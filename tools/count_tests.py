#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Print "passed failed skipped" for a JUnit file written by meson; or print each failed case and
what it reports."""
import argparse
import xml.etree.ElementTree as xml

LINES = 40  # of a failed case: the first of its report, or the last that it has printed


def report(case: xml.Element) -> str:
    """What a failed case says of itself, or an empty string: it has not failed."""
    bad = [part for part in case if part.tag in ("failure", "error")]
    if not bad:
        return ""
    said = "\n".join(part.text or part.get("message") or "" for part in bad).strip()
    printed = "\n".join(case.findtext(name, "") for name in ("system-out", "system-err")).strip()
    lines = said.splitlines()[:LINES] or printed.splitlines()[-LINES:]
    return "\n".join([f"{case.get('classname')}.{case.get('name')}"] + [f"    {x}" for x in lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", metavar="FILE", help="JUnit's XML")
    parser.add_argument("--failed", action="store_true", help="print the failed cases")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    for case in xml.parse(arguments.file).iter("testcase"):
        said = report(case)
        if said:
            failed += 1
            if arguments.failed:
                print(said)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "SKIP"):
            skipped += 1
        else:
            passed += 1
    if not arguments.failed:
        print(passed, failed, skipped)


if __name__ == "__main__":
    main()
