"""JSON files of one object with a member for each user, plain or gzipped, read within limits."""

import json
import os
from pathlib import Path
from typing import Any, NoReturn

from fleetsim.errors import DataError
from fleetsim.host import paths
from fleetsim.host.unpacking import GZIP_FAULTS, unpacked

_MOST_BYTE = 1 << 30
_MOST_OBJECTS = 4_000_000


def read_json_object(path: Path, *, holds: str) -> dict[str, Any]:
    """Return the members of the object in a .json or .json.gz file, which `holds` names."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = dict(pairs)
        if len(names) < len(pairs):
            raise DataError(f"{path}: a key stands twice in one object; rename or drop one")
        return names

    def refused(constant: str) -> NoReturn:
        raise DataError(f"{path}: {constant} is no JSON; correct it")

    try:
        document = json.loads(_text(path), object_pairs_hook=distinct, parse_constant=refused)
    except json.JSONDecodeError as fault:
        raise DataError(
            f"{path}, line {fault.lineno}: is not JSON ({fault.msg}, column {fault.colno}); fetch"
            " the file again"
        ) from fault
    except (RecursionError, MemoryError, ValueError) as fault:
        raise DataError(f"{path}: is not JSON of this form ({fault}); check the file") from fault
    if not isinstance(document, dict) or not document:
        raise DataError(f"{path}: must be a JSON object of {holds}")
    return document


def _text(path: Path) -> str:
    try:
        with paths.opened(path) as file:
            if path.suffix == ".gz":
                content = unpacked(file, os.fstat(file.fileno()).st_size, str(path)).read()
            else:
                content = file.read(_MOST_BYTE + 1)
    except GZIP_FAULTS as fault:
        raise DataError(f"{path}: cannot be read ({fault}); copy or fetch it again") from fault
    if len(content) > _MOST_BYTE:
        raise DataError(f"{path}: holds more than {_MOST_BYTE >> 20} MiB; split it")
    # Each becomes a Python object of sixty bytes and more.
    if content.count(b"{") + content.count(b"[") > _MOST_OBJECTS:
        raise DataError(f"{path}: holds more than {_MOST_OBJECTS} objects and lists; split it")
    return content.decode("utf-8-sig")
