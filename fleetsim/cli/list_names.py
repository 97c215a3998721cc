"""The verbs `list`, `show`, `schema` and `data fetch`: what scenarios may name."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from fleetsim.cli import train_selector
from fleetsim.cli.bundled_files import (
    FILE_KINDS,
    BundledName,
    bundled_path,
    file_kind,
    files_of,
)
from fleetsim.cli.explain_keys import FileKind, schema_of, table
from fleetsim.cli.terminal import console, output, output_json, wide
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

_BYTE_PER_MB = 1e6
_SINGULAR = {"studies": "study", "searches": "search", "losses": "loss", "prices": "price"}
_SHOWN = ("kind", "name", "description", "key", "settings", "path", "data")
"""Keys of every record of `show`."""


def _subjects() -> list[str]:
    from fleetsim.catalogue import SUBJECTS

    return list(SUBJECTS)


def _datasets() -> list[str]:
    from fleetsim.learning.data.dataset_kind import SETS

    return list(SETS)


def list_(what: Annotated[str, _subjects] = "", *, as_json: bool = False) -> None:
    """List names that scenarios and commands may use."""
    from fleetsim import catalogue

    if not what:
        if as_json:
            output_json(catalogue.SUBJECTS)
        else:
            output("\n".join(catalogue.SUBJECTS))
        return
    listing = catalogue.listing(_subject(what))
    if as_json:
        output_json(listing.records())
        return
    rows = Table(*listing.columns, box=None, pad_edge=False)
    for row in listing.rows:
        rows.add_row(*row)
    shown = wide()
    shown.print(rows)
    if listing.note:
        shown.print(f"\n{listing.note}", markup=False)


def _subject(word: str) -> str:
    """Return the subject that a word names, in the plural or singular."""
    subjects = _subjects()
    for each in subjects:
        if word in (each, _SINGULAR.get(each, each[:-1])):
            return each
    hint = did_you_mean(word, subjects) or f"; there are {', '.join(subjects)}"
    raise typer.BadParameter(f"{quoted(word)} is no kind of name{hint}")


def show(kind: Annotated[str, _subjects], name: BundledName, *, as_json: bool = False) -> None:
    """Show what stands behind a name: a bundled file, or a part with its settings.

    Of a trace, its README and the names of its files; of weights, where they come from.
    """
    # Files before the catalogue is imported, which takes seconds.
    of_files = file_kind(kind)
    record, text = _part(_subject(kind), name) if of_files is None else _file(of_files, name)
    if as_json:
        output_json({**dict.fromkeys(_SHOWN), "name": name, **record})
    elif record["kind"] == "weights":
        train_selector.show(name)
    else:
        output(text, ends_line=False)


def _file(kind: str, name: str) -> tuple[dict[str, Any], str]:
    """Return a bundled file, or a trace by its README and the bytes of its files; and as text."""
    from fleetsim.schema import strict_yaml

    path = bundled_path(kind, name)
    record: dict[str, Any] = {"kind": FILE_KINDS[kind], "path": path}
    if kind != "trace":
        return record | {"data": strict_yaml.read(path).data}, path.read_text("utf-8")
    readme = (path / "README.md").read_text("utf-8")
    sizes = {file.name: file.stat().st_size for file in files_of(path)}
    files = [f"  {file}  {num_byte:,} B\n" for file, num_byte in sizes.items()]
    return record | {"description": readme, "data": sizes}, "".join([readme, "\nFiles:\n", *files])


def _part(subject: str, name: str) -> tuple[dict[str, Any], str]:
    """Return a part with its settings, weights with their origin, or a metric; and as text."""
    from fleetsim import catalogue

    description, settings = catalogue.part(subject, name)
    record: dict[str, Any] = {"kind": subject, "description": description}
    lines = [description]
    if (key := catalogue.KEYS.get(subject)) is not None:
        rows = {
            each.key.removeprefix(f"{key}."): f"{each.description} ({', '.join(each.facts)})"
            for each in settings
        }
        lines += ["", f"Settings of {key}.kind: {name}", *table(rows)]
        record |= {"key": key, "settings": list(map(asdict, settings))}
    elif subject == "weights":
        from fleetsim.selector_training.break_even import facts_by_clients
        from fleetsim.selectors.learned_weights import read_weights

        record |= {"data": facts_by_clients(read_weights(name))}
    return record, "\n".join([*lines, ""])


def schema(what: FileKind = "scenario", *, plugin: list[str] | None = None) -> None:
    """Print the JSON Schema of scenarios, of study or of search files, for editors."""
    output(json.dumps(schema_of(what, plugin), indent=2, sort_keys=True))


def fetch(name: Annotated[str | None, _datasets] = None, *, list_: bool = False) -> None:
    """Download a data set from its official address and verify its checksums."""
    if (name is None) != list_:
        raise typer.BadParameter("give the NAME of a data set, or --list alone")
    from fleetsim.learning.data.dataset_kind import SETS
    from fleetsim.learning.data.published import fetch as published

    if name is not None:
        output(published.fetch(name, progress=console.is_terminal))
        return
    table = Table("name", "title", "MB", "got", "found in", box=None, pad_edge=False)
    for known in SETS.values():
        megabytes = sum(file.num_byte for file in known.files) / _BYTE_PER_MB
        home = published.folder_with(known)
        table.add_row(
            known.name,
            known.title,
            f"{megabytes:,.1f}",
            "by hand" if known.by_hand else "by fetch",
            "-" if home is None else escape(str(home)),
        )
    wide().print(table)
