"""Runs with differential privacy: epsilon of each round, and the same after a resume."""

import pytest

from fleetsim.contracts import Progress
from fleetsim.learning.aggregation.privacy import RdpAccountant
from fleetsim.progress import progress_text
from fleetsim.report.pages import summary
from fleetsim.scenario import SynchronousServerSettings, load
from fleetsim.simulate import run

pytest.importorskip("dp_accounting", reason="pip install 'fleetsim[privacy]'")

SMALL = ("fleet.size=20", "server.cohort=5", "server.over_commit=1.2", "stop.rounds=3")


def test_epsilon_counts_the_selected_among_the_eligible_and_is_shown(tmp_path):
    """Six of the eligible are selected for five answers; the accountant is told of these two."""
    states: list[Progress] = []
    scenario = load("quickstart-private", SMALL)
    made = run(scenario, out=tmp_path / "run", on_progress=states.append)
    spent = made.rounds["epsilon"].tolist()
    assert isinstance(scenario.server, SynchronousServerSettings)
    assert scenario.server.privacy is not None
    accountant = RdpAccountant(scenario.server.privacy)
    for counts in made.rounds[["num_selected", "num_eligible"]].to_numpy().tolist():
        accountant.spend(*counts)

    assert set(made.rounds["num_selected"]) == {6}
    assert 0.0 < spent[0] < spent[1] < spent[2] == made.epsilon == accountant.epsilon
    shown = f"epsilon {spent[2]:.2f}"
    assert progress_text(states[-1]).endswith(shown)
    (line,) = [text for text in summary.terminal_lines(made) if text.startswith("privacy ")]
    assert f"{shown} at delta 0.001" in line


@pytest.mark.slow
def test_without_training_or_privacy_there_is_no_epsilon(tmp_path):
    untrained = run(load("quickstart-private", SMALL), out=tmp_path / "a", train=False)
    plain = run(load("quickstart-private", (*SMALL, "server.privacy=null")), out=tmp_path / "b")

    assert "epsilon" not in untrained.rounds
    assert "epsilon" not in plain.rounds
    assert untrained.epsilon is plain.epsilon is None
