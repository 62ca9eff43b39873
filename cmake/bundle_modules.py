#!/usr/bin/env python3
"""Writes a JavaScript module and all that it imports as one module, so that a page asks its server
once: bundle_modules.py ENTRY.js OUTPUT.js.

Each module becomes a function that is called once, in the order of their imports. It takes modules as
viewer/web has them, and fails at anything else: modules lie in folders beside each other, imports are
`import { a, b as c } from "./x.js";` or `"../folder/x.js"`, exports stand before a declaration, and no
two modules import each other. `import("./x.js")` stays what it is: x.js is then a bundle of its own,
which the server has beside this one. Comments that have lines of their own are left out, because
they are a fifth of what a browser would load; so no template literal may go over several lines."""

import re
import sys
from pathlib import Path

IMPORT = re.compile(r'^import \{([^}]*)\} from "(\./|\.\./\w+/)(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async function|function|class|const) (\w+))", re.MULTILINE)
COMMENT = re.compile(r"^[ ]*(?://[^\n]*|/\*\*.*?\*/)\n", re.MULTILINE | re.DOTALL)
LONG_TEMPLATE = re.compile(r"^[^`\n]*(?:`[^`\n]*`[^`\n]*)*`[^`\n]*$", re.MULTILINE)
OTHER = re.compile(r"^(?:import\b(?!\()|export\b|await\b).*", re.MULTILINE)


class Bundle:
    def __init__(self, root):
        self.root = root
        self.parts = []  # In the order in which they are to run.
        self.open = []  # The modules that wait for what they import.
        self.exports = {}  # The names, by module.

    def add(self, name):
        """Adds the module with this name, FOLDER/STEM, and before it those that it imports."""
        if name in self.exports:
            return
        if name in self.open:
            raise ValueError(f"{' imports '.join([*self.open, name])}: modules must not import each other")
        self.open.append(name)
        text = (self.root / f"{name}.js").read_text()
        folder = name.split("/")[0]
        for _, way, stem in IMPORT.findall(text):
            self.add(module_at(folder, way, stem))
        self.exports[name] = EXPORT.findall(text)
        self.parts.append(part(name, text, self.exports[name]))
        self.open.pop()


def module_at(folder, way, stem):
    """The name of what a module in `folder` imports from `way`, which ends with a slash."""
    return f"{folder if way == './' else way[3:-1]}/{stem}"


def variable(name):
    """Holds the exports of a module."""
    return "$" + name.replace("/", "_")


def part(name, text, exports):
    """The module as a statement that defines its exports, an object named after it."""
    folder = name.split("/")[0]

    def destructuring(found):
        names = [item.strip().replace(" as ", ": ") for item in found[1].split(",")]
        return f"const {{ {', '.join(filter(None, names))} }} = {variable(module_at(folder, found[2], found[3]))};\n"

    body = EXPORT.sub("", IMPORT.sub(destructuring, COMMENT.sub("", text)))
    if found := OTHER.search(body) or LONG_TEMPLATE.search(body):
        raise ValueError(f"{name}.js: this statement is not understood: {found[0]}")
    return f"const {variable(name)} = (() => {{\n{body}return {{ {', '.join(exports)} }};\n}})();\n"


def main(entry, output):
    entry = Path(entry)
    bundle = Bundle(entry.parent.parent)
    name = f"{entry.parent.name}/{entry.stem}"
    bundle.add(name)
    exports = ", ".join(bundle.exports[name])
    Path(output).write_text("".join(bundle.parts) + f"export const {{ {exports} }} = {variable(name)};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
