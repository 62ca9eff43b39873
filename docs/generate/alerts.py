"""Generates the table of the chart's alerts: links to their sections, and the defaults that the chart's values can change."""

import re

import yaml

from source import ROOT, Missing, cell, code, table


def markdown():
    groups = yaml.safe_load((ROOT / "helm/strobe/files/alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    return table(["alert", "severity", "summary", "threshold", "for"],
                 [[f"[{rule['alert']}](#{rule['alert']})", rule["labels"]["severity"],
                   cell(_without_templates(rule["annotations"]["summary"])), code(_threshold(rule)), rule.get("for", "at once")] for rule in rules])


def _threshold(rule):
    """The comparison that ends the expression."""
    found = re.search(r"([<>]=?) ([0-9.]+)\s*$", rule["expr"])
    if not found:
        raise Missing(f"the expression of {rule['alert']} does not end with its threshold")
    return f"{found[1]} {found[2]}"


def _without_templates(summary):
    """Values and labels are known only when the alert fires."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: label[1].upper(), re.sub(r"\{\{ \$value[^}]*\}\}B?", "N", summary))
