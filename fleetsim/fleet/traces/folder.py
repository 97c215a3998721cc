"""Writing of trace folders: the same rows give the same bytes; files appear whole or not at all."""

import gzip
import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fleetsim.errors import DataError
from fleetsim.host import new_files, paths


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

    Raises:
        DataError: the folder cannot be written to.
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
    """Refuse to write over anything.

    Raises:
        DataError: `dest` exists, or cannot be examined.
    """
    if paths.kind_of(dest) is not None:
        raise DataError(f"{dest}: exists already; name a new folder")


@contextmanager
def new_folder(dest: Path) -> Iterator[Path]:
    """Give a folder that becomes `dest` when the block ends without an exception.

    Raises:
        DataError: it cannot be made.
    """
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as beside:
            folder = Path(beside) / dest.name
            yield folder
            folder.rename(dest)
    except OSError as fault:
        raise DataError(f"{dest}: cannot be written ({fault}); name another folder") from fault
