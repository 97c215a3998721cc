"""Contract of `fleetsim.contracts.DiagnosedSelector`, for each selector that tells numbers."""

import json
from typing import Any

import pytest

from fleetsim.engine.servers.checked_selector import diagnostics_text
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
    quiet = Server(RandomSettings().build())
    assert played(quiet, 2) == [None, None]


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
