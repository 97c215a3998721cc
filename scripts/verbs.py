"""Commands of the command line, walked in the order of `fleetsim --help`."""

from collections.abc import Iterator
from typing import Any

import typer

from fleetsim.cli import app


def verbs(group: Any = None, path: tuple[str, ...] = ("fleetsim",)) -> Iterator[Any]:
    """Yield each command that does something, as the words that call it and the click command."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from verbs(command, (*path, name))
        else:
            yield (*path, name), command


def usage(path: tuple[str, ...], command: Any) -> str:
    """Return a command with the placeholders of its arguments."""
    words = list(path)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            word = (parameter.metavar or str(parameter.name)).upper()
            words.append(word if parameter.required else f"[{word}]")
    return " ".join(words)
