"""Queues and laws of the validation page against independent references, and wrong theories."""

import numpy as np
import pytest

from fleetsim.validation import channel, queueing
from fleetsim.validation.tables import Check, Section, errors_text, mean_of


def test_a_queue_of_its_own_seed_is_another_and_sizes_have_a_mean_of_one_second() -> None:
    one = queueing.poisson_sojourns_s(0.01, 0, is_exponential=True)
    other = queueing.poisson_sojourns_s(0.01, 1, is_exponential=True)

    assert not np.allclose(one, other)
    # at a load of 1 % transfers hardly ever meet: S / 0.99
    assert np.concatenate([one, other]).mean() == pytest.approx(1.0 / 0.99, abs=5 / np.sqrt(1000))


@pytest.mark.parametrize("law", channel.LAWS, ids=lambda law: law.title)
def test_the_densities_integrate_to_one_and_their_distribution_functions_agree(law):
    assert law.mean_of(lambda gain: 1.0) == pytest.approx(1.0, rel=1e-9)
    assert law.mean_of(lambda gain: (gain - 1.0) ** 2) == pytest.approx(law.variance, rel=1e-8)
    for gain in (0.1, 0.7, 2.5):
        by_integral = law.mean_of(lambda _: 1.0, until=gain)
        assert float(law.cdf(np.array([gain]))[0]) == pytest.approx(by_integral, rel=1e-6)


def test_an_interval_leaves_out_the_theory_of_another_law() -> None:
    rayleigh, rician = channel.FadingLaw("rayleigh"), channel.FadingLaw("rician", 3.0)
    squares = (channel.gains_of(rayleigh) - 1.0) ** 2

    assert mean_of("right", rayleigh.variance, squares, 8.0).is_inside
    assert not mean_of("wrong", rician.variance, squares, 8.0).is_inside


def test_errors_are_relative_and_rounding_is_none() -> None:
    checks = [Check("a", "exact", 2.0, 2.0 + 1e-15, "s", ""), Check("b", "exact", 4.0, 3.0, "", "")]

    assert errors_text(checks[:1]) == "met to rounding"
    assert errors_text(checks) == "mean error 12.5 %, worst 25.0 %"
    assert checks[0].cells()[3] == "2.000 s"
    assert isinstance(Section("t", "x", ()), Section)
