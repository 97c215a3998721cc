"""Modes of all selectors, or of the kinds of another union, for tests of each of them.

The kinds come from the union, such as `SelectorSettings`, so a new one in it is tested at once. Its
modes are its default settings and, one setting changed at a time, every other literal and every
`examples` value; a required setting takes its first example. Clients in examples must be 0, 1 or 2.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args, get_origin

import pytest

from fleetsim.selectors import SelectorSettings

UNION = get_args(get_args(SelectorSettings)[0])


def modes() -> list[Any]:
    """Return settings of every kind of selector."""
    return modes_of(UNION)


def modes_of(union: Iterable[Any]) -> list[Any]:
    """Return settings of every kind: the default ones, then one setting changed at a time."""
    modes: list[Any] = []
    for cls in union:
        required = {
            name: field.examples[0]
            for name, field in cls.model_fields.items()
            if field.is_required()
        }
        modes.append(pytest.param(cls(**required), id=cls.model_fields["kind"].default))
        for name, field in cls.model_fields.items():
            values = list(field.examples or ())
            if name != "kind" and get_origin(field.annotation) is Literal:
                values += get_args(field.annotation)
            for value in values:
                if not field.is_required() and value != field.default:
                    settings = cls(**required, **{name: value})
                    kind = cls.model_fields["kind"].default
                    modes.append(pytest.param(settings, id=f"{kind}-{name}-{value}"))
    return modes
