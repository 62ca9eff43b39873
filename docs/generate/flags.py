"""Generates the lists of a program's flags and of its subcommands' flags from the output of --help."""

import re

from source import run

NAMES = {"kubectl-strobe": "kubectl strobe"}  # How users call a program.
# Every command of kubectl strobe has these flags; they are shown once.
OF_KUBECTL = re.compile(r"\nFlags of kubectl:\n(?:  .*\n)+")


def markdown(program):
    name = NAMES.get(program, program)
    texts = [(f"## {name}", run(program, "--help"))]
    for number, command in enumerate(subcommands(program)):
        text = run(program, command, "--help")
        texts.append((f"### {name} {command}", text if number == 0 else OF_KUBECTL.sub("", text)))
    return "\n".join(f"{heading}\n\n```\n{_shown(text)}\n```\n" for heading, text in texts)


def _shown(text):
    """CLI11 leaves two empty lines where a group ends."""
    return re.sub(r"\n{3,}", "\n\n", text.strip())


def subcommands(program):
    _, found, listed = run(program, "--help").partition("\nSubcommands:\n")
    return re.findall(r"^  ([a-z][\w-]*) ", listed.partition("\n\n")[0], re.MULTILINE) if found else []
