"""Generates the table of a program's metrics from their declarations in its source code."""

import re

from source import ROOT, Missing, cell, code, table

FOLDERS = {"strobe-operator": "operator/metrics", "strobe-sidecar": "sidecar/service"}
DECLARED = re.compile(
    r"(?P<variable>\w+) =\s*(?:prometheus::)?Build(?P<type>Counter|Gauge|Histogram)\(\)\s*"
    r'\.Name\(\s*"(?P<name>\w+)"\s*\)\s*\.Help\(\s*(?P<help>(?:"(?:[^"\\]|\\.)*"\s*)+)\)(?P<rest>[^;]*);')


def markdown(program):
    sources = sorted((ROOT / FOLDERS[program]).glob("*.cc"))
    text = "\n".join(path.read_text() for path in sources)
    rows = []
    for found in DECLARED.finditer(text):
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found["help"]))
        labels = _labels(text, found["variable"], found["rest"])
        rows.append([code(found["name"]), found["type"].lower(), ", ".join(map(code, labels)), cell(words)])
    if text.count("_total\")") > len([row for row in rows if row[0].endswith("_total`")]) or not rows:
        raise Missing(f"{FOLDERS[program]} declares metrics in a way that docs/generate/metrics.py does not know")
    return table(["metric", "type", "labels", "meaning"], rows)


def _labels(text, variable, rest):
    """The names of a metric's labels, found in the calls that add its series."""
    names = []
    for place in [*re.finditer(rf"\b{variable}\s*\.Add\(", text), *re.finditer(r"\.Add\(", rest)]:
        arguments = _until_closed(place.string, place.end())
        shared = re.match(r"\s*(\w+_labels)\b", arguments)
        if shared:
            arguments = re.search(rf"{shared[1]} = (\{{.*?\}});", text, re.DOTALL)[1]
        names += re.findall(r'\{\s*"(\w+)"\s*,', arguments)
    return dict.fromkeys(names)


def _until_closed(text, begin):
    depth = 1
    for end in range(begin, len(text)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth == 0:
            return text[begin:end]
    raise Missing("parentheses do not match")
