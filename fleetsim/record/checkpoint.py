"""Checkpoints, from which a run resumes after a kill at any moment.

docs/outputs.md describes the files. A checkpoint is made in this order, every file atomically:

1. new segments `rounds-FIRST-LAST.parquet` and `tasks-FIRST-LAST.parquet` (rows from 0);
2. a new segment `clients-ROUNDS.npz` of the clients that changed since the segment before;
3. `state-ROUNDS.npz`, all other state after that many rounds;
4. `latest.json`, which makes them valid;
5. removal of the files that only the previous `latest.json` named.

So all files that `latest.json` names exist. A new segment absorbs the last ones while they hold
less than twice its rows (the logarithmic method of Bentley and Saxe, "Decomposable searching
problems I", 1980). So n rows lie in O(log n) segments, and each row is written O(log n) times. Over
the run, the cost of a checkpoint grows with its new rows, not with the size of the fleet.
"""

import hashlib
import io
import itertools
import math
import re
import struct
import tokenize
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import pyarrow as pa
from pydantic import Field

from fleetsim.contracts import ClientRows, State, latest_rows, with_clients
from fleetsim.errors import DataError
from fleetsim.quoting import cut
from fleetsim.record import atomic_files, tables
from fleetsim.record.identity import Hash, RunIdentity
from fleetsim.schema import faults
from fleetsim.schema.strict_yaml import Document
from fleetsim.settings import Settings

RowTable = Literal["rounds", "tasks"]
ROW_TABLES: tuple[RowTable, ...] = ("rounds", "tasks")
FOLDER = "checkpoint"
LATEST = "latest.json"
_FORMAT = 6
_NPZ_FAULTS = (
    *(zipfile.BadZipFile, ValueError, TypeError, SyntaxError, KeyError, EOFError, OverflowError),
    *(NotImplementedError, RuntimeError, MemoryError, struct.error, tokenize.TokenError),
)
"""Exceptions about a damaged archive, or a header that numpy did not write."""
_OURS = re.compile(r"(?:rounds|tasks)-\d+-\d+\.(?:parquet|arrow)|(?:clients|state)-\d+\.npz")


class SavedFile(Settings):
    """One file of a checkpoint."""

    file: Annotated[str, Field(pattern=rf"^(?:{_OURS.pattern})$")]
    """Name of the file."""
    sha256: Hash
    """SHA-256 of the file."""


class Segment(SavedFile):
    """Consecutive rows of one table."""

    first_row: Annotated[int, Field(ge=0)]
    """Its first row in the table, counted from 0."""
    num_rows: Annotated[int, Field(ge=1)]
    """Rows in the file."""

    @staticmethod
    def file_of(name: RowTable, first_row: int, num_rows: int) -> str:
        """Return the name of the file that holds these rows of a table."""
        return f"{name}-{first_row}-{first_row + num_rows - 1}.parquet"


class ClientSegment(SavedFile):
    """State of some clients after a number of rounds."""

    num_rounds: Annotated[int, Field(ge=1)]
    """Rounds that were recorded then."""
    num_rows: Annotated[int, Field(ge=1)]
    """Clients in the file."""


class Latest(Settings):
    """Content of `latest.json`: all files of a checkpoint folder that count."""

    format: Literal[6] = 6
    """Version of this layout."""
    run: RunIdentity
    """The run whose checkpoint it is; that of another one is refused."""
    state: SavedFile
    """State after the rounds, without the clients."""
    rounds: tuple[Segment, ...]
    """Files of the table of rounds, in order."""
    tasks: tuple[Segment, ...]
    """Files of the table of tasks, in order."""
    clients: tuple[ClientSegment, ...]
    """Files of clients, in order."""

    def segments(self, name: RowTable) -> tuple[Segment, ...]:
        """Return the segments of a table, in the order of their rows."""
        return self.rounds if name == "rounds" else self.tasks

    def num_rows(self, name: RowTable) -> int:
        """Return the number of rows of a table in all its segments."""
        return sum(segment.num_rows for segment in self.segments(name))

    @property
    def num_rounds(self) -> int:
        """Rounds after which the state was taken."""
        return self.num_rows("rounds")

    @property
    def saved_files(self) -> tuple[SavedFile, ...]:
        """Every file that counts."""
        return (self.state, *self.rounds, *self.tasks, *self.clients)


