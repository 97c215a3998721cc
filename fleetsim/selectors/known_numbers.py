"""Diagnostics of selectors, without the numbers that they do not know."""

import numpy as np

from fleetsim.contracts import Diagnostics, FloatArray
from fleetsim.selectors.configured_selector import ConfiguredSelector, SettingsT


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


class TellingSelector(ConfiguredSelector[SettingsT]):
    """Base of selectors that tell numbers of their rounds, for the record alone."""

    def __init__(self, settings: SettingsT) -> None:
        super().__init__(settings)
        self._expected: dict[str, float | list[float]] = {}
        """Numbers that are known of the choice of the present round."""
        self._diagnostics: dict[str, float | list[float]] = {}
        """Numbers of the last round."""

    def diagnostics(self) -> Diagnostics:
        """Return the numbers of the last round that are known."""
        return self._diagnostics
