"""Reads C++ well enough to list its types, their members and its functions. No preprocessor."""

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("agent", "capture", "cli", "collector", "common", "operator", "sidecar", "viewer")
SKIPPED_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.M)
TYPE = re.compile(r"\b(class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?:\[\[.*?\]\]\s*|[A-Z][A-Z_]+(?:\([^)]*\))?\s+)*"
                  r"((?:\w+\s*::\s*)*\w+)(?:\s*<[^{;]*>)?\s*(?:final\s*)?(?::(?!:)[^{;]*)?$", re.S)
NAMESPACE = re.compile(r"\bnamespace\b(?:\s+([\w:]+))?\s*$")
ALIAS = re.compile(r"^(?:template\s*<.*>\s*)?using\s+(\w+)\s*=", re.S)
MACRO_TAIL = re.compile(r"\s+(?:ABSL_\w+|STROBE_\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*")
BRACES = re.compile(r"[{}]")
STOPS = re.compile(r"[()\[\]{};]")
LABEL = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)")


@dataclass
class Type:
    name: str
    kind: str
    line: int
    space: str
    members: list = field(default_factory=list)  # (name, line, is a function)


@dataclass
class Unit:
    types: list = field(default_factory=list)
    functions: list = field(default_factory=list)  # (name, line): outside of types.


@functools.cache
def bare(text):
    """The text without comments, literals and directives; lines stay where they were."""
    def blank(match):
        return '""' * match.group().startswith(("R", '"')) + re.sub(r"[^\n]", " ", match.group())[2 * match.group().startswith(("R", '"')):]
    return DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), SKIPPED_TEXT.sub(blank, text))


def outermost(text, opening="([{<", closing=")]}>"):
    """The text without what stands in brackets, but with the outermost brackets."""
    out, depth = [], 0
    for index, char in enumerate(text):
        if char == "<" and (text[index - 1:index] in (" ", "<") or text[index + 1:index + 2] in ("=", "<")):
            continue  # A comparison or a shift; templates have no blank before.
        if char in opening:
            if depth == 0:
                out.append(char)
            depth += 1
        elif char in closing and not (char == ">" and text[index - 1:index] == "-"):
            depth = max(0, depth - 1)
            if depth == 0:
                out.append(char)
        elif depth == 0:
            out.append(char)
    return "".join(out)


def declared(statement):
    """The names that a statement of a class or namespace declares, and whether it is a function."""
    while (label := LABEL.match(statement)) is not None:
        statement = statement[label.end():]
    statement = MACRO_TAIL.sub(" ", statement).strip()
    if (alias := ALIAS.match(statement)) is not None:
        return [alias.group(1)], False
    if re.match(r"(using|friend|static_assert|typedef|extern|template\s*<[^;{]*>\s*(class|struct)\s+\w+\s*$|(class|struct|enum( class)?)\s+\w+(\s*:\s*[\w:]+)?\s*$)",
                statement):
        return [], False
    text = outermost(re.sub(r"^template\s*<", "template<", statement))
    text = re.sub(r"^template<>\s*", "", text)
    if (function := re.search(r"(~?\w+|operator\s*\S+?)\s*\(\)", text.split("=")[0].split("{")[0])) is not None:
        return [function.group(1)], True
    names = []
    for part in text.split(","):
        part = re.split(r"=|\{|\[|(?<!:):(?!:)", part)[0]
        if (name := re.search(r"(\w+)\s*$", part)) is not None and (names or re.search(r"\w[\w:<>*&\s]*[\s*&>]\w+\s*$", part)):
            names.append(name.group(1))
    return names, False


@functools.cache
def read(text):
    """The types, with their members, and the functions of a source."""
    code, unit, stack, start, at = bare(text), Unit(), [("namespace", "", None)], 0, 0
    parens = 0

    def line(offset):
        begin = offset + len(code[offset:]) - len(code[offset:].lstrip())
        return code.count("\n", 0, begin) + 1

    def take(statement, offset):
        kind, _, holder = stack[-1]
        names, function = declared(statement)
        if kind == "type":
            holder.members += [(name, line(offset), function) for name in names]
        elif kind == "namespace":
            if (alias := ALIAS.match(statement.strip())) is not None:
                unit.types.append(Type(alias.group(1), "using", line(offset), space()))
            elif function:
                unit.functions += [(name, line(offset)) for name in names]

    def space():
        return "::".join(name for kind, name, _ in stack if kind == "namespace" and name)

    while (found := STOPS.search(code, at)) is not None:
        at = found.start()
        char = code[at]
        if char in "([":
            parens += 1
        elif char in ")]":
            parens -= 1
        elif char == "{" and parens == 0:
            head = code[start:at]
            while (label := LABEL.match(head)) is not None:
                start, head = start + label.end(), head[label.end():]
            if (found := NAMESPACE.search(head)) is not None:
                stack.append(("namespace", found.group(1) or "", None))
                start = at + 1
            elif stack[-1][0] in ("namespace", "type") and (found := TYPE.search(head.strip())) is not None and "(" not in outermost(head.strip()[:found.start()]):
                made = Type(found.group(2).split("::")[-1], found.group(1).split()[0], line(start), space())
                unit.types.append(made)
                stack.append(("enum" if made.kind == "enum" else "type", made.name, made))
                start = at + 1
            else:  # A body or an initializer: skipped as a whole.
                depth, end = 1, at + 1
                while depth > 0 and (brace := BRACES.search(code, end)) is not None:
                    depth += 1 if brace.group() == "{" else -1
                    end = brace.end()
                following = code[end:].lstrip()[:1]
                if declared(head)[1] and "=" not in outermost(head).split("()")[0] and following not in (",", ";", "{"):
                    take(head, start)
                    start = end
                at = end
                continue
        elif char == "}" and parens == 0:
            if stack[-1][0] == "enum":
                for part in outermost(code[start:at]).split(","):
                    if (name := re.match(r"\s*(\w+)", part)) is not None:
                        stack[-1][2].members.append((name.group(1), line(start), False))
            if len(stack) > 1:
                stack.pop()
            start = at + 1
        elif char == ";" and parens == 0:
            if stack[-1][0] != "enum":
                take(code[start:at], start)
            start = at + 1
        at += 1
    return unit


def sources(folders=PRODUCT, kinds=("*.h", "*.cc")):
    for folder in folders:
        for kind in kinds:
            yield from sorted((ROOT / folder).rglob(kind))
