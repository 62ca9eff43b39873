"""Checks that a reader of a call or an initializer of the product sees what each value is for.

A call with several arguments names its booleans, as in `Start(path, /*wait=*/true)`; so does a braced list, by designators. A struct
of more than three fields is initialized by designators, as in `{.name = name, .size = 3}`. Rows of a constant table may leave them
out, because its struct stands above it, unless they have booleans.

The types of braced lists are found by name: that of the variable, the parameter, the container's element or the function's result.
"""

import collections
import re
import sys

import cpp

MAX_POSITIONAL = 3
BRACKETS = re.compile(r"[()\[\]{},]")
BOOLEANS = {"true", "false"}
# Functions of the standard library, nlohmann's and CLI11's, whose booleans are values, and parse(text, callback, allow_exceptions).
VALUES = {"exchange", "store", "compare_exchange_strong", "compare_exchange_weak", "try_emplace", "emplace", "insert_or_assign", "value",
          "assign", "resize", "fill", "pair", "make_pair", "parse", "dump", "static_assert"}
CALLEE = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^;()]*>)?\s*$")
DECLARED = re.compile(r"([A-Za-z_]\w*)\s*\(((?:[^(){};]|\([^()]*\))*)\)")
PARAMETER = re.compile(r"^(?:const\s+)?(?:\w+::)*(\w+)(?:\s*[&*]+\s*|\s+)\w+(?:\s*=.*)?$", re.S)
ELEMENT = r"(?:vector|deque|list)<\s*(?:\w+::)*(\w+)\s*>\s*&?\s*"
RESULT = re.compile(r"^(?:  )*(?:static |inline |constexpr |virtual |const )*(?:absl::StatusOr<|std::optional<)*(?:\w+::)*(\w+)>*\s+[\w:]+\([^;]*$",
                    re.M)


def lists(code):
    """The offset, bracket and elements of each bracketed list, with their offsets; inner lists first."""
    stack = []
    for found in BRACKETS.finditer(code):
        char, at = found.group(), found.start()
        if char in "([{":
            stack.append((char, at, [at + 1]))
        elif char in ")]}" and stack:
            bracket, begin, cuts = stack.pop()
            bounds = list(zip(cuts, [cut - 1 for cut in cuts[1:]] + [at]))
            yield begin, bracket, [(start, end) for start, end in bounds if code[start:end].strip()], stack[-1] if stack else None
        elif char == "," and stack:
            stack[-1][2].append(at + 1)


class Types:
    """The structs that may be initialized by designators, and which function takes one where."""

    def __init__(self, codes):
        self.large, self.parameters = set(), collections.defaultdict(set)
        small = set()
        for code in codes:
            for made in cpp.read(code).types:
                fields = [name for name, _, function in made.members if not function]
                own = {name for name, _, function in made.members if function}
                many = made.kind == "struct" and made.name not in own and len(fields) > MAX_POSITIONAL
                (self.large if many else small).add(made.name)
        self.large -= small  # Several types have this name.
        for code in codes:
            for name, parameters in DECLARED.findall(code):
                for position, parameter in enumerate(split(parameters)):
                    found = PARAMETER.match(parameter)
                    self.parameters[name, position].add(found.group(1) if found is not None and found.group(1) in self.large else None)


def split(text):
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "(<{[") - (char in ")>}]")
        if char == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return [*parts, text[begin:].strip()]


def is_large(types, code, begin, outer, near):
    """Whether the braced list at `begin` initializes a struct of more fields than may be positional."""
    before = code[max(0, begin - 200):begin].rstrip()
    typed = re.search(r"(\w+)$", before)
    if typed is not None and typed.group(1) in types.large and not re.search(r"\b(struct|class|enum|class)\s+\w+$", before):
        return True
    variable = re.search(r"(?:^|[^\w])(?:\w+::)*(\w+)&?\s+\w+\s*=?$", before)
    if variable is not None and variable.group(1) in types.large and not re.search(r"\b(struct|class)\s+\w+$", before):
        return True
    pushed = re.search(r"(\w+)\.(?:push_back|push_front)\s*\($", before)
    if pushed is not None:
        return any(name in types.large for name in re.findall(ELEMENT + pushed.group(1) + r"\b", near))
    if re.search(r"\breturn$", before):
        results = RESULT.findall(code[:begin])
        return bool(results) and results[-1] in types.large
    if outer is not None and outer[0] == "(" and before.endswith(("(", ",")):
        callee = CALLEE.search(code[max(0, outer[1] - 80):outer[1]])
        return callee is not None and None not in types.parameters.get((callee.group(1), len(outer[2]) - 1), {None})
    return False


def problems_in(raw, types, header=""):
    """Each problem's line and text."""
    code = cpp.bare(raw)
    near = code + header

    def line(at):
        return code.count("\n", 0, at) + 1

    for begin, bracket, elements, outer in lists(code):
        texts = [code[start:end].strip() for start, end in elements]
        if len(texts) < 2 or any(";" in text for text in texts):
            continue
        before = code[max(0, begin - 80):begin]
        unnamed = [raw[start:end] for start, end in elements if code[start:end].strip() in BOOLEANS and "/*" not in raw[start:end]]
        if bracket == "(" and unnamed:
            callee = CALLEE.search(before)
            if callee is not None and callee.group(1) not in VALUES | {"if", "while", "for"} and not re.search(r"vector<bool>\s+\w+$", before):
                yield line(begin), f"{callee.group(1)} gets {unnamed[0].strip()}: write /*name=*/ before it"
        elif bracket == "{" and not texts[0].startswith((".", '"', "{")) or bracket == "{" and unnamed and texts[0].startswith('"'):
            pair = len(texts) == 2 and (texts[0].startswith('"') or re.match(r"k[A-Z]", texts[0]))
            if unnamed and not pair and not set(texts) <= BOOLEANS:
                yield line(begin), f"{unnamed[0].strip()} in braces: write its field's name"
            elif len(texts) > MAX_POSITIONAL and is_large(types, code, begin, outer, near) and not in_table(code, begin):
                yield line(begin), f"{len(texts)} values in braces: write their fields' names"


def in_table(code, begin):
    """Whether the list is a row of a constant table: of an array, whose name begins with k."""
    depth, at = 0, begin - 1
    while at >= 0 and code[at] != ";":
        if code[at] in ")]}":
            depth += 1
        elif code[at] in "([{":
            depth -= 1
            if depth < 0 and code[at] == "{":
                head = code[max(0, at - 160):at].rstrip()
                if re.search(r"\bk[A-Z]\w*\s*(\[\w*\])?\s*=$", head):
                    return True
                if not head.endswith(("{", ",", "=")):
                    return False
                depth = 0
        at -= 1
    return False


def problems():
    files = {file: file.read_text() for file in cpp.sources()}
    codes = {file: cpp.bare(text) for file, text in files.items()}
    types = Types(codes.values())
    for file, text in files.items():
        header = codes.get(file.with_suffix(".h"), "") if file.suffix == ".cc" else ""
        for line, problem in problems_in(text, types, header):
            yield f"{file.relative_to(cpp.ROOT)}:{line}: {problem}"


def main():
    found = list(problems())
    print("\n".join(found) or "every boolean and every struct of many fields names its values")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
