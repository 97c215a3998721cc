"""Diagnostics of a selector: numbers about a round of its own, checked, as text for its row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from fleetsim.contracts import Selector
from fleetsim.engine.servers.selection import text_of
from fleetsim.errors import SimulationError


def diagnostics_of(selector: Selector, *, time_s: float) -> str | None:
    """Return a selector's numbers on the round that it has just observed, as a JSON object.

    Keys are sorted. None if the selector has no method `diagnostics`, or nothing to tell.

    Raises:
        SimulationError: the selector broke its contract.
    """
    ask: Any = getattr(selector, "diagnostics", None)
    if ask is None:
        return None
    answer: Any = ask() if callable(ask) else ask
    try:
        told = _checked(answer)
    except (TypeError, ValueError, OverflowError):
        raise SimulationError(
            f"{type(selector).__name__}.diagnostics must return finite numbers, or lists of them,"
            f" by names that are identifiers, {{}} for none, got {text_of(answer)}",
            time_s=time_s,
        ) from None
    return json.dumps(told, sort_keys=True, allow_nan=False) if told else None


def _checked(answer: Any) -> dict[str, float | list[float]]:
    """Return an answer in Python's own types.

    Raises:
        TypeError, ValueError, OverflowError: it is none.
    """
    if not isinstance(answer, Mapping):
        raise TypeError
    if not all(isinstance(name, str) and name.isidentifier() for name in answer):
        raise ValueError
    return {name: _value(value) for name, value in answer.items()}


def _value(value: Any) -> float | list[float]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value):
        return [_number(each) for each in value]
    return _number(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number
