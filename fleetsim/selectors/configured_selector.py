"""Selectors made from settings, and the settings that make them."""

from collections.abc import Generator, Sequence
from importlib import import_module
from typing import ClassVar, Generic, TypeVar

import numpy as np

from fleetsim.contracts import (
    BoolArray,
    Diagnostics,
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    Report,
    RoundOutcome,
    RoundView,
    Selector,
)
from fleetsim.selectors.declared_state import DeclaredState
from fleetsim.selectors.demands import Demands
from fleetsim.settings import Settings

SettingsT = TypeVar("SettingsT", bound=Settings)
Stages = Generator[Sequence[ProbeRequest], tuple[RoundView, Sequence[Report]], None]
"""Probing before a choice: each stage gives requests, and gets the next view and their answers."""


class SelectorKind(Settings):
    """Settings of one kind of selector, which build it."""

    demands: ClassVar[Demands]
    """Information and memory that it needs, by the setting that changes them."""
    selector: ClassVar[str]
    """Class of the selector: in the module of the settings, or `MODULE:CLASS` of another one, which
    is imported when a selector is built."""

    def build(self) -> Selector:
        """Return a new selector with these settings."""
        module, _, name = self.selector.rpartition(":")
        made: Selector = getattr(import_module(module or type(self).__module__), name)(self)
        return made


class ConfiguredSelector(DeclaredState, Generic[SettingsT]):
    """Base of selectors that needs no losses, asks for nothing and learns nothing.

    A subclass makes its columns over the fleet in `_begin`, and asks clients in `_stages`.
    """

    needs_losses = False
    needs_probes = False

    def __init__(self, settings: SettingsT) -> None:
        self._settings = settings
        self._expected: dict[str, float | list[float]] = {}
        """Numbers that are known of the choice of the present round."""
        self._diagnostics: dict[str, float | list[float]] = {}
        """Numbers of the last round."""
        self._num_read = 0
        """Reports that the present probing has seen."""

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        """Keep the fleet and begin; clients are asked before a choice at the earliest."""
        self._fleet = fleet
        self._size = fleet.num_samples.size
        self._begin(fleet)
        return ()

    def probe(self, view: RoundView) -> Sequence[ProbeRequest]:
        """Return the requests of the next stage of `_stages`; none ends the probing."""
        try:
            if view.stage == 0:
                self._probing = self._stages(view)
                requests = next(self._probing)
            else:
                requests = self._probing.send((view, view.reports[self._num_read :]))
        except StopIteration:
            return ()
        self._num_read = len(view.reports)
        return requests

    def _stages(self, view: RoundView) -> Stages:
        """Yield the requests of each stage, and get the next view and the answers."""
        yield from ()

    def observe(self, outcome: RoundOutcome) -> None:
        """Learn nothing."""

    def diagnostics(self) -> Diagnostics:
        """Return the numbers of the last round that are known, for the record alone."""
        return self._diagnostics

    def _begin(self, fleet: FleetView) -> None:
        """Begin without any knowledge of the clients."""

    def _mask(self, clients: IntArray) -> BoolArray:
        """Return a mask of these clients over the fleet [N]."""
        mask = np.zeros(self._size, dtype=np.bool_)
        mask[clients] = True
        return mask


def known(**values: float | FloatArray | None) -> dict[str, float | list[float]]:
    """Return the values that are finite numbers, or lists of them; others are left out.

    >>> known(expected=2.0, realised=float("nan"), loss=None, ascent=np.array([1.0, 3.0]))
    {'expected': 2.0, 'ascent': [1.0, 3.0]}
    """
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else float(value)
        for name, value in values.items()
        if value is not None and np.size(value) > 0 and bool(np.isfinite(value).all())
    }
