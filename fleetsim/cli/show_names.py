"""The verb `show`: what stands behind a name that `fleetsim list` prints."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fleetsim.cli import completion, train_selector
from fleetsim.cli.bundled_files import NameArgument, bundled_path
from fleetsim.cli.explain_keys import table
from fleetsim.cli.scenario_options import JsonOption
from fleetsim.cli.terminal import output, output_json
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

_KEYS = ("kind", "name", "description", "key", "settings", "path", "data", "files")


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
    file_kind = completion.file_kind(kind)
    if file_kind is not None:
        # Before the catalogue is imported, which takes seconds.
        record = _file(file_kind, bundled_path(file_kind, name))
        text = record["description"] or record["path"].read_text("utf-8")
    else:
        record = _part(kind, name)
        text = _text(record)
    if as_json:
        known = {"kind": completion.FILE_KINDS.get(file_kind or ""), "name": name, **record}
        output_json({**dict.fromkeys(_KEYS), **known})
    elif record.get("kind") == "weights":
        train_selector.show(name)
    elif record.get("files"):
        files = (f"  {file['name']}  {file['num_byte']:,} B" for file in record["files"])
        output("\n".join([text, "Files:", *files]))
    else:
        output(text, ends_line=False)


def _file(kind: str, path: Path) -> dict[str, Any]:
    """Return a bundled file with its data, or the folder of a trace with its README."""
    if kind != "trace":
        from fleetsim.schema import strict_yaml

        return {"path": path, "description": None, "data": strict_yaml.read(path).data}
    files = [
        {"name": file.name, "num_byte": file.stat().st_size} for file in sorted(path.iterdir())
    ]
    readme = (path / "README.md").read_text("utf-8")
    return {"path": path, "description": readme, "files": files}


def _part(kind: str, name: str) -> dict[str, Any]:
    """Return a part with its settings, weights with their origin, or a metric."""
    from fleetsim import catalogue

    subject = catalogue.subject(kind)
    if subject is None:
        raise typer.BadParameter(catalogue.no_subject(kind))
    rows = {next(iter(row.values())): row for row in catalogue.listing(subject).records()}
    if name not in rows:
        hint = did_you_mean(name, rows) or f"; there are {', '.join(rows)}"
        raise ScenarioError(f"{kind} {quoted(name)}: no such name{hint}")
    record: dict[str, Any] = {"kind": subject, "description": list(rows[name].values())[1]}
    if subject in catalogue.KEYS:
        from fleetsim.scenario import schema
        from fleetsim.schema.explained_keys import explained_keys, of_key

        key = catalogue.KEYS[subject]
        keys = explained_keys(schema())
        own = [each for each in keys if f"{key}.kind: {name}" in each.beside]
        each = (each for one in dict.fromkeys(e.key for e in own) for each in of_key(own, one))
        record |= {"key": f"{key}.kind: {name}", "settings": [asdict(one) for one in each]}
        of_kinds = (explained.kinds for explained in of_key(keys, key))
        record["description"] = next(kinds[name] for kinds in of_kinds if name in kinds)
    elif subject == "weights":
        from fleetsim.selector_training.break_even import facts_by_clients
        from fleetsim.selectors.learned_weights import read_weights

        record["data"] = facts_by_clients(read_weights(name))
    return record


def _text(record: dict[str, Any]) -> str:
    lines = [record["description"]]
    if key := record.get("key"):
        above = f"{key.rpartition('.')[0]}."
        lines += ["", f"Key: {key}"]
        rows = {each["key"].removeprefix(above): _about(each) for each in record["settings"]}
        lines += ["Settings:", *table(rows)] if rows else []
    return "\n".join([*lines, ""])


def _about(key: dict[str, Any]) -> str:
    default = "required" if key["default"] is None else f"default {key['default']}"
    return f"{key['description']} ({', '.join(filter(None, (key['type'], key['range'], default)))})"
