"""Calls of a plug-in that is checked: exceptions, global random numbers, and changed arguments."""

import copy
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from fleetsim.errors import ScenarioError
from fleetsim.host.user_code import user_code
from fleetsim.learning.global_generators import GeneratorWatch
from fleetsim.learning.models.model_fault import ModelFaultError


class WatchedCalls:
    """Calls of the methods of a plug-in, of which everything that they must not do is refused."""

    def __init__(self, label: str, on_note: Callable[[str], None] | None = None) -> None:
        """Watch the plug-in that messages call `label`; `on_note` gets what is found out."""
        self.label = label
        self.on_note = on_note

    def call(
        self,
        part: Any,
        method: str,
        *arguments: Any,
        names: tuple[str, ...] = (),
        compares: bool = True,
    ) -> Any:
        """Return the answer of a method, whose arguments have these names in messages.

        A generator among them may be drawn from. `compares` is False to leave out whether an
        argument is changed, which takes time.
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
        """Return the answer of a function that calls code of the plug-in."""
        watch, num_modules = GeneratorWatch(), len(sys.modules)
        with user_code(f"{self.label}: {name}"):
            answer = function()
        # A library that is imported on the way may draw, too.
        for library in watch.drawn() if len(sys.modules) == num_modules else ():
            raise self.refused(
                f"{name} draws from or seeds the global generator of {library}; draw from"
                " fleetsim.rng.stream or from the generator that it gets"
            )
        return answer

    def refused(self, message: str) -> ScenarioError:
        """Return the error about this plug-in."""
        return refused(self.label, message)


class TwinCalls:
    """Calls of an object of a plug-in in a run, watched, and at first made of a second one, too.

    So the cheapest part of the rehearsal takes place in every run: unseeded draws, and what objects
    of the class share, make two answers of one question.
    """

    def __init__(self, first: Any, second: Any, label: str) -> None:
        """Ask `first` and, until `leave_second`, `second`; `label` names the plug-in.

        There is no second one of an object that is used itself.
        """
        self._first = first
        self._second = None if second is first else second
        self._calls = WatchedCalls(label)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer of a method."""
        answer = self._calls.watched(method, lambda: getattr(self._first, method)(*arguments))
        if self._second is not None:
            second = self._second
            again = self._calls.watched(method, lambda: getattr(second, method)(*arguments))
            if not same(answer, again):
                raise self._calls.refused(
                    f"{method} of two objects gives two answers to one question; it must use"
                    " neither a clock, nor unseeded draws, nor what objects share"
                )
        return answer

    def leave_second(self) -> None:
        """Ask the first object alone from now on."""
        self._second = None


class CalledThrough:
    """Object of the user's whose methods are called by a function of their name and arguments."""

    def __init__(self, part: Any, call: Callable[..., Any]) -> None:
        self._part, self._call = part, call

    def __getattr__(self, name: str) -> Any:
        result = getattr(self._part, name)
        return partial(self._call, name) if callable(result) else result


def same(one: Any, two: Any) -> bool:
    """Return whether two answers or arguments are equal to the last bit; generators always are.

    >>> same({"a": np.arange(3)}, {"a": np.arange(3)}), same([1.0], [1.5])
    (True, False)
    """
    if isinstance(one, np.random.Generator) and isinstance(two, np.random.Generator):
        return True
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        if one.shape != two.shape or one.dtype != two.dtype:
            return False
        return bool((one == two).all()) if one.dtype.hasobject else one.tobytes() == two.tobytes()
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


def refused(label: str, message: str) -> ScenarioError:
    """Return the error about a plug-in that was named or given as `label`."""
    return ScenarioError(f"{label}: {message}")


@contextmanager
def faults_of(label: str, error: type[Exception] = ModelFaultError) -> Iterator[None]:
    """Tell faults of a network in the block as those of what was named or given as `label`.

    So are faults of other sorts, such as those of data, if their `error` is given.
    """
    try:
        yield
    except error as fault:
        raise refused(label, str(fault).removeprefix(f"{label}: ")) from fault
