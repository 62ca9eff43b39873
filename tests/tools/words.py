"""Prints the words of each page and of all pages, and checks the limits of those that have one; with --check, only checks.

A word is what `wc -w` counts; the generated parts of reference pages do not count. Readers are in a hurry, so that what a page gains
another one has to lose.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = {"README.md": 150, "ARCHITECTURE.md": 250, "CHANGELOG.md": 60}
# The whole of docs/, one page of it, and how many pages it has.
MAX_WORDS, MAX_PAGE, MAX_PAGES = 30_000, 2_050, 30
GENERATED = re.compile(r"^<!-- generated: .*?^<!-- end of generated -->$", re.MULTILINE | re.DOTALL)


def words(page):
    return len(GENERATED.sub("", page.read_text()).split())


def pages(root):
    """The pages at the top and those of docs/, in the order of their names."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def problems(root):
    for name, limit in MAX_LINES.items():
        found = len((root / name).read_text().splitlines())
        if found > limit:
            yield f"{name} has {found} lines, and may have {limit}"
    counts = {page: words(page) for page in (root / "docs").rglob("*.md")}
    yield from (f"{page.relative_to(root)} has {count} words, and a page may have {MAX_PAGE}" for page, count in counts.items() if count > MAX_PAGE)
    if sum(counts.values()) > MAX_WORDS:
        yield f"the {len(counts)} pages of docs/ have {sum(counts.values())} words, and may have {MAX_WORDS}"
    if len(counts) > MAX_PAGES:
        yield f"docs/ has {len(counts)} pages, and may have {MAX_PAGES}"


def report(root):
    total = {True: [0, 0], False: [0, 0]}
    for page in pages(root):
        counted = total[page.is_relative_to(root / "docs")]
        counted[0] += 1
        counted[1] += words(page)
        yield f"{words(page):7,}  {page.relative_to(root)}"
    for inside, name in ((False, "at the top"), (True, "of docs/")):
        yield f"{total[inside][1]:7,}  in {total[inside][0]} pages {name}"


def main():
    found = list(problems(ROOT))
    if "--check" not in sys.argv[1:]:
        print("\n".join(report(ROOT)))
    print("\n".join(found) or "no page is too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
