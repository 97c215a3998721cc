"""CSV files of tables, whose texts no spreadsheet takes for formulas.

A spreadsheet evaluates a cell that begins with one of `= + - @`, a tab or a carriage return. Names
come from files of anyone, so such a text gets an apostrophe in front, which spreadsheets take for
the mark of a text (OWASP, "CSV injection"). Numbers stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def encoded(table: pd.DataFrame) -> bytes:
    """Return a table as CSV, without its index."""
    safe = table.rename(columns=_as_text)
    for number, kind in enumerate(table.dtypes):
        if kind.kind not in "biufcmM":
            safe.isetitem(number, table.iloc[:, number].astype(object).map(_as_text).to_numpy())
    # A lone surrogate, as in the name of a file that is not UTF-8, has no bytes.
    text: str = safe.to_csv(index=False, lineterminator="\n")
    return text.encode("utf-8", "replace")


def _as_text(value: Any) -> Any:
    """Return a text that is no formula; other values unchanged.

    >>> [_as_text(value) for value in ("=1+1", "-0.5", "-", "oort", -2)]
    ["'=1+1", '-0.5', "'-", 'oort', -2]
    """
    if not isinstance(value, str) or not value.startswith(_BEGINS_FORMULA) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
