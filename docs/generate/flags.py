"""Generates the lists of a program's flags and of its subcommands' flags from the output of --help."""

import re

from source import run


def markdown(program):
    text = f"```\n{run(program, '--help').strip()}\n```\n"
    for command in subcommands(program):
        text += f"\n## {program} {command}\n\n```\n{run(program, command, '--help').strip()}\n```\n"
    return text


def subcommands(program):
    _, found, listed = run(program, "--help").partition("\nSubcommands:\n")
    return re.findall(r"^  ([a-z][\w-]*) ", listed.partition("\n\n")[0], re.MULTILINE) if found else []
