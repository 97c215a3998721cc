"""Settings of one run beside its scenario, described once for all that start a run.

`fleetsim.run`, `fleetsim.simulate.run`, the commands `run` and `flower run`, and
`fleetsim.flower.running.run` take them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from fleetsim.contracts import Progress, Selector, Tracker
    from fleetsim.learning.data.loading import Prefetch

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolderSettings:
    """Settings of every run into a folder.

    Attributes:
        out: run folder; `runs/NAME-HASH` (then -2, -3 ...) unless given.
        resume: continue the unfinished run in `out`, or the last one of this scenario. A complete
            run is returned unchanged; if there is no run, it begins.
        allow_other_platform: resume even on another numerical platform; the run folder then names
            both.
        on_progress: callback after every round.
        on_note: callback with a line of text: `resume` found no run, or a complete one; the trainer
            of a network or loss of the user's own, and why it was chosen.
    """

    out: str | Path | None = None
    resume: bool = False
    allow_other_platform: bool = False
    on_progress: Callable[[Progress], None] | None = None
    on_note: Callable[[str], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings(RunFolderSettings):
    """Settings of one run of a scenario.

    Attributes:
        train: if true, models are trained. If false, there is no accuracy; times and joules are the
            same for every selector that does not use losses.
        torch_device: device of the training, `cpu` or `cuda`.
        workers: number of processes that train, this one included; changes the time alone. None:
            one for every core.
        dask: address of the scheduler of a Dask cluster, such as `tcp://10.0.0.1:8786`. Its workers
            train in the place of processes of this host, which changes the time alone; needs
            `fleetsim[dask]`.
        selector: selector object that replaces the scenario's selector. The resolved scenario names
            its class as `server.selector.kind`; the object's arguments are not recorded.
        reading: the scenario's data set, if reading has begun; None: it is read now.
        trackers: trackers that are told of the run's begin, of every round and of its end, beside
            those among the plug-ins of the scenario.
        run_key: key of the run in studies, for the manifest.
        results_cache: folder of results of training, which other runs may share: what is known is
            found there and not computed again. It changes the time alone.
    """

    train: bool = True
    torch_device: str = "cpu"
    workers: int | None = None
    dask: str | None = None
    selector: Selector | None = None
    reading: Prefetch | None = None
    trackers: Sequence[Tracker] = ()
    run_key: str | None = None
    results_cache: str | Path | None = None


def taking(
    make: Callable[P, T],
) -> Callable[[Callable[[S, T], R]], Callable[Concatenate[S, P], R]]:
    """Let a function with a record as its second argument take the record's fields as keywords."""

    def decorate(function: Callable[[S, T], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(function)
        def call(first: S, *arguments: P.args, **keywords: P.kwargs) -> R:
            return function(first, make(*arguments, **keywords))

        inner = signature(function)
        parameters = [next(iter(inner.parameters.values())), *signature(make).parameters.values()]
        vars(call)["__signature__"] = inner.replace(parameters=parameters)
        return cast("Callable[Concatenate[S, P], R]", call)

    return decorate


def described(function: F) -> F:
    """Add to a docstring's `Args` the settings of a run that the function takes and leaves out."""
    head, raises, rest = (function.__doc__ or "").partition("\n\n    Raises:")
    parameters = signature(function).parameters.items()
    names = [name for name, one in parameters if one.kind != Parameter.VAR_KEYWORD]
    lines = [
        f"        {name}: {text}"
        for name, text in _descriptions().items()
        if name in names and f"\n        {name}: " not in head
    ]
    if raises:
        function.__doc__ = "\n".join([head, *lines]) + raises + rest
    return function


def help_of(name: str) -> str:
    """Return the description of a setting as the help of an option.

    >>> help_of("torch_device")
    'Device of the training, cpu or cuda.'
    """
    text = " ".join(_descriptions().get(name, "").replace("`", "").split())
    return text[:1].upper() + text[1:]


def _descriptions() -> dict[str, str]:
    """Return the description of every setting, as it is written above."""
    texts = {}
    for record in (RunFolderSettings, RunSettings):
        attributes = (record.__doc__ or "").partition("Attributes:\n")[2]
        for entry in re.split(r"\n {8}(?! )", f"\n{attributes.rstrip()}")[1:]:
            name, _, text = entry.partition(": ")
            texts[name] = text
    return {field.name: texts.get(field.name, "") for field in fields(RunSettings)}