def save(
    folder: Path,
    previous: Latest | None,
    *,
    run: RunIdentity,
    state: State,
    new_rows: Mapping[RowTable, pa.Table],
    changed: ClientRows | None,
) -> Latest:
    """Make a checkpoint (steps 1 to 4) of a state without the clients; call `prune` next.

    `new_rows` are the rows of each table, and `changed` the clients, that are not in `previous`,
    the checkpoint that is valid now.
    """
    segments = {
        name: _extended(folder, name, previous.segments(name) if previous else (), new_rows[name])
        for name in ROW_TABLES
    }
    num_rounds = sum(segment.num_rows for segment in segments["rounds"])
    clients = previous.clients if previous else ()
    if changed is not None:
        clients = _with_changed(folder, clients, changed, num_rounds)
    latest = Latest(
        run=run,
        state=SavedFile(**_write(folder, _state_file(num_rounds), _npz(state))),
        rounds=segments["rounds"],
        tasks=segments["tasks"],
        clients=clients,
    )
    # All names before the one that makes them valid.
    atomic_files.sync_folder(folder)
    atomic_files.write(folder / LATEST, f"{latest.model_dump_json(indent=2)}\n".encode())
    return latest


def prune(folder: Path, previous: Latest, latest: Latest) -> None:
    """Remove the files that only the previous checkpoint named."""
    kept = {saved.file for saved in latest.saved_files}
    for saved in previous.saved_files:
        if saved.file not in kept:
            atomic_files.remove(folder / saved.file)


def sweep(folder: Path, latest: Latest | None) -> None:
    """Remove files that a kill left behind: temporary ones, and those that do not count."""
    atomic_files.remove_temporaries(folder)
    kept = {saved.file for saved in latest.saved_files} if latest else set()
    for path in sorted(folder.glob("*")):
        if _OURS.fullmatch(path.name) and path.name not in kept:
            atomic_files.remove(path)


def read_latest(folder: Path, run: RunIdentity) -> Latest | None:
    """Return the valid checkpoint of a run; None if none was ever completed."""
    path = folder / LATEST
    with atomic_files.one_line_error(path, "cannot be looked for", _hint(folder)):
        if not path.exists():
            return None
    data = atomic_files.read_json(path, hint=_hint(folder))
    if isinstance(data.get("format"), int) and data["format"] < _FORMAT:
        raise DataError(f"{path}: was made by an older fleetsim, in another form; {_hint(folder)}")
    latest = faults.check(Latest, Document(data, str(path)), DataError, hint=_hint(folder))
    others = ", ".join(run.differences(latest.run))
    fault = f"is the checkpoint of another run: {others}" if others else _contradiction(latest)
    if fault:
        raise DataError(f"{path}: {fault}; {_hint(folder)}")
    return latest


def check(folder: Path, latest: Latest) -> None:
    """Check that every file of a checkpoint is there and whole."""
    for saved in latest.saved_files:
        path = folder / saved.file
        _check(path, saved, atomic_files.sha256(path, hint=_hint(folder)))


def read_state(folder: Path, latest: Latest) -> State:
    """Return the state of a checkpoint, with all clients that have ever changed."""
    state = _read_npz(folder, latest.state)
    parts = [_read_clients(folder, segment) for segment in latest.clients]
    if len({frozenset(part) for part in parts}) > 1:
        raise DataError(f"{folder}: its files of clients have other arrays; {_hint(folder)}")
    return with_clients(state, latest_rows(parts)) if parts else state


def _read_clients(folder: Path, segment: ClientSegment) -> ClientRows:
    """Return the rows of a segment, one for each client in every array."""
    rows = _read_npz(folder, segment)
    clients = rows.get("client", np.empty(0))
    if clients.dtype != np.int64 or any(
        array.shape[:1] != (segment.num_rows,) for array in (clients, *rows.values())
    ):
        raise DataError(
            f"{folder / segment.file}: holds no {segment.num_rows} rows of clients; {_hint(folder)}"
        )
    return rows


