"""Arguments and options of the verbs: the rows of `options.toml` for the parameters of functions.

Parameters before `*` are arguments of the command line, and those after it options. A trailing
underscore is not part of the name. A function in an annotation completes values in a shell.
"""

import tomllib
from collections.abc import Callable
from functools import cache
from importlib import resources
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_origin

import typer

from fleetsim.run_settings import help_of

Verb = Callable[..., None]


@cache
def _tables() -> dict[str, dict[str, dict[str, Any]]]:
    return tomllib.loads((resources.files("fleetsim.cli") / "options.toml").read_text("utf-8"))


def declared(path: str, verb: Verb) -> Verb:
    """Return a verb whose parameters Typer reads as the arguments and options of their rows."""
    tables = _tables()
    rows = tables["shared"] | tables.get(path.partition(" ")[0], {}) | tables.get(path, {})
    for name, parameter in signature(verb, eval_str=True).parameters.items():
        row = {"help": help_of(name)} | rows.get(name.strip("_"), {})
        names = row.pop("names", [f"--{name.strip('_').replace('_', '-')}"])
        kind = parameter.annotation
        if get_origin(kind) is Annotated:
            kind, row["autocompletion"] = get_args(kind)
        is_option = parameter.kind is Parameter.KEYWORD_ONLY
        info = typer.Option(*names, **row) if is_option else typer.Argument(**row)
        verb.__annotations__[name] = Annotated[kind, info]
    return verb
