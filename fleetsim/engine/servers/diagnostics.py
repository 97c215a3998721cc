"""Diagnostics of a selector: numbers about a round of its own, checked, as text for its row."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np


def diagnostics_text(answer: Any) -> str | None:
    """Return a selector's numbers as a JSON object with sorted keys; None without any.

    Raises:
        TypeError, ValueError, OverflowError: the answer is none of `Diagnostics`.
    """
    numbers = _checked(answer)
    return json.dumps(numbers, sort_keys=True, allow_nan=False) if numbers else None


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
