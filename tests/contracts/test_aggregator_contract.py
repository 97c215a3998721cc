"""Contract `fleetsim.contracts.Aggregator` of every aggregator, in each of its modes.

The kinds come from the union `AggregatorSettings`, so a new aggregator is tested as soon as its
name stands there; `selector_modes` says what their modes are.
"""

import io
from collections.abc import Sequence
from itertools import permutations
from typing import get_args

import numpy as np
import pytest

import fleetsim
from fleetsim import rng
from fleetsim.contracts import Aggregator, Outcome, Parameters, Purpose, Report, State
from fleetsim.learning.aggregation.settings import AggregatorSettings
from tests.selector_modes import modes_of

SIZE = 5
UNION = get_args(get_args(AggregatorSettings)[0])


every_mode = pytest.mark.parametrize("settings", modes_of(UNION))


def cohort(round_: int, num_clients: int = 3) -> list[Report]:
    """Reports of a round, with models of very different size, so that sums round."""
    reports = []
    for client in range(num_clients):
        draw = rng.stream(5, "model", round_, client)
        values = draw.standard_normal(SIZE) * 10.0 ** draw.integers(-6, 7, SIZE)
        vector = values.astype(np.float32)
        vector.setflags(write=False)
        report = Report(client, Purpose.TRAIN, Outcome.DELIVERED, 0.0, 9.0, 10 + client)
        reports.append(report._replace(vector=vector, base=initial(), staleness=client))
    return reports


def rounds(aggregator: Aggregator, base: Parameters, numbers: Sequence[int]) -> list[bytes]:
    """Return the global models of these rounds, in order, as bytes."""
    models = []
    for number in numbers:
        base = aggregator.aggregate(base, cohort(number))
        models.append(base.tobytes())
    return models


def initial() -> Parameters:
    base = np.linspace(-1.0, 1.0, SIZE, dtype=np.float32)
    base.setflags(write=False)
    return base


def through_a_file(state: State) -> State:
    file = io.BytesIO()
    np.savez(file, **state)  # type: ignore[arg-type]  # arrays by name
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def as_bytes(state: State) -> dict[str, tuple[str, bytes]]:
    return {name: (value.dtype.str, value.tobytes()) for name, value in state.items()}


@every_mode
def test_the_check_of_plug_ins_refuses_none(settings: AggregatorSettings) -> None:
    """Equal reports give equal models, also after a restart, and arguments stay as they are."""
    assert fleetsim.check_plugin(settings.build()) == "aggregator"


@every_mode
def test_the_model_is_new_and_shows_neither_the_order_of_arrival_nor_what_was_late(settings):
    """Read-only arrays would raise if they were written to."""
    base, reports = initial(), cohort(1)
    model = settings.build().aggregate(base, reports)
    late = reports[0]._replace(client=9, outcome=Outcome.LATE, num_samples=1000)

    assert (model.shape, model.dtype) == (base.shape, np.float32)
    assert np.isfinite(model).all()
    for given in (base, *(report.vector for report in reports if report.vector is not None)):
        assert not np.shares_memory(model, given)
    for arrived in (*permutations(reports), [*reports, late]):
        assert settings.build().aggregate(initial(), arrived).tobytes() == model.tobytes()


@every_mode
def test_a_state_once_given_does_not_change_with_later_rounds(settings: AggregatorSettings) -> None:
    aggregator = settings.build()
    rounds(aggregator, initial(), [1])
    state = aggregator.state()
    before = through_a_file(state)
    rounds(aggregator, initial(), [2, 3])

    assert as_bytes(state) == as_bytes(before)


@every_mode
def test_nothing_delivered_is_refused(settings: AggregatorSettings) -> None:
    late = [report._replace(outcome=Outcome.LATE) for report in cohort(1)]

    for reports in ([], late, [report._replace(vector=None) for report in cohort(1)]):
        with pytest.raises(ValueError, match=f"none of {len(reports)} reports"):
            settings.build().aggregate(initial(), reports)


@every_mode
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_model_that_is_not_finite_is_refused_and_leaves_no_trace(settings, broken):
    bad = np.full(SIZE, broken, dtype=np.float32)
    aggregator = settings.build()

    with pytest.raises(ValueError, match="client 1 sent 5 weights of 5 that are not finite"):
        aggregator.aggregate(initial(), [r._replace(vector=bad) for r in cohort(1)[1:]])
    assert rounds(aggregator, initial(), [1, 2]) == rounds(settings.build(), initial(), [1, 2])
