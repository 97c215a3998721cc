"""Contract of `fleetsim.contracts.DiagnosedSelector`, for each selector that tells numbers."""

import json
import tracemalloc
from typing import Any

import numpy as np
import pytest

from benchmarks.selector_prices import selector_of
from fleetsim.contracts import Evaluation, FleetView, RoundView
from fleetsim.engine.servers.checked_selector import diagnostics_text
from fleetsim.selectors import DEMANDS
from fleetsim.selectors.baselines.uniform import RandomSettings
from tests.contracts.test_selector_contract import NOBODY, Server, one_mode_per_class, through_npz
from tests.selector_modes import modes

NUM_ROUNDS = 14
"""Rounds with a fit of every selector that has any."""
SMALL: dict[str, dict[str, Any]] = {
    "fedgcs": {"warm_up_rounds": 5, "refit_epochs": 2, "shuffles": 2, "exploration_fraction": 0.2},
    "favor": {"batch_size": 4},
    "fedmarl": {"batch_size": 2},
}
"""Settings with which a selector learns within these rounds."""


def tells(settings: Any) -> bool:
    return hasattr(type(settings), "weights_are_for")


def learning(settings: Any) -> Any:
    return settings.model_copy(update=SMALL.get(settings.kind, {}))


every_teller = pytest.mark.parametrize(
    "settings", [mode for mode in one_mode_per_class() if tells(mode.values[0])]
)


def recorded(server: Any) -> str | None:
    """Return what is recorded of the last round."""
    return diagnostics_text(server.selector.diagnostics())


def played(server: Server, num_rounds: int) -> list[str | None]:
    """Play rounds; return what is recorded of each."""
    texts = []
    for _ in range(num_rounds):
        server.play()
        texts.append(recorded(server))
    return texts


def test_the_four_selectors_that_learn_tell_numbers():
    kinds = {mode.values[0].kind for mode in modes() if tells(mode.values[0])}

    assert kinds == {"fedgcs", "favor", "fedmarl", "autofl"}
    assert played(Server(RandomSettings().build()), 2) == [None, None]


@every_teller
def test_a_selector_restored_between_rounds_tells_the_same(settings):
    straight = Server(learning(settings).build())
    played(straight, 8)
    saved = through_npz(straight.selector.state())
    resumed = Server(learning(settings).build())
    resumed.setup_reports, resumed.round = [], 8
    resumed.selector.restore(saved)

    assert played(resumed, 5) == played(straight, 5)


@every_teller
def test_expected_is_told_and_telling_changes_no_choice_and_is_of_the_last_round(settings):
    """A round that selects no client has neither an expectation nor an outcome."""
    silent, asked = (Server(learning(settings).build()) for _ in range(2))
    texts = []
    for _ in range(NUM_ROUNDS):
        chosen = asked.play().tolist()
        texts.append(recorded(asked))

        assert recorded(asked) == texts[-1]
        assert silent.play().tolist() == chosen
    rounds = [json.loads(text) for text in texts if text is not None]
    assert any("expected" in names for names in rounds)
    assert [json.dumps(names, sort_keys=True) for names in rounds] == list(filter(None, texts))
    asked.play(NOBODY)
    assert json.loads(recorded(asked) or "{}").keys() <= {"loss"}


COHORT = 10
LINEAR = [
    pytest.param(kind, variant, id=f"{kind}-{variant}")
    for kind, variants in DEMANDS.items()
    for variant, demand in variants.items()
    if not (demand.square_byte or demand.client_byte or demand.has_sets)
]
PER_CLIENT_BYTE = 1_000
"""Bytes per client: tens of columns of 8 byte. Pairs of 5,000 clients would take 40,000 byte."""


def peak_byte(kind, variant, size):
    """Return the largest memory from the selector's set-up to its second selection."""
    num_samples = np.arange(size) % 100 + 1
    parameters = np.zeros(4, dtype=np.float32)
    position_m = np.stack([np.arange(size), np.arange(size) % 7], axis=1).astype(np.float64)
    fleet = FleetView(
        seed=1,
        num_samples=num_samples,
        cohort=COHORT,
        epochs=1,
        batch_size=10,
        learning_rate=0.1,
        planned_rounds=30,
        parameters=parameters,
        payload_byte=16,
        validation=Evaluation(accuracy=0.1, loss=2.3),
        position_m=position_m,
    )
    clients = np.arange(size)
    tracemalloc.start()
    try:
        selector = selector_of(kind, variant, size=size, cohort=COHORT)
        selector.setup(fleet)
        for round_ in (1, 2):
            # Nobody has answered whatever was asked.
            selector.select(RoundView(round_, 0.0, COHORT, clients, num_samples, parameters))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("kind", "variant"), LINEAR)
def test_a_choice_among_thousands_takes_memory_in_proportion(kind, variant):
    assert peak_byte(kind, variant, 5_000) < PER_CLIENT_BYTE * 5_000


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "variant"), LINEAR)
def test_a_choice_among_a_million_takes_memory_in_proportion(kind, variant):
    assert peak_byte(kind, variant, 1_000_000) < PER_CLIENT_BYTE * 1_000_000


def test_a_selector_that_holds_pairs_takes_what_it_says():
    size = 1_000
    demand = DEMANDS["divfl"]["refresh: ideal"]

    assert peak_byte("divfl", "refresh: ideal", size) > 0.9 * demand.square_byte * size**2
