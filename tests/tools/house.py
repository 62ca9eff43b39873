"""Prints the measures of the house, and checks its limits: tests/tools/house.py [--all]

The measures: modules of each folder, files and their lines, members of classes, types of each namespace, words that check_words.py
refuses, values that check_arguments.py refuses, and the product's lines that are not blank. With --all, all folders and namespaces. Python modules of the SDK must not
import one another in circles, and have lines of 100 columns.

A module is a source with its header, or one of them alone. The lists of exceptions may only shrink; a note says which ones can. What the two checks
refuse fails here too, so that CI runs them once.
"""

import ast
import collections
import sys

import check_arguments
import check_words
import cpp

MAX_MODULES, MAX_MEMBERS, MAX_TYPES, MAX_COLUMNS = 30, 40, 140, 100
KINDS = {".c", ".cc", ".css", ".h", ".html", ".js", ".proto", ".py", ".rs"}
SHOWN = 10
MODULES = {}
# FileHeader is a layout of shared memory.
MEMBERS = {"FileHeader": 46}


def modules(files):
    """The modules of each folder: programs' sources in any language."""
    found = collections.defaultdict(set)
    for file in files:
        if file.suffix in KINDS - {".css", ".html", ".proto"}:
            found[str(file.parent.relative_to(cpp.ROOT))].add(file.stem)
    return collections.Counter({folder: len(stems) for folder, stems in found.items()})


def imports(folder):
    """The modules that each module of a folder of Python packages imports, also within functions."""
    files = {".".join(file.relative_to(folder).with_suffix("").parts): file for file in folder.rglob("*.py")}
    for name, file in files.items():
        package = name.split(".")[:-1]
        found = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                base = [*(package[:len(package) - node.level + 1] if node.level else []), *(node.module or "").split(".")]
                found |= {".".join(filter(None, path)) for path in ([*base, alias.name] for alias in node.names)}
                found.add(".".join(filter(None, base)))
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        yield name, sorted(found & set(files) - {name})


def circles(edges):
    """One chain of modules for each circle that is found first."""
    done = set()

    def follow(name, chain):
        if name in chain:
            yield " imports ".join([*chain[chain.index(name):], name])
        elif name not in done:
            for other in edges[name]:
                yield from follow(other, [*chain, name])
            done.add(name)

    for name in sorted(edges):
        yield from follow(name, [])


def wide_lines(folder):
    """Lines of Python with more columns than are allowed."""
    for file in sorted([*folder.rglob("*.py"), *folder.rglob("*.pyi")]):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if len(line) > MAX_COLUMNS:
                yield f"{file.relative_to(cpp.ROOT)}:{number}: the line has {len(line)} columns, and may have {MAX_COLUMNS}"


def beyond(found, limit, exceptions, what):
    """Problems: what is beyond the limit, or beyond its exception. Prints which exceptions can be smaller."""
    for name, count in sorted(found.items()):
        allowed = exceptions.get(name, limit)
        if count > allowed:
            yield f"{name} has {count} {what}, and may have {allowed}"
    for name, allowed in sorted(exceptions.items()):
        if (now := found.get(name, 0)) < allowed:
            print(f"note: {name} has {now} {what}: {'lower' if now > limit else 'take out'} its exception in tests/tools/house.py")


def show(title, counter, everything):
    print(f"{title}:")
    for name, count in counter.most_common(None if everything else SHOWN):
        print(f"  {count:6}  {name}")


def main(arguments):
    everything = "--all" in arguments
    files = [file for folder in (*cpp.PRODUCT, "proto") for file in sorted((cpp.ROOT / folder).rglob("*"))
             if file.suffix in KINDS and "node_modules" not in file.parts]
    lines = {file: sum(1 for line in file.read_text().splitlines() if line.strip()) for file in files}
    members, spaces = collections.Counter(), collections.Counter()
    for file in cpp.sources():
        for made in cpp.read(file.read_text()).types:
            spaces[made.space or "(none)"] += 1
            if made.kind != "enum":
                members[made.name] = max(members[made.name], len(made.members))
    words, unnamed = list(check_words.problems()), list(check_arguments.problems())
    folders = modules(files)
    show("modules of a folder", folders, everything)
    show("members of a type", members, False)
    show("types of a namespace", spaces, everything)
    small = sum(1 for count in lines.values() if count < 25)
    print(f"files: {len(files)}, of which {small} have fewer than 25 lines")
    print(f"refused words: {len(words)}")
    print(f"values without a name: {len(unnamed)}")
    print(f"product lines: {sum(lines.values())}")
    sdk = cpp.ROOT / "agent/sdk/python"
    problems = [*words, *unnamed, *circles(dict(imports(sdk))), *wide_lines(sdk), *beyond(folders, MAX_MODULES, MODULES, "modules"), *beyond(members, MAX_MEMBERS, MEMBERS, "members"),
                *beyond(spaces, MAX_TYPES, {}, "types")]
    print("\n".join(problems) or "the house is within its limits")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
