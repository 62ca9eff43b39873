"""Counts what an API server was asked to write, by its own metrics."""

import re
from collections import Counter


def writes(kubectl):
    """The writes that the API server has answered, by verb and resource such as "PATCH profilerequests/status". Its own leases, and what clients ask of
    it about access, do not count."""
    counts = Counter()
    for line in kubectl.raw("/metrics").splitlines():
        found = re.match(r"apiserver_request_total\{(.*)\} ([0-9.e+]+)", line)
        if not found:
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', found[1]))
        resource = labels["resource"]
        if labels["verb"] in ("POST", "PUT", "PATCH", "APPLY", "DELETE") and not re.fullmatch(r"leases|\w*accessreviews|tokenreviews", resource):
            subresource = labels["subresource"] and "/" + labels["subresource"]
            counts[f"{labels['verb']} {resource}{subresource}"] += int(float(found[2]))
    return counts
