"""Folders of traces: finding them, and writing them whole or not at all, byte for byte the same."""

import gzip
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from fleetsim import bundled
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import new_files, paths
from fleetsim.quoting import quoted


def find_trace(name: str, key: str) -> Path:
    """Return the folder or file of a trace that a key of a scenario names, bundled or one's own."""
    path = bundled.find("traces", name)
    if path is None:
        raise ScenarioError(f"{key} = {quoted(name)}: {bundled.not_found('traces', name)}")
    return path


def plain_or_packed(path: Path) -> list[Path]:
    """Return those of a file and its gzipped form that are there."""
    both = (path, path.with_name(f"{path.name}.gz"))
    return [each for each in both if paths.kind_of(each) is not None]


def readme_of(
    kind: Literal["Usage", "Network"],
    name: str,
    size: str,
    columns: Sequence[str],
    notes: Sequence[str],
    rules: str,
    form: str = "",
) -> str:
    """Return the README.md of a trace of these columns that was imported from a file."""
    # Only imports need it.
    import jinja2  # noqa: PLC0415

    template = Path(__file__).with_name("readme.md.j2").read_text("utf-8")
    source = "/".join(Path(name).parts[-2:])
    text: str = jinja2.Template(template, keep_trailing_newline=True).render(
        kind=kind, size=size, source=source, form=form, notes=notes, rules=rules, columns=columns
    )
    return text


def csv_gz(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> bytes:
    """Return a gzipped CSV file; values must hold no comma, quote or line end."""
    lines = [",".join(header), *(",".join(map(str, row)) for row in rows), ""]
    content = io.BytesIO()
    # Without a file name and a time of writing, the same rows give the same bytes.
    with gzip.GzipFile("", "wb", compresslevel=9, fileobj=content, mtime=0) as file:
        file.write("\n".join(lines).encode())
    return content.getvalue()


def is_unfit(name: str) -> bool:
    r"""Return True for a name that `csv_gz` cannot write.

    >>> is_unfit("ann"), is_unfit("a,b"), is_unfit("\ud800")
    (False, True, True)
    """
    return any(char in ',"\r\n' or "\ud800" <= char <= "\udfff" for char in name)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write or replace files of a folder, which is made if missing.

    Other processes see the old content of each or the new, never a part.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            part, opened = new_files.created_beside(folder / name)
            with opened as file:
                file.write(content)
            part.replace(folder / name)
    except OSError as fault:
        raise DataError(f"{folder}: cannot be written ({fault}); name another folder") from fault


def check_new(dest: Path) -> None:
    """Refuse to write over anything."""
    if paths.kind_of(dest) is not None:
        raise DataError(f"{dest}: exists already; delete it, or give another name")


@contextmanager
def new_folder(dest: Path) -> Iterator[Path]:
    """Give a folder that becomes `dest` when the block ends without an exception."""
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as beside:
            folder = Path(beside) / dest.name
            yield folder
            folder.rename(dest)
    except OSError as fault:
        raise DataError(f"{dest}: cannot be written ({fault}); name another folder") from fault