def row_parts(
    folder: Path,
    name: RowTable,
    segments: Sequence[Segment],
    columns: Collection[str] | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of segments, some at a time, or only these columns of them."""
    for segment in segments:
        path, num_rows, hint = folder / segment.file, 0, _hint(folder)
        _check(path, segment, atomic_files.sha256(path, hint=hint))
        with atomic_files.opened(path, hint=hint) as file:
            for part in tables.parts_in(file, name, source=str(path), hint=hint, columns=columns):
                num_rows += part.num_rows
                yield part
        if num_rows != segment.num_rows:
            raise DataError(f"{path}: holds {num_rows} rows and not {segment.num_rows}; {hint}")


def _contradiction(latest: Latest) -> str | None:
    """Return what is wrong with a `latest.json` that was edited; None if nothing is."""
    for name in ROW_TABLES:
        row = 0
        for segment in latest.segments(name):
            if segment.first_row != row:
                return f"no segment of {name} begins with row {row}"
            if segment.file != Segment.file_of(name, row, segment.num_rows):
                return f"{segment.file} cannot hold {segment.num_rows} row(s) from {row} on"
            row += segment.num_rows
    if latest.state.file != _state_file(latest.num_rounds):
        return f"{latest.state.file} is not the state after {latest.num_rounds} rounds"
    before = 0
    for part in latest.clients:
        if not before < part.num_rounds <= latest.num_rounds:
            return f"no segment of clients can hold {part.num_rounds} rounds after {before}"
        if part.file != _clients_file(part.num_rounds):
            return f"{part.file} is not the state of clients after {part.num_rounds} rounds"
        before = part.num_rounds
    return None


def _state_file(num_rounds: int) -> str:
    return f"state-{num_rounds}.npz"


def _clients_file(num_rounds: int) -> str:
    return f"clients-{num_rounds}.npz"


def _extended(
    folder: Path, name: RowTable, segments: tuple[Segment, ...], new: pa.Table
) -> tuple[Segment, ...]:
    """Return the segments with new rows at the end; small last ones are absorbed."""
    if new.num_rows == 0:
        return segments
    kept, num_rows = list(segments), new.num_rows
    while kept and kept[-1].num_rows < 2 * num_rows:
        num_rows += kept.pop().num_rows
    first_row = sum(segment.num_rows for segment in kept)
    path = folder / Segment.file_of(name, first_row, num_rows)
    parts = itertools.chain(row_parts(folder, name, segments[len(kept) :]), [new])
    tables.write(path, parts, is_published=False, syncs_folder=False)
    sha256 = atomic_files.sha256(path, hint=_hint(folder))
    segment = Segment(file=path.name, sha256=sha256, first_row=first_row, num_rows=num_rows)
    return (*kept, segment)


def _with_changed(
    folder: Path, segments: tuple[ClientSegment, ...], changed: ClientRows, num_rounds: int
) -> tuple[ClientSegment, ...]:
    """Return the segments with one more at the end; small last ones are absorbed."""
    kept = list(segments)
    while kept and kept[-1].num_rows < 2 * changed["client"].size:
        changed = latest_rows([_read_clients(folder, kept.pop()), changed])
    saved = _write(folder, _clients_file(num_rounds), _npz(changed))
    num_rows = changed["client"].size
    return (*kept, ClientSegment(**saved, num_rounds=num_rounds, num_rows=num_rows))


def _write(folder: Path, file: str, data: bytes) -> dict[str, str]:
    atomic_files.write(folder / file, data, syncs_folder=False)
    return {"file": file, "sha256": hashlib.sha256(data).hexdigest()}


def _check(path: Path, saved: SavedFile, sha256: str) -> None:
    """Check the hash of a file."""
    if sha256 != saved.sha256:
        raise DataError(
            f"{path}: {path.stat().st_size} bytes that are not the ones {LATEST} names;"
            f" {_hint(path.parent)}"
        )


def _read_npz(folder: Path, saved: SavedFile) -> State:
    """Return the arrays of a file that `_npz` wrote, which takes no more memory than its bytes."""
    path = folder / saved.file
    data = atomic_files.read(path, hint=_hint(folder))
    _check(path, saved, hashlib.sha256(data).hexdigest())
    try:
        return _arrays(data)
    except _NPZ_FAULTS as cause:
        reason = " ".join(f"{cause}".split()) or type(cause).__name__
        raise DataError(
            f"{path}: is not a file of arrays that fleetsim wrote ({cut(reason)}); {_hint(folder)}"
        ) from None


def _arrays(data: bytes) -> State:
    """Return the arrays of an archive, which must not be compressed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        is_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not is_stored or sum(member.file_size for member in members) > len(data):
            raise ValueError("its arrays are compressed")
        return {member.filename.removesuffix(".npy"): _array(archive, member) for member in members}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Return one array, once its header is known to announce no more bytes than there are."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
        num_byte = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or file.tell() + num_byte != member.file_size:
            raise ValueError(f"{member.filename}: {dtype} {shape} in {member.file_size} bytes")
        values = np.empty(num_byte, dtype=np.uint8)
        cast("io.BufferedIOBase", file).readinto(values.data)
    return values.view(dtype).reshape(shape, order="F" if is_fortran else "C")


def _npz(state: State) -> bytes:
    """Return the state as npz without pickle; unlike `np.savez`, for any key and without time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for key, array in state.items():
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return buffer.getvalue()


def _hint(folder: Path) -> str:
    return f"delete {folder} and run afresh"
