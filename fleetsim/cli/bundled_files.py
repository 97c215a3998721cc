"""The verb `copy`: bundled files for people who installed a wheel."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fleetsim import bundled
from fleetsim.cli.terminal import note, output
from fleetsim.errors import ScenarioError
from fleetsim.host import paths
from fleetsim.quoting import quoted

FILE_KINDS: dict[str, bundled.Kind] = {
    "scenario": "scenarios",
    "study": "studies",
    "search": "searches",
    "device": "devices",
    "radio": "radios",
    "trace": "traces",
    "prices": "prices",
}
"""Kinds of bundled files that people read and copy."""
_NEXT: dict[str, str] = {
    "scenario": "fleetsim run {path}",
    "study": "fleetsim study run {path}",
    "search": "fleetsim study optimize {path}",
    "device": "fleetsim run quickstart --set {devices}",
    "radio": "fleetsim run quickstart --set {radio}",
    "trace": "fleetsim run quickstart --set {trace}",
    "prices": "fleetsim report RUN --prices {path}",
}
"""Next command after a copy."""
_HINT = "choose another DEST"


def file_kind(word: str) -> str | None:
    """Return the kind of bundled files that a word names, in the singular or plural."""
    return next(
        (one for one, many in FILE_KINDS.items() if word in (one, many, one.removesuffix("s"))),
        None,
    )


def _names(context: typer.Context) -> list[str]:
    """Return bundled files of the kind that the command line names."""
    kind = file_kind(str(context.params.get("kind")))
    return [] if kind is None else bundled.names(FILE_KINDS[kind])


BundledName = Annotated[str, _names]


def copy(
    kind: Annotated[str, lambda: list(FILE_KINDS)],
    name: BundledName,
    dest: Path,
    *,
    force: bool = False,
) -> None:
    """Copy a bundled file, to change it; of a trace, its folder."""
    words, kind = kind, file_kind(kind) or ""
    if not kind:
        kinds = ", ".join(map(repr, FILE_KINDS))
        raise typer.BadParameter(f"{quoted(words)} is not one of {kinds}")
    source, dest = bundled_path(kind, name), paths.local(dest, ScenarioError)
    target = dest / source.name if paths.is_folder(dest, ScenarioError) else dest
    existing = paths.kind_of(target, ScenarioError)
    if existing is not None and (not force or existing != paths.kind_of(source)):
        hint = _HINT if force else f"{_HINT}, or give --force"
        raise ScenarioError(f"{target}: this {existing} exists already; {hint}")
    if kind == "trace":
        _copy_folder(source, target)
    else:
        from fleetsim.record import atomic_files

        atomic_files.make_folder(target.parent, hint=_HINT)
        atomic_files.write(target, source.read_bytes(), hint=_HINT)
    output(f"{kind}: {target}")
    note(f"use it with: {_next(kind, source, target)}")


def bundled_path(kind: str, name: str) -> Path:
    """Return the path of a bundled file, of one of `FILE_KINDS`."""
    of = FILE_KINDS[kind]
    if name in bundled.names(of):
        path = bundled.find(of, name)
        assert path is not None
        return path
    message = bundled.not_found(of, name).replace(" or path", "")
    raise ScenarioError(f"{kind} {quoted(name)}: {message}")


def files_of(folder: Path) -> list[Path]:
    """Return the files of a bundled folder, without the folder of what pip compiled."""
    return sorted(path for path in folder.iterdir() if path.is_file())


def _copy_folder(source: Path, target: Path) -> None:
    """Make a folder with the files of another; in one that is there, replace them one by one."""
    from fleetsim.fleet.traces.folder import new_folder, write_files

    files = {file.name: file.read_bytes() for file in files_of(source)}
    if target.exists():
        write_files(target, files)
        return
    with new_folder(target) as folder:
        write_files(folder, files)


def _next(kind: str, source: Path, target: Path) -> str:
    from fleetsim.fleet.traces.network.files import is_net_trace

    # A bundled name has priority over a file.
    path = f"./{target}" if str(target) in bundled.names(FILE_KINDS[kind]) else str(target)
    values = {
        "path": path,
        "devices": f"fleet.devices={{{path}: 1}}",
        "radio": f"fleet.channel.metered_radio={path}",
        "trace": f"fleet.usage.trace={path}",
    }
    if kind == "trace" and is_net_trace(source):
        values["trace"] = f"fleet.channel={{kind: trace, trace: {path}}}"
    return _NEXT[kind].format(**{name: shlex.quote(value) for name, value in values.items()})
