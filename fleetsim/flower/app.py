"""A Flower app: its folder, what `pyproject.toml` says, and the hash of its source."""

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetsim.errors import DataError, ScenarioError
from fleetsim.flower.costs import AppSettings
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.schema import faults
from fleetsim.schema.spelling import did_you_mean
from fleetsim.schema.strict_yaml import Document

PROJECT = "pyproject.toml"
_SOURCES = (".py", ".toml")
_OVERRIDE = re.compile(r"""\s*([^\s=]+)=('[^']*'|"(?:[^"\\]|\\.)*"|[^\s'"]\S*|)(?=\s|$)""")
"""`KEY=VALUE`, with quotes around a value that has blanks."""
_REFERENCE = "a reference such as my_app.server_app:app"
Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class App:
    """A Flower app as its folder describes it."""

    folder: Path
    name: str
    server_app: str
    client_app: str
    config: dict[str, Value]
    """Run configuration with overrides; nested keys are joined by dots, as Flower does it."""
    settings: AppSettings
    """The table `tool.fleetsim`."""
    source_sha256: str
    """SHA-256 of the app's Python and TOML files, with their names."""


def read_app(folder: str | Path, overrides: Sequence[str] = ()) -> App:
    """Read an app's folder; each override is `KEY=VALUE` of its run configuration."""
    folder = paths.expanded(str(folder))
    path = folder / PROJECT
    if not paths.is_folder(folder):
        raise DataError(f"{folder}: no such folder; name the folder of a Flower app")
    if not paths.is_file(path):
        raise DataError(f"{folder}: has no {PROJECT}; name the folder of a Flower app")
    try:
        data = tomllib.loads(paths.read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise DataError(f"{path}: is not TOML: {fault}") from None
    of_app = _table(path, data, "tool", "flwr", "app")
    components = _table(path, data, "tool", "flwr", "app", "components")
    settings = faults.check(
        AppSettings,
        Document(_table(path, data, "tool", "fleetsim"), f"{path}: tool.fleetsim", has_lines=False),
        DataError,
    )
    project = _table(path, data, "project")
    return App(
        folder=folder.resolve(),
        name=str(project.get("name") or folder.resolve().name),
        server_app=_reference(path, components, "serverapp"),
        client_app=_reference(path, components, "clientapp"),
        config=_with_overrides(_flat(path, _table(path, of_app, "config")), overrides),
        settings=settings,
        source_sha256=_source_sha256(folder),
    )


def _table(path: Path, data: dict[str, Any], *keys: str) -> dict[str, Any]:
    table: Any = data
    for key in keys:
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise DataError(f"{path}: {'.'.join(keys)} must be a table, got {quoted(table)}")
    result: dict[str, Any] = table
    return result


def _reference(path: Path, components: dict[str, Any], key: str) -> str:
    value = components.get(key)
    where = f"{path}: tool.flwr.app.components.{key}"
    if value is None:
        raise DataError(f"{where} is missing: it must be {_REFERENCE}")
    module, _, attribute = str(value).partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    if not all(part.isidentifier() for part in parts):
        raise DataError(f"{where} = {quoted(value)}: must be {_REFERENCE}")
    return str(value)


def _flat(path: Path, table: dict[str, Any], prefix: str = "") -> dict[str, Value]:
    flat: dict[str, Value] = {}
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            flat |= _flat(path, value, f"{name}.")
        elif isinstance(value, bool | int | float | str):
            flat[name] = value
        else:
            raise DataError(
                f"{path}: tool.flwr.app.config.{name} = {quoted(value)}: must be text, a number,"
                " true or false"
            )
    return flat


def _with_overrides(config: dict[str, Value], overrides: Sequence[str]) -> dict[str, Value]:
    """Return the configuration with overrides, which must name keys that it has, as in Flower.

    An override may hold several pairs. Quotes around a value are those of TOML; others are text.
    """
    config = dict(config)
    for override in overrides:
        where, end = f"--run-config {override}", 0
        while end == 0 or end < len(override.rstrip()):
            pair = _OVERRIDE.match(override, end)
            if pair is None:
                raise ScenarioError(f"{where}: must be KEY=VALUE, with quotes around blanks")
            (key, text), end = pair.groups(), pair.end()
            if key not in config:
                nearest = did_you_mean(key, sorted(config))
                raise ScenarioError(
                    f"{where}: the app has no key {quoted(key)} in its config{nearest}"
                )
            config[key] = _parsed(where, text, config[key])
    return config


def _parsed(where: str, text: str, before: Value) -> Value:
    """Return the value of an override, which has the type of the one that it replaces."""
    if isinstance(before, str):
        if text[:1] not in ("'", '"'):
            return text
        try:
            return str(tomllib.loads(f"value = {text}")["value"])
        except tomllib.TOMLDecodeError as fault:
            raise ScenarioError(f"{where}: {quoted(text)} is no string of TOML: {fault}") from None
    if isinstance(before, bool):
        if text not in ("true", "false"):
            raise ScenarioError(f"{where}: must be true or false, as {quoted(before)}")
        return text == "true"
    try:
        return int(text) if isinstance(before, int) else float(text)
    except ValueError:
        kind = "a whole number" if isinstance(before, int) else "a number"
        raise ScenarioError(f"{where}: must be {kind}, as {quoted(before)}") from None


def _source_sha256(folder: Path) -> str:
    digest = hashlib.sha256()
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix in _SOURCES
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
    )
    for path in files:
        content = paths.read(path)
        name = path.relative_to(folder).as_posix().encode()
        digest.update(len(name).to_bytes(8) + name + len(content).to_bytes(8) + content)
    return digest.hexdigest()
