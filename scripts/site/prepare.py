#!/usr/bin/env python3
"""Prepares the pages for mkdocs: docs/ stays as it is, and README.md becomes the first page.

    python3 prepare.py FOLDER

Links to files outside docs/ lead to the repository. If the text of a link is a page's file name, the page's title
replaces it. A blank line is added before each list, because mkdocs needs it and GitHub does not.
"""

import posixpath
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/rscert/rscert/blob/main/"
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<to>[^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LIST = re.compile(r"^( *)(?:[-*]|\d+\.) ")


def main():
    (folder,) = map(Path, sys.argv[1:])
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "scripts/site/mkdocs.yml", folder)
    shutil.copy(ROOT / "scripts/site/site.css", folder / "docs")
    (folder / "docs/index.md").write_text(page(ROOT / "README.md", "."), encoding="utf-8")
    for path in (folder / "docs").rglob("*.md"):
        if path.name != "index.md":
            original = ROOT / "docs" / path.relative_to(folder / "docs")
            path.write_text(page(original, "docs"), encoding="utf-8")


def page(path, root):
    """Returns the text of a page, in which links inside docs/ are relative to the page's position in the site."""
    here = path.parent.relative_to(ROOT).as_posix()

    def link(m):
        target, anchor, name = m["to"].partition("#")
        if "://" in target or target == "":
            return m[0]
        whole = posixpath.normpath(posixpath.join(here, target))
        if (ROOT / whole / "README.md").is_file():
            target, whole = posixpath.join(target, "README.md"), posixpath.join(whole, "README.md")
        if not (ROOT / whole).exists():
            sys.exit(f"prepare.py: {path}: {m['to']}: no such file")
        text = m["text"]
        if text.removeprefix("docs/") == m["to"].removeprefix("docs/") and whole.endswith(".md"):
            text = (ROOT / whole).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        if not whole.startswith("docs/"):
            return f"[{text}]({REPOSITORY}{whole}{anchor}{name})"
        return f"[{text}]({whole.removeprefix('docs/') if root == '.' else target}{anchor}{name})"

    text, pos, out = path.read_text(encoding="utf-8"), 0, []
    for fence in FENCE.finditer(text):
        out += [spaced(LINK.sub(link, text[pos:fence.start()])), fence[0]]
        pos = fence.end()
    return "".join(out) + spaced(LINK.sub(link, text[pos:]))


def spaced(text):
    lines = []
    for line in text.split("\n"):
        begins = LIST.match(line) and not line.startswith("    ")
        if begins and lines and lines[-1] != "" and not LIST.match(lines[-1]) and not lines[-1].startswith(" "):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


if __name__ == "__main__":
    main()
