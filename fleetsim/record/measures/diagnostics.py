"""Numbers that a selector reported on its rounds, from the rounds table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from fleetsim.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

COLUMN = "selector_diagnostics"
_NUMBERS: TypeAdapter[dict[str, float | list[float]]] = TypeAdapter(
    dict[str, FiniteFloat | list[FiniteFloat]]
)


def diagnostics(rounds: pd.DataFrame, *, run: str) -> pd.DataFrame:
    """Return round, name, step and value of each number, ordered by these; `run` names the folder.

    The step is the position in a list, 0 for a number alone.
    """
    import pandas as pd  # noqa: PLC0415

    entries = rounds.loc[rounds[COLUMN].notna(), ["round", COLUMN]] if COLUMN in rounds else None
    rows = [
        (round_, name, step, value)
        for round_, text in (() if entries is None else entries.itertuples(index=False))
        for name, step, value in _numbers(text, f"{run}: rounds table, {COLUMN} of round {round_}")
    ]
    frame = pd.DataFrame(rows, columns=["round", "name", "step", "value"])
    return frame.astype({"round": "int64", "name": "str", "step": "int64", "value": "float64"})


def _numbers(text: str, place: str) -> list[tuple[str, int, float]]:
    """Return name, step and value of each number in a text, ordered by name."""
    try:
        numbers = _NUMBERS.validate_json(text, strict=True)
    except ValidationError:
        raise DataError(
            f"{place}: is no JSON object of finite numbers and lists of them; restore the file, or"
            " run the scenario again"
        ) from None
    return [
        (name, step, each)
        for name, value in sorted(numbers.items())
        for step, each in enumerate(value if isinstance(value, list) else [value])
    ]
