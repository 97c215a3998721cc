"""Slack of comparisons between quantities that differ by rounding."""

from typing import Final

ROUNDING_SLACK: Final = 1e-9
"""Differences below this are rounding: as a share of the compared quantities, or of one step where
steps are counted. Sums over any fleet and run are exact to far less; no model means anything as
small."""
