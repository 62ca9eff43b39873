"""Generates the table of the chart's values: defaults and meanings from values.yaml, types and ranges from values.schema.json."""

import importlib.machinery
import importlib.util
import json

from source import ROOT, Missing, cell, code, table


def markdown():
    schema = json.loads((ROOT / "helm/strobe/values.schema.json").read_text())
    return table(["value", "type", "default", "meaning"],
                 [[code(name), _type(_field(schema, name)), code(value) if value else "", cell(f"{meaning} {_limits(_field(schema, name))}")]
                  for name, value, meaning in _chart_readme().rows()])


def _chart_readme():
    """Imports tools/chart_readme, which reads the comments in values.yaml."""
    loader = importlib.machinery.SourceFileLoader("chart_readme", str(ROOT / "tools/chart_readme"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def _field(schema, name):
    field = schema
    for part in name.split("."):
        field = _resolved(schema, field.get("properties", {}).get(part))
        if field is None:
            raise Missing(f"values.schema.json does not know {name}")
    return field | ({"items": _resolved(schema, field["items"])} if "items" in field else {})


def _resolved(schema, field):
    """The definition that a field refers to."""
    return schema["definitions"][field["$ref"].split("/")[-1]] if field and "$ref" in field else field


def _type(field):
    kind = field.get("type") or "string"  # A field that has only an enum holds strings.
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind != "array":
        return kind
    items = field.get("items", {})
    return "list of " + " or ".join(f"{choice.get('type', 'value')}s" for choice in items.get("anyOf", [items]))


def _limits(field):
    if "enum" in field:
        return "One of " + ", ".join(code(value or '""') for value in field["enum"]) + "."
    if "minimum" in field and "maximum" in field:
        return f"{field['minimum']} to {field['maximum']}."
    return f"At least {field['minimum']}." if field.get("minimum") else ""
