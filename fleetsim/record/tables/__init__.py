"""Tables of a run: rounds, tasks and clients.

- `schemas`: Columns of every table of a run.
- `building`: Tables of a run from its rows and columns.
- `files`: Files of tables: parquet for published tables, Arrow for checkpoints.
- `hashing`: Digests of tables: SHA-256 of their values, however they are stored.
"""

from fleetsim.record.tables.building import (
    concat,
    from_columns,
    from_rows,
    to_frame,
    without_unused,
)
from fleetsim.record.tables.files import decode, encode, pack, read, unpack, write
from fleetsim.record.tables.hashing import digest, digests
from fleetsim.record.tables.schemas import OPTIONAL, SCHEMAS, TableName

__all__ = [
    "OPTIONAL",
    "SCHEMAS",
    "TableName",
    "concat",
    "decode",
    "digest",
    "digests",
    "encode",
    "from_columns",
    "from_rows",
    "pack",
    "read",
    "to_frame",
    "unpack",
    "without_unused",
    "write",
]
