#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/site/check_site.py finds each kind of mistake that a site can have, and no other.

    site_test.py CHECK_SITE
"""
import os
import subprocess
import sys
import tempfile

check_site = sys.argv[1]

GOOD = {
    "index.html": """<link rel="stylesheet" href="a/style.css"><script src="a/x.js?v=1"></script>
        <h1 id="top">x</h1><a href="b/page.html#part%201">p</a><a href="#top">t</a><a name="old">
        <a href="https://example.org/anything#at-all">out</a><img src="data:image/png;base64,AA">
        <a href="#old">o</a><a href="mailto:a@example.org">m</a><style>p{color:red}</style>""",
    "b/page.html": '<p id="part 1"><a href="../index.html">up</a><a href="../a/x.js">file</a>',
    "a/style.css": '@import url("more.css"); p { background: url(data:image/png;base64,AA) }',
    "a/more.css": "p { color: red } /* http://www.w3.org/2000/svg */",
    "a/x.js": "// https://example.org is only a comment",
}
# What is added to which file, and a part of the line that the checker prints.
MISTAKES = [
    ("index.html", '<a href="b/none.html">', "b/none.html leads nowhere"),
    ("index.html", '<a href="b/page.html#part2">', "no such anchor"),
    ("b/page.html", '<a href="#none">', "no such anchor"),
    ("b/page.html", '<script src="https://example.org/x.js">', "from the net"),
    ("b/page.html", '<script src="//example.org/x.js">', "from the net"),
    ("b/page.html", '<img src="http://example.org/x.png">', "from the net"),
    ("b/page.html", '<img src="none.png">', "does not exist"),
    ("b/page.html", '<link href="https://example.org/font.css" rel="stylesheet">', "from the net"),
    ("b/page.html", '<link href="https://example.org" rel="preconnect">', "from the net"),
    ("b/page.html", '<p style="background: url(https://example.org/x.png)">', "from the net"),
    ("b/page.html", "<style>@import 'https://example.org/x.css';</style>", "from the net"),
    ("a/style.css", "@font-face { src: url('https://example.org/x.woff2') }", "from the net"),
    ("a/style.css", "@import url(/absent/x.css);", "does not exist"),
    ("a/more.css", "@import '//example.org/x.css';", "from the net"),
]


def check(files):
    """The checker's status and lines for a site of these files."""
    with tempfile.TemporaryDirectory() as place:
        for name, text in files.items():
            os.makedirs(os.path.dirname(f"{place}/{name}"), exist_ok=True)
            with open(f"{place}/{name}", "w") as file:
                file.write(text)
        done = subprocess.run(
            [sys.executable, check_site, place], stdout=subprocess.PIPE, text=True, check=False
        )
    return done.returncode, done.stdout.split("\n")[:-1]


assert check(GOOD) == (0, []), check(GOOD)
for name, text, wanted in MISTAKES:
    status, lines = check({**GOOD, name: GOOD[name] + text})
    assert status == 1 and len(lines) == 1, (text, status, lines)
    assert name in lines[0] and wanted in lines[0], (text, lines)
status, lines = check({"a/style.css": ""})
assert status == 1 and "no page" in lines[0], lines
