"""Calls of a plug-in that is checked: exceptions, global random numbers, and changed arguments."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fleetsim.errors import ScenarioError
from fleetsim.learning.global_generators import Watch
from fleetsim.plugins.plugin import told
from fleetsim.plugins.plugin_kind import refused


class WatchedCalls:
    """Calls of the methods of a plug-in, of which everything that they must not do is refused."""

    def __init__(self, said: str) -> None:
        """Watch the plug-in that messages call `said`."""
        self.said = said

    def call(
        self,
        part: Any,
        method: str,
        *arguments: Any,
        names: tuple[str, ...] = (),
        compares: bool = True,
    ) -> Any:
        """Return the answer of a method.

        Args:
            part: object of the plug-in.
            method: name of its method.
            arguments: arguments by position; a generator among them may be drawn from.
            names: names of the arguments in messages.
            compares: False to leave out whether an argument is changed, which takes time.

        Raises:
            ScenarioError: it failed, used a global generator, or changed an argument.
        """
        kept = copy.deepcopy(arguments) if compares else None
        answer = self.watched(method, lambda: getattr(part, method)(*arguments))
        if kept is None:
            return answer
        for index, (given, before) in enumerate(zip(arguments, kept, strict=True)):
            if not same(given, before):
                name = names[index] if index < len(names) else "its argument"
                raise self.refused(f"{method} changes {name}; work on a copy")
        return answer

    def watched(self, name: str, function: Callable[[], Any]) -> Any:
        """Return the answer of a function that calls code of the plug-in.

        Raises:
            ScenarioError: it failed, or drew from or seeded a global generator.
        """
        watch = Watch()
        try:
            answer = function()
        except ScenarioError:
            raise
        except Exception as fault:
            raise self.refused(f"{name} fails: {told(fault)}") from fault
        for library in watch.drawn():
            raise self.refused(
                f"{name} draws from or seeds the global generator of {library}; draw from"
                " fleetsim.rng.stream or from the generator that it gets"
            )
        return answer

    def refused(self, says: str) -> ScenarioError:
        """Return the error about this plug-in."""
        return refused(self.said, says)


def same(one: Any, two: Any) -> bool:
    """Return whether two answers or arguments are equal to the last bit; generators always are.

    >>> same({"a": np.arange(3)}, {"a": np.arange(3)}), same([1.0], [1.5])
    (True, False)
    """
    if isinstance(one, np.random.Generator) and isinstance(two, np.random.Generator):
        return True
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return _same_arrays(one, two)
    if type(one) is not type(two):
        return False
    if dataclasses.is_dataclass(one) and not isinstance(one, type):
        fields = dataclasses.fields(one)
        return all(same(getattr(one, f.name), getattr(two, f.name)) for f in fields)
    if isinstance(one, Mapping):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two or (one != one and two != two))


def _same_arrays(one: Any, two: Any) -> bool:
    if not (isinstance(one, np.ndarray) and isinstance(two, np.ndarray)):
        return False
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    return one.tobytes() == two.tobytes() if not one.dtype.hasobject else bool((one == two).all())
