"""State of selectors for checkpoints, declared by name and type.

A selector that inherits `DeclaredState` lists what outlasts a round, and gets the methods `state`
and `restore` of `fleetsim.contracts.Selector`. What is declared as `name` is the attribute `_name`.
"""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from fleetsim.contracts import State


class Column(NamedTuple):
    """Array in a selector's state, such as one number per client [N]."""

    name: str
    """Key in the state."""
    dtype: DTypeLike
    """Type of the entries."""


class Scalar(NamedTuple):
    """Single number in a selector's state."""

    name: str
    """Key in the state."""
    type: type[int] | type[float] | type[bool]
    """Type of the number."""


StateFields = tuple[Column | Scalar, ...]


class DeclaredState:
    """Base of selectors whose state is declared.

    >>> class Counter(DeclaredState):
    ...     state_fields = (Scalar("num_rounds", int),)
    ...     _num_rounds = 3
    >>> Counter().state()
    {'num_rounds': array(3)}
    """

    state_fields: ClassVar[StateFields] = ()
    """Columns and numbers that outlast a round."""
    state_parts: ClassVar[tuple[str, ...]] = ()
    """Attributes that have a state of their own, whose keys differ from those of `state_fields`."""

    def state(self) -> State:
        """Return copies of all declared columns and numbers by name."""
        state: State = {}
        for part in self.state_parts:
            state |= getattr(self, part).state()
        for name, dtype in self.state_fields:
            state[name] = np.array(getattr(self, f"_{name}"), dtype=dtype)
        return state

    def restore(self, state: State) -> None:
        """Replace the declared columns and numbers by copies of those that `state` returned."""
        for part in self.state_parts:
            getattr(self, part).restore(state)
        for field in self.state_fields:
            array = np.array(state[field.name], dtype=field[1])
            setattr(
                self, f"_{field.name}", field.type(array) if isinstance(field, Scalar) else array
            )
