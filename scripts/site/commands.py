# SPDX-License-Identifier: Apache-2.0
"""The command line as Markdown, from the commands themselves: usage, what it does, arguments and options, examples."""

from __future__ import annotations

import re
from typing import Any

import typer.main

from tt_cnn.cli import app

PLACEHOLDERS = {"int": "N", "float": "X", "str": "TEXT", "path": "PATH", "file": "FILE"}


def commands() -> dict[str, Any]:
    """All commands that the help shows, by name."""
    group: Any = typer.main.get_command(app)
    return {name: command for name, command in sorted(group.commands.items()) if not command.hidden}


def command_table() -> str:
    """One row per command: its first sentence."""
    rows = [f"| [`tt-cnn {name}`](#tt-cnn-{name}) | {_cell(_first(command))} |" for name, command in commands().items()]
    return "\n".join(["| command | what it does |", "|:--|:--|", *rows])


def command_reference() -> str:
    """A section per command."""
    return "\n\n".join(_section(name, command) for name, command in commands().items())


def _section(name: str, command: Any) -> str:
    group: Any = typer.main.get_command(app)
    context = command.context_class(
        command, info_name=name, parent=group.context_class(group, info_name="tt-cnn"), terminal_width=200
    )
    usage = re.sub(r"\{([^{}|]+)\}", r"\1", context.get_usage().removeprefix("Usage: "))
    parts = [f"## tt-cnn {name}", f"```text\n{usage}\n```", _text(command.help or "")]
    for title, kind in (("argument", "argument"), ("option", "option")):
        records = [one.get_help_record(context) for one in command.params if one.param_type_name == kind]
        if kind == "argument":
            records = [(names.partition(" ")[0], text) for names, text in filter(None, records)]
        rows = [f"| {_names(names)} | {_cell(help_text)} |" for names, help_text in filter(None, records)]
        if rows:
            parts.append("\n".join([f"| {title} | |", "|:--|:--|", *rows]))
    return "\n\n".join(parts)


def _first(command: Any) -> str:
    return re.split(r"(?<=\.)\s", " ".join((command.help or "").split()), maxsplit=1)[0]


def _names(names: str) -> str:
    """Each spelling in code of its own, so that a table can break between them; a type as what one writes there."""
    for kind, word in PLACEHOLDERS.items():
        names = re.sub(rf"<(?:list\[)?{kind}(?: range)?\]?>", word, names)
    names = re.sub(r"<([^>]*)>", r"\1", names).replace("|", r"\|")
    return " ".join(f"`{' '.join(name.split())}`" for name in names.split(", "))


def _cell(text: str) -> str:
    """In a table: one line, without what Markdown would read."""
    return _escaped(" ".join(text.split())).replace("|", r"\|")


def _escaped(text: str) -> str:
    """Outside of code, what Markdown would read."""
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*<_\[\]])", r"\\\1", piece)
        for piece in re.split(r"(`[^`]*`)", text)
    )


def _text(help_text: str) -> str:
    """Paragraphs as they are; those that the help keeps line by line (after a backspace) as a block."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", help_text.replace("\f", "").strip()):
        lines = [line.rstrip() for line in paragraph.strip("\n").splitlines()]
        kept = lines[0].strip() == "\b"
        lines = lines[1:] if kept else lines
        if all(line.startswith("tt-cnn ") for line in lines):
            parts.append("\n".join(["```bash", *lines, "```"]))
        elif kept:
            parts.append("\n".join(["```text", *lines, "```"]))
        else:
            parts.append(_escaped(" ".join(line.strip() for line in lines)))
    return "\n\n".join(parts)
