"""Runs with differential privacy: epsilon of each round, and the same after a resume."""

import pytest

from fleetsim.contracts import Progress
from fleetsim.learning.aggregation.accountant import RdpAccountant
from fleetsim.progress import progress_text
from fleetsim.report.pages import summary
from fleetsim.scenario import SynchronousServerSettings, load
from fleetsim.simulate import run

pytest.importorskip("dp_accounting", reason="pip install 'fleetsim[privacy]'")

SMALL = ("fleet.size=20", "server.cohort=5", "server.over_commit=1.2", "stop.rounds=3")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    states: list[Progress] = []
    folder = tmp_path_factory.mktemp("private") / "run"
    return run(load("quickstart-private", SMALL), out=folder, on_progress=states.append), states


@pytest.mark.slow
def test_epsilon_grows_with_each_round_and_is_shown(done):
    made, states = done
    spent = made.rounds["epsilon"].tolist()

    assert 0.0 < spent[0] < spent[1] < spent[2] == made.epsilon
    assert progress_text(states[-1]).endswith(f"epsilon {spent[2]:.2f}")
    assert any(
        line.startswith("privacy ") and f"epsilon {spent[2]:.2f} at delta 0.001" in line
        for line in summary.terminal_lines(made)
    )


def test_epsilon_counts_the_selected_among_the_eligible(done):
    """Six of the eligible are selected for five answers; the accountant is told of these two."""
    made, _ = done
    server = load("quickstart-private", SMALL).server
    assert isinstance(server, SynchronousServerSettings)
    assert server.privacy is not None
    accountant = RdpAccountant(server.privacy)
    for row in made.rounds.itertuples():
        accountant.spend(row.num_selected, row.num_eligible)

    assert set(made.rounds["num_selected"]) == {6}
    assert made.epsilon == accountant.epsilon


@pytest.mark.slow
def test_without_training_or_privacy_there_is_no_epsilon(tmp_path):
    untrained = run(load("quickstart-private", SMALL), out=tmp_path / "a", train=False)
    plain = run(load("quickstart-private", (*SMALL, "server.privacy=null")), out=tmp_path / "b")

    assert "epsilon" not in untrained.rounds
    assert "epsilon" not in plain.rounds
    assert untrained.epsilon is plain.epsilon is None
