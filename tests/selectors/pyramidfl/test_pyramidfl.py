import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetsim.contracts import Outcome
from fleetsim.selectors.pyramidfl.equations import (
    dropout_fractions,
    durations_s,
    ranks,
    step_ratios,
)
from fleetsim.selectors.pyramidfl.selector import PyramidFlSettings
from tests.selectors.rounds import met, outcome_of, report_of, view_of

BASE = np.zeros(3, dtype=np.float32)


def ready(num_samples=(10,) * 3, *, steps=None):
    work = {"epochs": 2 if steps is None else 0, "steps": steps}
    return met(PyramidFlSettings(), num_samples, cohort=3, **work)


def delivered(client, *, norm, download_s=1.0, compute_s=4.0, upload_s=9.0, num_samples=10):
    """A report of phase times whose update has this norm."""
    seconds = download_s + compute_s + upload_s
    report = report_of(client, loss=1.0, duration_s=seconds, num_samples=num_samples)
    return report._replace(
        download_s=download_s,
        compute_s=compute_s,
        upload_s=upload_s,
        vector=np.array([norm, 0.0, 0.0], dtype=np.float32),
        base=BASE,
    )


def by_client(cohort) -> dict[int, tuple[int, float]]:
    return {
        client: (epochs, round(fraction, 9))
        for client, epochs, fraction in zip(
            cohort.clients.tolist(),
            cohort.epochs.tolist(),
            cohort.upload_fraction.tolist(),
            strict=True,
        )
    }


def test_who_matters_less_uploads_less_and_who_would_wait_trains_longer():
    """All upload .9 in round 1 (equal G), so 9 s of upload are 10 s for the whole.

    G = 3 * 10 / 100 = .3 of client 0, .6 of 1, and 10 of 2, which failed: ranks 2, 1, 0; dropout
    .1 + 2 * .5 / 3 = .4333, .2667, .1. T = 1 + 4 + .5667 * 10 = 10.667 s of client 0, of 1
    3 + 20 + .7333 * 10 = 30.333 s: client 0 idles 19.667 s, 9 epochs of 2 s, and trains 2 + 9.
    """
    fleet, selector = ready()
    assert by_client(selector.select(view_of(fleet))) == dict.fromkeys(range(3), (2, 0.9))
    reports = [
        delivered(0, norm=3.0),
        delivered(1, norm=6.0, download_s=3.0, compute_s=20.0),
        report_of(2, outcome=Outcome.LATE),
    ]
    selector.observe(outcome_of(1, reports))
    second = by_client(selector.select(view_of(fleet, round_=2)))

    assert second == {0: (11, round(0.9 - 1 / 3, 9)), 1: (2, round(0.9 - 0.5 / 3, 9)), 2: (2, 0.9)}
    # Eleven epochs in 22 s and 5.667 s for .5667 of the update are the same 2 s and 10 s.
    selector.observe(
        outcome_of(2, [delivered(0, norm=3.0, compute_s=22.0, upload_s=10 * (0.9 - 1 / 3))])
    )
    state = selector.state()
    np.testing.assert_allclose(state["unit_s"][:2], [2.0, 10.0])
    np.testing.assert_allclose(state["up_s"][:2], [10.0, 10.0])
    np.testing.assert_allclose(state["gradient_utility"], [0.3, 0.6, 10.0])


def test_in_steps_a_client_is_asked_for_steps():
    """The figures above with 4 steps where there were 2 epochs: 1 s each, of a batch of 10.

    Client 0 idles 19.667 s and trains 4 + 19 steps. Of half of its steps it used 2 batches, of the
    25 samples 20.
    """
    fleet, selector = ready((25, 25, 25), steps=4)
    first = selector.select(view_of(fleet))
    reports = [
        delivered(0, norm=3.0, num_samples=25),
        delivered(1, norm=6.0, download_s=3.0, compute_s=20.0, num_samples=25),
    ]
    selector.observe(outcome_of(1, reports))
    second = selector.select(view_of(fleet, round_=2))
    steps = dict(zip(second.clients.tolist(), second.steps.tolist(), strict=True))

    assert (first.epochs, first.steps.tolist()) == (None, [4, 4, 4])
    assert second.epochs is None
    assert steps == {0: 4 + 19, 1: 4, 2: 4}
    np.testing.assert_allclose(selector.state()["gradient_utility"], [0.75, 1.5, 25.0])

    _, other = ready((25, 25, 25), steps=4)
    other.select(view_of(fleet))
    half = delivered(0, norm=3.0, num_samples=25)._replace(completed_fraction=0.5)
    other.observe(outcome_of(1, [half]))
    assert other.state()["unit_s"][0] == 2.0
    assert other.state()["gradient_utility"][0] == pytest.approx(3.0 * 20 / 100)


def test_an_interrupted_client_is_measured_by_what_it_did():
    # Half of two epochs of 10 samples in 4 s: 4 s an epoch; a quarter of them: 5 samples trained.
    fleet, selector = ready()
    selector.select(view_of(fleet))
    reports = [
        delivered(0, norm=2.0)._replace(completed_fraction=0.5),
        delivered(1, norm=2.0)._replace(completed_fraction=0.25),
        delivered(2, norm=2.0)._replace(completed_fraction=0.0),
    ]
    selector.observe(outcome_of(1, reports))
    state = selector.state()

    np.testing.assert_array_equal(state["unit_s"], [4.0, 8.0, np.nan])
    np.testing.assert_allclose(state["gradient_utility"], [0.2, 0.1, 10.0])


def test_an_update_that_diverged_leaves_the_utility():
    fleet, selector = ready()
    selector.select(view_of(fleet))
    selector.observe(outcome_of(1, [delivered(0, norm=np.inf)]))

    assert selector.state()["gradient_utility"].tolist() == [10.0, 10.0, 10.0]


def test_a_lowest_dropout_above_the_highest_is_refused():
    with pytest.raises(ValidationError, match=r"lowest_dropout 0\.7"):
        PyramidFlSettings(lowest_dropout=0.7)


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_no_client_trains_more_than_eleven_times_as_long():
    # 990 s idle at 0.1 s a step are 9900 steps on top of 10.
    assert step_ratios(array(10.0, 1000.0), array(1.0, 1.0), num_steps=10).tolist() == [11.0, 1.0]


def test_whole_steps_are_not_lost_to_rounding():
    # 0.6 s idle at 0.2 s a step is 3 steps, although 0.6 / 0.2 is 2.999... in binary.
    assert step_ratios(array(0.0, 0.6), array(1.0, 1.0), num_steps=5)[0] == 1.6


def test_equals_share_a_rank():
    assert ranks(array(2.0, 5.0, 2.0, 5.0, 1.0)).tolist() == [2, 0, 2, 0, 4]
    assert (ranks(array(7.0)).tolist(), ranks(array()).tolist()) == ([0], [])


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=10), st.floats(0.0, 2.0))
def test_the_better_one_uploads_more_and_no_client_leaves_the_range(utilities, beta):
    utility = np.array(utilities)
    dropout = dropout_fractions(ranks(utility), lowest=0.2, highest=0.7)
    order = np.argsort(-utility, kind="stable")
    ratio = step_ratios(
        durations_s(np.ones(utility.size), utility, dropout),
        np.ones(utility.size),
        num_steps=4,
        beta=beta,
    )

    assert np.all(np.diff(dropout[order]) >= 0.0)
    assert 0.2 <= dropout.min() <= dropout.max() < 0.7
    assert 1.0 <= ratio.min() <= ratio.max() <= 11.0
