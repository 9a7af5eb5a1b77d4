#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check an HTML site: each link and each anchor leads somewhere, and no page loads anything from
the net.

    check_site.py FOLDER

It prints a line for each problem.  Exit status: 0 none, 1 some, 2 wrong usage.
"""
import html.parser
import os
import re
import sys
import urllib.parse

# An <a> may lead out of the site.  These load what they name.
LOADS = {
    ("audio", "src"),
    ("embed", "src"),
    ("form", "action"),
    ("iframe", "src"),
    ("image", "href"),
    ("img", "src"),
    ("img", "srcset"),
    ("input", "src"),
    ("link", "href"),
    ("object", "data"),
    ("script", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("track", "src"),
    ("use", "href"),
    ("video", "poster"),
    ("video", "src"),
}
CSS_URL = re.compile(r"""(?:url\(\s*|@import\s+(?!url))["']?([^"')\s;]+)""")


class Page(html.parser.HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.in_style = False

    def handle_starttag(self, tag, attrs):
        self.in_style = tag == "style"
        for name, value in attrs:
            value = value or ""
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            if tag == "a" and name == "href":
                self.links.append(value)
            if (tag, name) in LOADS:
                self.loads.append(value)
            if name == "style":
                self.loads += CSS_URL.findall(value)

    def handle_data(self, data):
        if self.in_style:
            self.loads += CSS_URL.findall(data)


def is_external(url):
    return bool(urllib.parse.urlsplit(url).scheme) or url.startswith("//")


def files_of(place, ending):
    for folder, _, names in os.walk(place):
        for name in sorted(names):
            if name.endswith(ending):
                yield os.path.join(folder, name)


def check_load(file, url):
    """What is wrong with something that a file loads, or nothing."""
    if url.startswith(("data:", "#")) or not url:
        return ""
    if is_external(url):
        return f"{file}: it loads {url} from the net: keep a copy on the site, or do without"
    path = os.path.join(
        os.path.dirname(file), urllib.parse.unquote(urllib.parse.urlsplit(url).path)
    )
    return "" if os.path.exists(path) else f"{file}: it loads {url}, which does not exist"


def check_link(file, url, pages):
    """What is wrong with a link, or nothing."""
    if is_external(url):
        return ""
    parts = urllib.parse.urlsplit(url)
    target = os.path.normpath(
        os.path.join(os.path.dirname(file), urllib.parse.unquote(parts.path))
        if parts.path
        else file
    )
    if not os.path.exists(target):
        return f"{file}: the link to {url} leads nowhere"
    anchor = urllib.parse.unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors:
        return f"{file}: the link to {url}: that page has no such anchor"
    return ""


def problems_of(place):
    """All that is wrong with the site, a line each."""
    pages = {}
    for file in files_of(place, ".html"):
        page = pages[os.path.normpath(file)] = Page()
        with open(file) as text:
            page.feed(text.read())
    found = []
    for file, page in pages.items():
        found += [check_load(file, url) for url in page.loads]
        found += [check_link(file, url, pages) for url in page.links]
    for file in files_of(place, ".css"):
        with open(file) as text:
            found += [check_load(file, url) for url in CSS_URL.findall(text.read())]
    if not pages:
        found.append(f"{place}: there is no page")
    return sorted(set(filter(None, found)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: check_site.py FOLDER", file=sys.stderr)
        sys.exit(2)
    problems = problems_of(sys.argv[1])
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
