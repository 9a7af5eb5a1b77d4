#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Make the HTML site from the Markdown pages, the man pages and the headers, and check it.

    make_site.py SOURCE BUILD     into BUILD/site/html (ninja -C BUILD site)

It fails if Sphinx warns, if docs/README.md does not list a page of docs/, if a link or an anchor
leads nowhere, and if a page would load anything from the net.

First it makes a copy of the pages, BUILD/site/pages. Links to files that are not pages lead there
to pages with the text of those files.
"""
import os
import re
import shutil
import subprocess
import sys

from check_site import problems_of

SPHINX = "/usr/bin/sphinx-build"  # Debian's, whatever python3 comes first on the path
HEADERS = [
    "include/fur.h",
    "include/fur_bulk.h",
    "include/fur_group.h",
    "include/fur_scan.h",
    "include/fur_ship.h",
    "include/fur_map.h",
    "include/fur.hpp",
]
LANGUAGES = {".h": "c", ".hpp": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python"}
LINK = re.compile(r"(?<!`)(\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?\)")
FENCES = re.DOTALL | re.MULTILINE
LISTED = re.compile(r"^\| \[[^\]]*\]\(([^)]+)\)", re.MULTILINE)


class Problem(Exception):
    """What prevents the site: the file, what is wrong, what to do."""


def read(path):
    with open(path) as file:
        return file.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


# --------------------------------------------------------------- the pages


class Pages:
    """The copy of the tree that Sphinx reads."""

    def __init__(self, source, place):
        self.source, self.place = source, place
        self.wanted = set(HEADERS)  # files whose text becomes a page

    def name_of(self, path):
        """Where the page of a file of the tree is, and whether there is one."""
        if path == "README.md":
            return "index.md"
        if os.path.isdir(f"{self.source}/{path}"):
            return f"{path}/index.md"
        return path if path.endswith((".md", ".png")) else f"{path}.md"

    def convert_link(self, match, folder):
        before, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = os.path.normpath(os.path.join(folder, target))
        if not os.path.exists(f"{self.source}/{path}"):
            raise Problem(f"{folder or '.'}: the link to {target} leads nowhere: correct it")
        if not path.endswith((".md", ".png")):
            self.wanted.add(path)
        return f"{before}{os.path.relpath(self.name_of(path), folder or '.')}{anchor})"

    def convert(self, path):
        """A page of the tree; links in fenced blocks stay as they are."""
        folder = os.path.dirname(path)
        parts = re.split(r"(^```.*?^```$)", read(f"{self.source}/{path}"), flags=FENCES)
        for n in range(0, len(parts), 2):
            parts[n] = LINK.sub(lambda match: self.convert_link(match, folder), parts[n])
        return "".join(parts)

    def add_page(self, path, more=""):
        write(f"{self.place}/{self.name_of(path)}", self.convert(path) + more)

    def add_wanted(self):
        """Pages with the text of files, and lists of the pages of folders."""
        for path in sorted(self.wanted):
            page = f"{self.place}/{self.name_of(path)}"
            if os.path.isdir(f"{self.source}/{path}"):
                self.add_folder(path, page)
            else:
                language = LANGUAGES.get(os.path.splitext(path)[1], "none")
                text = read(f"{self.source}/{path}")
                write(page, f"---\norphan: true\n---\n# {path}\n\n````{language}\n{text}````\n")

    def add_folder(self, path, page):
        """The list of a folder's pages, and the pages."""
        names = sorted(n for n in os.listdir(f"{self.source}/{path}") if n.endswith(".md"))
        items = ""
        for name in names:
            self.add_page(f"{path}/{name}")
            title = read(f"{self.source}/{path}/{name}").splitlines()[0].lstrip("# ")
            items += f"- [{title}]({name})\n"
        title = os.path.basename(path).capitalize()
        write(page, f"# {title}\n\n{items}" + toctree("", names))


def toctree(caption, pages):
    names = "\n".join(page.removesuffix(".md") for page in pages)
    caption = caption and f":caption: {caption}\n"
    return f"\n```{{toctree}}\n:hidden:\n{caption}\n{names}\n```\n"


def navigation(source):
    """Toctrees with the sections of docs/README.md, and all pages that they list."""
    trees, listed = "", []
    for section in read(f"{source}/docs/README.md").split("\n## ")[1:]:
        pages = [os.path.normpath(f"docs/{target}") for target in LISTED.findall(section)]
        pages = [page for page in pages if page != "README.md"]
        names = [page if page.endswith(".md") else f"{page}/index" for page in pages]
        trees += toctree(section.splitlines()[0], names)
        listed += pages
    for name in sorted(os.listdir(f"{source}/docs")):
        if name.endswith(".md") and name != "README.md" and f"docs/{name}" not in listed:
            raise Problem(f"docs/{name}: docs/README.md does not list it: add a line to a table")
    return trees, listed


