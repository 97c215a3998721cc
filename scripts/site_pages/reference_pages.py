"""Pages of commands, devices, radios, published data sets, errors and failures."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import Any, Literal, get_args

import yaml

from fleetsim import bundled, catalogue, errors
from fleetsim.learning.data.loading import DatasetSettings
from fleetsim.schema import strict_yaml
from scripts import verbs
from scripts.kinds_of_parts import kind_of, options
from scripts.site_pages.key_pages import markdown
from scripts.site_pages.staging import CHILDREN

HOMES = {"devices": "Devices", "radios": "Radios"}


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; bars in cells are escaped."""
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in line)} |"
        for line in lines
    )


def option_names(parameter: Any) -> str:
    """Return an option with the form of its value."""
    kind = parameter.type_descriptor.annotation
    value = parameter.metavar
    if value is None:
        value = "|".join(options(kind)) or None
    if value is None and kind is not bool:
        value = getattr(kind, "__name__", "text").upper()
    names = ", ".join(f"`{name}`" for name in parameter.opts)
    return f"{names} `{value}`" if value else names


def commands() -> str:
    """Return the page of the command line."""
    parts = [
        "# Command line",
        "For users of the command line. After this page you know every option. Exit codes, and what"
        " the commands share: [](/commands.md).",
    ]
    for path, command in verbs.verbs():
        parameters = [one for one in command.params if not getattr(one, "hidden", False)]
        rows = [
            [
                f"`{(one.metavar or one.name).upper()}`"
                if one.param_type_name == "argument"
                else option_names(one),
                markdown(str(one.help or "").replace("\\[", "[")),
                "" if one.default in (None, False, ()) else f"`{one.default}`",
            ]
            for one in parameters
        ]
        parts += [
            f"## `{' '.join(path)}`",
            markdown(inspect.cleandoc(str(command.help))),
            f"```sh\n{verbs.usage(path, command)} [OPTIONS]\n```",
        ]
        if rows:
            parts.append(table(("argument or option", "meaning", "default"), rows))
        if command.epilog:
            words, _, example = str(command.epilog).partition(": ")
            parts.append(f"{words}:\n\n```sh\n{example}\n```")
    return "\n\n".join(parts) + "\n"


def figures(data: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield key, value and source of all figures of a hardware file; words have no source."""
    for key, value in data.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, Mapping) and "value" in value:
            inferred = "*inferred*: " if value.get("inferred") else ""
            yield f"`{name}`", str(value["value"]), f"{inferred}{value['source']}"
        elif isinstance(value, Mapping):
            yield from figures(value, name)
        elif isinstance(value, list):
            for entry in value:
                words = (f"{k} {v}" for k, v in entry.items()) if isinstance(entry, Mapping) else ()
                yield f"`{name}`", ", ".join(words) or str(entry), ""
        else:
            yield f"`{name}`", str(value), ""


def hardware(kind: Literal["devices", "radios"]) -> dict[str, str]:
    """Return the list of devices or radios, and a page for each one."""
    listing = catalogue.listing(kind)
    rows = [
        [f"[`{row[0]}`](/reference/{kind}/{row[0]}.md)", *(cell.strip() for cell in row[1:])]
        for row in listing.rows
    ]
    pages = {
        f"reference/{kind}/index.md": f"# {HOMES[kind]}: one page each\n\nFor users who choose"
        f" {kind}. After this page you can name one; to write your own: [](/devices.md).\n\n"
        f"{table(listing.columns, rows)}\n\n{markdown(listing.note)}\n\n{CHILDREN}"
    }
    for name in bundled.names(kind):
        path = bundled.folder(kind) / f"{name}.yaml"
        text, data = path.read_text("utf-8"), strict_yaml.read(path).data
        comment = re.match(r"(?:#.*\n)*", text)
        words = " ".join(line.strip("# ") for line in (comment[0] if comment else "").splitlines())
        found = [one for one in figures(data) if one[0] != "`title`"]
        facts = [
            f"- {key}: {' '.join(value.split())}" for key, value, source in found if not source
        ]
        pages[f"reference/{kind}/{name}.md"] = "\n\n".join(
            [
                f"# {name}",
                f"For users and reviewers of {data['title']}. After this page you know its figures"
                f" and their sources. {markdown(words)}".rstrip(),
                "\n".join(facts),
                table(("figure", "value", "source"), (one for one in found if one[2])),
                f"```sh\nfleetsim show {kind.removesuffix('s')} {name}\n```\n",
            ]
        )
    return pages


def datasets() -> str:
    """Return the page of published data sets: form, size, licence and paper."""
    rows = [
        [
            f"`{kind_of(member)}`",
            one.title,
            f"{sum(file.num_byte for file in one.files) / 1e6:,.1f}",
            f"by hand: {one.by_hand}" if one.by_hand else f"`fleetsim data fetch {one.name}`",
            one.licence,
            one.citation,
        ]
        for member in get_args(get_args(DatasetSettings)[0])
        for one in member.published
    ]
    columns = ("kind", "what it is", "MB", "how to get it", "licence", "paper")
    return (
        "# Published data sets\n\nFor users who fetch one. After this page you know size, licence"
        " and paper of each; fleetsim contains none of them. Keys:"
        f" [](/reference/keys/task-dataset.md); forms, splits and histories: [](/data.md).\n\n"
        f"{table(columns, rows)}\n"
    )


def faults() -> str:
    """Return the page of exceptions, exit codes and failures of runs."""
    tree, rest = inspect.cleandoc(str(errors.__doc__)).split("\n\n", 2)[1:]
    texts = yaml.safe_load(
        (resources.files("fleetsim.record") / "failures.yaml").read_text("utf-8")
    )
    causes = texts.pop("outcomes")
    rows = [
        [f"`{kind}`", f"`{about['what']}`", f"`{about['cause']}`"] for kind, about in texts.items()
    ]
    return "\n\n".join(
        [
            "# Errors and failures",
            "For users whose command or run failed. After this page you know every exit code and"
            " kind of failure; 0: done, 130: interrupted.",
            tree,
            markdown(rest),
            "## Failures of a run",
            "A run can end by its rules and be no result. Its manifest, its page and the terminal"
            " name the failure; words in braces are numbers of the run: [](/reports.md#failures).",
            table(("kind", "what happened", "likely cause, and key to change"), rows),
            "## Lost tasks",
            "Likely causes by the most frequent outcome; `{likely}` above is one of them.",
            table(("outcome", "likely cause, and key to change"), _coded(causes)),
        ]
    )


def _coded(texts: Mapping[str, str]) -> list[list[str]]:
    return [[f"`{kind}`", text] for kind, text in texts.items()]


def pages() -> dict[str, str]:
    """Return all these pages by place."""
    return {
        "reference/command-line.md": commands(),
        **hardware("devices"),
        **hardware("radios"),
        "reference/published-data-sets.md": datasets(),
        "reference/errors.md": faults(),
    }
