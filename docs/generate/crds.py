"""Generates the tables of a custom resource's fields from its schema in helm/strobe/crds."""

import yaml

from source import ROOT, cell, code, table


def markdown(plural):
    crd = yaml.safe_load((ROOT / "helm/strobe/crds" / f"{plural}.yaml").read_text())
    spec, version = crd["spec"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    names = spec["names"]
    text = f"{schema['description']}\n\n"
    text += f"`apiVersion: {spec['group']}/{version['name']}`, `kind: {names['kind']}`, scope {spec['scope']}, "
    text += f"short name `{names['shortNames'][0]}`.\n"
    for part in ("spec", "status"):
        if part in schema["properties"]:
            text += f"\n## {part}\n\n" + _description(schema["properties"][part])
            text += table(["field", "type", "default", "meaning"], _rows(schema["properties"][part], part))
            text += _rules(schema["properties"][part])
    columns = version["additionalPrinterColumns"]
    text += "\n## Columns of kubectl get\n\n"
    text += table(["column", "meaning", "shown"],
                  [[column["name"], cell(column.get("description", "")) or code(column["jsonPath"]),
                    "with `-o wide`" if column.get("priority") else "always"] for column in columns])
    return text


def _description(schema):
    return f"{schema['description']}\n\n" if "description" in schema else ""


def _rules(schema):
    """The validation rules of the whole object. The rules of single fields are in the rows of these fields."""
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", [])]
    fixed = [rule.split(" is immutable")[0] for rule in rules if "is immutable" in rule]
    others = [rule for rule in rules if "is immutable" not in rule]
    text = f"\nCannot be changed: {', '.join(map(code, fixed))}.\n" if fixed else ""
    return text + "".join(f"\nRule: {cell(rule)}.\n" for rule in others)


def _rows(schema, path):
    required = set(schema.get("required", []))
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        meaning = [field["description"].rstrip(".") + "."] if "description" in field else []
        meaning += [f"Rule: {rule['message']}." for rule in field.get("x-kubernetes-validations", [])]
        meaning += _limits(field)
        if name in required:
            meaning.append("Required.")
        default = code(_yaml(field["default"])) if "default" in field else ""
        yield [code(here.split(".", 1)[1]), _type(field), default, cell(" ".join(meaning))]
        if here == "spec.template.spec":  # The spec of a ProfileRequest, which has a page of its own.
            continue
        yield from _rows(field, here)
        if field.get("items", {}).get("properties"):
            yield from _rows(field["items"], f"{here}[]")


def _yaml(value):
    return yaml.safe_dump(value, default_flow_style=True).replace("...", "").strip()


def _type(field):
    if any("isQuantity" in rule["rule"] for rule in field.get("x-kubernetes-validations", [])):
        return "quantity"
    if field.get("x-kubernetes-int-or-string"):
        return "string" if "enum" in field else "integer or string"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}s"
    if "additionalProperties" in field:
        return f"map to {_type(field['additionalProperties'])}s"
    return {"date-time": "time"}.get(field.get("format"), field["type"])


def _limits(field):
    """The limits that the schema's keywords set, as sentences. Lengths of strings are left out."""
    limits = []
    if "enum" in field:
        limits.append("One of " + ", ".join(code(value) for value in field["enum"]) + ".")
    if "minimum" in field and "maximum" in field:
        limits.append(f"{field['minimum']} to {field['maximum']}.")
    elif "minimum" in field:
        limits.append(f"At least {field['minimum']}.")
    if "maxItems" in field:
        limits.append(f"At most {field['maxItems']}.")
    return limits
