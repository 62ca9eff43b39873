"""Reads Prometheus' text format."""


def total(page, name, **labels):
    """The sum of a metric's samples with these labels; 0 if there are none."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines()
               if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()))
