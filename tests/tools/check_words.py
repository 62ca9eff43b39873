"""Checks the words of names and comments in C++, C, Python, JavaScript and the protocol.

A type of the product has none of WORDS in its name; a function or member is not named by one alone, and has no Told in its name.
Each of them meant several things here, so that readers had to guess and searches found all of them: say what the thing is, such as
reported, written, slot, queue position, location, snapshot or cached. Local variables, public labels and tests' names may use them.

A comment or docstring is a sentence with a subject. One that begins with one of BEGINNINGS has none, and comes to stand above the
wrong thing when lines move.
"""

import re
import sys

import cpp

WORDS = {"told", "turn", "turns", "place", "places", "room", "rooms", "others", "known", "given", "asked", "ended"}
BEGINNINGS = re.compile(r"(?:(?P<line>//|\#)|/\*\*?|\"\"\") ?(?:Of|The same|Those|Such)\b")
KINDS = ("*.h", "*.cc", "*.c", "*.py", "*.js", "*.mjs", "*.proto", "*.rs")
PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def parts(name):
    return {part.lower() for part in PARTS.findall(name)}


def refused_names(unit):
    """The line and name of each type, member and function whose name has a refused word."""
    for made in unit.types:
        if parts(made.name) & WORDS:
            yield made.line, made.name
        if made.kind != "enum":
            yield from ((line, name) for name, line, _ in made.members if is_refused(name))
    yield from ((line, name) for name, line in unit.functions if is_refused(name))


def is_refused(name):
    return name.strip("_").lower() in WORDS or "Told" in PARTS.findall(name)


def refused_comments(text):
    """The number and text of each line whose comment begins without a subject. Later lines of one comment begin as they like."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = BEGINNINGS.search(line)
        if found is not None:
            begun = found.group("line") and line[:found.start()].strip() == "" and before.strip().startswith(found.group("line"))
            if not begun and not in_text(line[:found.start()]):
                yield number, line.strip()
        before = line


def in_text(before):
    """Whether a line's part ends within a string."""
    return before.count('"') % 2 == 1 and '"""' not in before


def problems():
    for file in cpp.sources():
        for line, name in refused_names(cpp.read(file.read_text())):
            yield f"{file.relative_to(cpp.ROOT)}:{line}: {name}: name it by what it is"
    for file in cpp.sources((*cpp.PRODUCT, "proto", "tests", "tools", "docs"), KINDS):
        if file.resolve() != cpp.ROOT / "tests/tools/check_words.py":
            for line, text in refused_comments(file.read_text()):
                yield f"{file.relative_to(cpp.ROOT)}:{line}: begins without a subject: {text}"


def main():
    found = list(problems())
    print("\n".join(found) or "names and comments say what they mean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