# ----------------------------------------------------------- the man pages


def convert_man_page(path, known):
    """The HTML of a man page, to be put into a page that has the title already."""
    done = subprocess.run(
        ["mandoc", "-T", "html", "-O", "fragment", path], stdout=subprocess.PIPE, text=True
    )
    if not done.stdout:
        raise Problem(f"{path}: mandoc cannot convert it: see above")
    html = done.stdout[done.stdout.index('<div class="manual-text">') :]
    html = re.sub(r'<table class="foot">.*?</table>', "", html, flags=re.DOTALL)
    html = re.sub(r'<a class="permalink"[^>]*>(.*?)</a>', r"\1", html, flags=re.DOTALL)
    html = re.sub(r"<(/?)h1", r"<\1h2", html)

    def link(match):
        file = f"{match[1]}.{match[2]}"
        return f'<a href="{file}.html">{match[0]}</a>' if file in known else match[0]

    return re.sub(r"<b>([\w-]+)</b>\((\d)\)", link, html)


def add_man_pages(build, place):
    folder = f"{build}/tools/pages"
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"[\w-]+\.\d", name))
    if "fur_commit.3" not in names:
        raise Problem(f"{folder}: the man pages are not built: ninja -C {build}")
    lists: dict[str, str] = {}
    for name in names:
        title, section = name.rsplit(".", 1)
        html = convert_man_page(f"{folder}/{name}", names)
        brief = re.search(r"<p class=\"Pp\">[\w, -]+? - (.*?)</p>", html, flags=re.DOTALL)
        write(
            f"{place}/man/{name}.md",
            f"---\norphan: true\n---\n# {title}({section})\n\n```{{raw}} html\n{html}\n```\n",
        )
        what = " ".join(brief[1].split()) if brief else ""
        heading = "Functions, structs and enums" if section == "3" else "Programs"
        lists[heading] = lists.get(heading, "") + f"- [{title}]({name}.md): {what}\n"
    text = "# Reference\n\nThese are the man pages. [fur.h](../include/fur.h.md), "
    text += "[fur_bulk.h](../include/fur_bulk.h.md) and "
    text += "[fur_map.h](../include/fur_map.h.md) have the same text. "
    text += "[fur.hpp](../include/fur.hpp.md) is the layer for C++.\n"
    for heading in sorted(lists, reverse=True):
        text += f"\n## {heading}\n\n{lists[heading]}"
    write(f"{place}/man/index.md", text)


# ------------------------------------------------------------------ Sphinx


def make_pages(source, build, place):
    shutil.rmtree(place, ignore_errors=True)
    pages = Pages(source, place)
    trees, listed = navigation(source)
    trees = toctree("Contents", ["docs/README"]) + trees
    pages.add_page("README.md", trees + toctree("Reference", ["man/index"]))
    pages.add_page("docs/README.md")
    for path in listed:
        if path.endswith(".md"):
            pages.add_page(path)
    pages.add_wanted()
    add_man_pages(build, place)
    shutil.copytree(f"{source}/docs/figures", f"{place}/docs/figures", dirs_exist_ok=True)
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copy(f"{here}/conf.py", place)
    shutil.copytree(f"{here}/static", f"{place}/static")


def run_sphinx(place, html):
    if not os.path.exists(SPHINX):
        raise Problem(f"{SPHINX}: it is not installed: run tools/setup.sh @site")
    shutil.rmtree(html, ignore_errors=True)
    done = subprocess.run([SPHINX, "-q", "-W", "--keep-going", "-E", "-b", "html", place, html])
    if done.returncode:
        raise Problem(f"{place}: Sphinx warns, see above: correct the pages that they come from")


def embed_imports(html):
    """Debian's theme imports a style sheet by its path on Debian: put its text in that place."""
    path = f"{html}/_static/styles/furo.css"
    imported = re.compile(r"@import url\(/javascript/([\w./-]+)\);")
    write(path, imported.sub(lambda match: read(f"/usr/share/javascript/{match[1]}"), read(path)))


def main(source, build):
    place, html = f"{build}/site/pages", f"{build}/site/html"
    make_pages(source, build, place)
    run_sphinx(place, html)
    shutil.rmtree(f"{html}/.doctrees", ignore_errors=True)
    embed_imports(html)
    problems = problems_of(html)
    if problems:
        raise Problem("\n".join(problems))
    print(f"{html}/index.html")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: make_site.py SOURCE BUILD")
    try:
        main(sys.argv[1], sys.argv[2])
    except Problem as problem:
        sys.exit(f"make_site.py: {problem}")
