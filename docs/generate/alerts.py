"""Generates the table of the chart's alerts, with links to their runbooks."""

import yaml

from source import ROOT, cell, table


def markdown():
    groups = yaml.safe_load((ROOT / "helm/strobe/files/alerts.yaml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    return table(["alert", "severity", "summary", "after"],
                 [[f"[{rule['alert']}](../runbooks/{rule['alert']}.md)", rule["labels"]["severity"],
                   cell(rule["annotations"]["summary"]), rule.get("for", "at once")] for rule in rules])
