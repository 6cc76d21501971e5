#!/usr/bin/env python3
"""Links in the Markdown pages lead somewhere: to a file that is there, and to a heading that it has.

    tools/check-links.py REPOSITORY
"""
import os
import pathlib
import re
import sys


def pages(root):
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name != "build" and not name.startswith(".")]
        for name in names:
            if name.endswith(".md"):
                yield pathlib.Path(folder, name)


def prose(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page):
    """Of its headings, as web pages made of Markdown have them."""
    found = {}
    for heading in re.findall(r"^#+ +(.*?) *$", prose(page), flags=re.M):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = "".join(c for c in text if c.isalnum() or c in " -_").replace(" ", "-")
        found[name] = found.get(name, -1) + 1
        yield name + (f"-{found[name]}" if found[name] else "")


def wrong(page, link):
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return "there is no such file"
    if anchor and anchor not in anchors(target):
        return "there is no such heading"
    return None


def main(root):
    bad = 0
    for page in sorted(pages(root)):
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            why = None if re.match(r"[a-z]+:", link) else wrong(page, link)
            if why:
                bad = 1
                print(f"{page.relative_to(root)}: {link}: {why}")
    return bad


sys.exit(main(sys.argv[1]))
