"""The laws of block fading against closed forms and numerical integrals over their densities.

`fleetsim.validation.channel` has laws, integrals and estimates, and `intervals` the method.
"""

import numpy as np
import pytest

from fleetsim.fleet.network.direction import Direction
from fleetsim.validation import channel
from fleetsim.validation.channel import LAWS, FadingLaw
from tests.theory.intervals import assert_distributed

every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.title)


@every_law
def test_moments_outage_rates_and_correlations_are_those_of_the_law(law: FadingLaw) -> None:
    for estimate in channel.estimates(law):
        assert estimate.is_inside, estimate
        # The interval is narrow enough to notice an error that matters.
        assert estimate.half_width < max(0.06 * abs(estimate.theory), 0.01), estimate


@every_law
def test_gains_are_distributed_by_the_law(law: FadingLaw) -> None:
    for direction in Direction:
        assert_distributed(channel.gains_of(law, direction)[:100_000], law.cdf)


@pytest.mark.parametrize("law", [FadingLaw("rician", 0.0), FadingLaw("nakagami", 1.0)])
def test_rayleigh_is_a_special_case(law: FadingLaw) -> None:
    """Draw for draw, since they use the same words."""
    np.testing.assert_allclose(channel.gains_of(law), channel.gains_of(LAWS[0]), rtol=1e-9)
