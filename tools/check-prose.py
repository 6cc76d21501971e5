#!/usr/bin/env python3
"""Pages stay short and plain: no sentence over 34 words, no page in docs/ over 230 lines, no .svg over 60 kB.
Sentences are those of README, CONTRIBUTING, ARCHITECTURE and docs/*.md; logbooks and formulas lie deeper.

    tools/check-prose.py REPOSITORY
"""
import pathlib
import re
import sys

WORDS, LINES, BYTES = 34, 230, 60000
OTHER = "docs/gpu-kernels.md"  # formulas, for those who work on it


def sentences(page):
    """Of its running text: code, tables, headings and the start of a list's item end one."""
    text = re.sub(r"^```.*?^```", "\n", page, flags=re.M | re.S)
    text = re.sub(r"^( {4}|\||#|<!--|!\[).*$", "\n\n", text, flags=re.M)
    for paragraph in re.split(r"\n\s*\n|^\s*(?:-|\d+\.) ", text, flags=re.M):
        yield from re.split(r"(?<=[.!?:;])\s", paragraph)


def main(root):
    said = []
    for page in [root / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")] + \
            sorted((root / "docs").glob("*.md")):
        if page == root / OTHER:
            continue
        text = page.read_text() if page.exists() else ""
        for sentence in sentences(text):
            words = sentence.split()
            if len(words) > WORDS:
                said.append("%s: a sentence of %d words: %s ..." % (page.name, len(words), " ".join(words[:8])))
        if page.parent != root and text.count("\n") > LINES:
            said.append("docs/%s: over %d lines: what few need goes to docs/log" % (page.name, LINES))
    for picture in sorted((root / "docs").rglob("*.svg")):
        if picture.stat().st_size > BYTES:
            said.append("%s: over %d bytes" % (picture.name, BYTES))
    print("\n".join(said), end="\n" if said else "")
    return bool(said)


sys.exit(main(pathlib.Path(sys.argv[1])))
