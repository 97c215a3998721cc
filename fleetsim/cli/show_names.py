"""The verb `show`: what stands behind a name that `fleetsim list` prints."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from fleetsim.cli import completion, train_selector
from fleetsim.cli.bundled_files import NameArgument, bundled_path
from fleetsim.cli.explain_keys import table
from fleetsim.cli.scenario_options import JsonOption
from fleetsim.cli.terminal import output, output_json

_KEYS = ("kind", "name", "description", "key", "settings", "path", "data")


def show(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="A subject of `fleetsim list`, in the singular or plural: device, selector, ...",
            autocompletion=completion.subjects,
        ),
    ],
    name: NameArgument,
    as_json: JsonOption = False,
) -> None:
    """Show what stands behind a name: a bundled file, or a part with its settings.

    Of a trace, its README and the names of its files; of weights, where they come from.
    """
    # Files before the catalogue is imported, which takes seconds.
    file_kind = completion.file_kind(kind)
    record, text = _part(kind, name) if file_kind is None else _file(file_kind, name)
    if as_json:
        output_json({**dict.fromkeys(_KEYS), "name": name, **record})
    elif record["kind"] == "weights":
        train_selector.show(name)
    else:
        output(text, ends_line=False)


def _file(kind: str, name: str) -> tuple[dict[str, Any], str]:
    """Return a bundled file, or a trace by its README and the bytes of its files; and as text."""
    from fleetsim.schema import strict_yaml

    path = bundled_path(kind, name)
    record: dict[str, Any] = {"kind": completion.FILE_KINDS[kind], "path": path}
    if kind != "trace":
        return record | {"data": strict_yaml.read(path).data}, path.read_text("utf-8")
    readme = (path / "README.md").read_text("utf-8")
    sizes = {file.name: file.stat().st_size for file in sorted(path.iterdir())}
    files = [f"  {file}  {num_byte:,} B\n" for file, num_byte in sizes.items()]
    return record | {"description": readme, "data": sizes}, "".join([readme, "\nFiles:\n", *files])


def _part(kind: str, name: str) -> tuple[dict[str, Any], str]:
    """Return a part with its settings, weights with their origin, or a metric; and as text."""
    from fleetsim import catalogue

    subject = catalogue.subject(kind)
    if subject is None:
        raise typer.BadParameter(catalogue.no_subject(kind))
    part = catalogue.part(subject, name)
    lines = [part.description]
    record: dict[str, Any] = {"kind": subject, "description": part.description}
    if part.key is not None:
        rows = {
            each.key.removeprefix(f"{part.key}."): f"{each.description} ({', '.join(each.facts)})"
            for each in part.settings
        }
        lines += ["", f"Settings of {part.key}.kind: {name}", *table(rows)]
        record |= {"key": part.key, "settings": [asdict(each) for each in part.settings]}
    elif subject == "weights":
        from fleetsim.selector_training.break_even import facts_by_clients
        from fleetsim.selectors.learned_weights import read_weights

        record |= {"data": facts_by_clients(read_weights(name))}
    return record, "\n".join([*lines, ""])
