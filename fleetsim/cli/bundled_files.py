"""The verb `copy`: bundled files for people who installed a wheel."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fleetsim import bundled
from fleetsim.cli import completion
from fleetsim.cli.terminal import note, output
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted

_NEXT: dict[str, str] = {
    "scenario": "fleetsim run {path}",
    "study": "fleetsim study run {path}",
    "search": "fleetsim study optimize {path}",
    "device": "fleetsim run quickstart --set {devices}",
    "radio": "fleetsim run quickstart --set {radio}",
    "prices": "fleetsim report RUN --prices {path}",
}
"""Next command after a copy."""
_HINT = "choose another DEST"

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Bundled name, as `fleetsim list` prints it.",
        autocompletion=completion.files,
    ),
]


def copy(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="scenario, study, device, radio, trace or prices; the plural, too.",
            autocompletion=completion.file_kinds,
        ),
    ],
    name: NameArgument,
    dest: Annotated[
        Path, typer.Argument(metavar="DEST", help="New file, or a folder to copy it into.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that is there already.")
    ] = False,
) -> None:
    """Copy a bundled file, to change it; of a trace, its folder."""
    from fleetsim.host import paths

    words, kind = kind, completion.file_kind(kind) or ""
    if not kind:
        kinds = ", ".join(map(repr, completion.FILE_KINDS))
        raise typer.BadParameter(f"{quoted(words)} is not one of {kinds}")
    source, dest = bundled_path(kind, name), paths.local(dest, ScenarioError)
    target = dest / source.name if paths.is_folder(dest, ScenarioError) else dest
    existing, source_kind = paths.kind_of(target, ScenarioError), paths.kind_of(source)
    if existing is not None and (not force or existing != source_kind):
        hint = "choose another DEST" if force else "choose another DEST, or give --force"
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
    """Return the path of a bundled file, of one of `completion.FILE_KINDS`."""
    of = completion.FILE_KINDS[kind]
    if name in bundled.names(of):
        path = bundled.find(of, name)
        assert path is not None
        return path
    message = bundled.not_found(of, name).replace(" or path", "")
    raise ScenarioError(f"{kind} {quoted(name)}: {message}")


def _copy_folder(source: Path, target: Path) -> None:
    """Make a folder with the files of another; in one that is there, replace them one by one."""
    from fleetsim.fleet.traces.folder import new_folder, write_files

    files = {file.name: file.read_bytes() for file in source.iterdir()}
    if target.exists():
        write_files(target, files)
        return
    with new_folder(target) as folder:
        write_files(folder, files)


def _next(kind: str, source: Path, target: Path) -> str:
    # A bundled name has priority over a file.
    is_bundled = str(target) in bundled.names(completion.FILE_KINDS[kind])
    path = f"./{target}" if is_bundled else str(target)
    if kind == "trace":
        from fleetsim.fleet.traces.network.files import is_net_trace

        value = f"fleet.usage.trace={path}"
        if is_net_trace(source):
            value = f"fleet.channel={{kind: trace, trace: {path}}}"
        return f"fleetsim run quickstart --set {shlex.quote(value)}"
    return _NEXT[kind].format(
        path=shlex.quote(path),
        devices=shlex.quote(f"fleet.devices={{{path}: 1}}"),
        radio=shlex.quote(f"fleet.channel.metered_radio={path}"),
    )
