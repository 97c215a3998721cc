"""State of selectors for checkpoints, declared by name.

A selector that inherits `DeclaredState` lists the attributes that outlast a round, and gets the
methods `state` and `restore` of `fleetsim.contracts.Selector`.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from fleetsim.contracts import State


class DeclaredState:
    """Base of selectors whose state is declared.

    A restored array or number has the type that the attribute has before.

    >>> class Counter(DeclaredState):
    ...     state_fields = ("_num_rounds",)
    ...     _num_rounds = 3
    >>> Counter().state()
    {'num_rounds': array(3)}
    """

    state_fields: ClassVar[tuple[str, ...]] = ()
    """Attributes, arrays and numbers, that outlast a round, beside those of base classes; a leading
    `_` is not in their keys."""
    state_parts: ClassVar[tuple[str, ...]] = ()
    """Attributes that have a state of their own, whose keys differ from those of `state_fields`."""
    state_prefix: ClassVar[str] = ""
    """Beginning of the keys of `state_fields`."""

    def state(self) -> State:
        """Return copies of all declared arrays and numbers by name."""
        state: State = {}
        for part in self.state_parts:
            state |= getattr(self, part).state()
        return state | {key: np.array(getattr(self, name)) for key, name in self._declared()}

    def restore(self, state: State) -> None:
        """Replace the declared arrays and numbers by copies of those that `state` returned."""
        for part in self.state_parts:
            getattr(self, part).restore(state)
        for key, name in self._declared():
            before = getattr(self, name)
            array = np.array(state[key], dtype=np.asarray(before).dtype)
            setattr(self, name, array if isinstance(before, np.ndarray) else array.item())

    def _declared(self) -> Iterator[tuple[str, str]]:
        """Yield the keys and names of all declared attributes."""
        for cls in reversed(type(self).__mro__):
            for name in vars(cls).get("state_fields", ()):
                yield self.state_prefix + name.removeprefix("_"), name
