"""Tables of a run: rounds, tasks and clients.

- `building`: Columns of every table of a run, and tables from rows and columns.
- `files`: Files of tables: parquet for published tables, Arrow for checkpoints.
- `hashing`: Digests of tables: SHA-256 of their values, however they are stored.
"""

from fleetsim.record.tables.building import (
    OPTIONAL,
    SCHEMAS,
    TableName,
    concat,
    from_columns,
    from_rows,
    to_frame,
    without_unused,
)
from fleetsim.record.tables.files import decode, encode, pack, read, unpack, write
from fleetsim.record.tables.hashing import digest, digests

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
