"""Shows a configuration file with all keys and their defaults."""

from source import ROOT, Missing

FILES = {"operator": "operator/config/defaults.yaml", "serve": "viewer/service/defaults.yaml"}


def markdown(name):
    if name not in FILES:
        raise Missing(f"there is no configuration {name}; there are {', '.join(FILES)}")
    lines = (ROOT / FILES[name]).read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return "```yaml\n" + "\n".join(lines[first:]) + "\n```\n"
