"""Selectors on the bundled digits with real losses: what they ask is charged, and models learn."""

import pytest

from fleetsim.contracts import Outcome, Purpose
from fleetsim.scenario import load
from fleetsim.selectors import build_selector
from fleetsim.simulate import run
from tests.selectors.delegate import Watched

MODEL_BYTE = 4 * (64 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10)
"""Of the 64-200-200-10 network, whose state dict has no more than its weights."""


@pytest.fixture
def play(tmp_path):
    def go(kind, *changes, rounds=3):
        scenario = load(
            "quickstart",
            [
                f"server.selector.kind={kind}",
                f"stop.rounds={rounds}",
                "task.partition={kind: iid}",
                *("fleet.size=20", "fleet.devices={pixel-6: 1.0}", "server.cohort=4"),
                *changes,
            ],
        )
        watched = Watched(build_selector(scenario.server.selector))
        return watched, run(scenario, out=tmp_path / "run", workers=1, selector=watched)

    return go


def probes(finished):
    tasks = finished.tasks
    return tasks[tasks["purpose"] == Purpose.PROBE.value]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "changes", "upload_byte", "num_probed"),
    [
        ("fedgra", ["server.selector.every_rounds=2"], MODEL_BYTE + 24, [True, False, True]),
        ("fedgra", ["server.selector.every_rounds=2", "server.selector.divergence_at=client"], 32,
            [True, False, True]),
        ("gpfl", ["evaluate.validation_fraction=0.1"], MODEL_BYTE + 8, [True, False, False]),
        ("survey", ["server.selector.policy=2"], None, [False, False, False]),
        ("tifl", [], MODEL_BYTE, [True, False, False]),
        ("fedcs", ["server.selector.asked_fraction=0.5"], 24, [True, True, True]),
        ("rbcs-f", [], 16, [True, True, True]),
        ("autofl", ["evaluate.validation_fraction=0.1"], 8, [True, True, True]),
        ("oort", ["server.selector.profile=oort_repo"], None, [False, False, False]),
    ],
)  # fmt: skip
def test_what_is_asked_is_charged_and_the_model_learns(
    kind, changes, upload_byte, num_probed, play
):
    # All clients are always available, so no further ones appear.
    watched, finished = play(kind, *changes, "fleet.usage={}", "server.deadline_s=null")
    asked = probes(finished)

    assert [bool(num) for num in finished.rounds["num_probed"]] == num_probed
    assert set(asked["upload_byte"]) == (set() if upload_byte is None else {upload_byte})
    assert asked.empty == (finished.rounds["energy_probe_j"].sum() == 0.0)
    assert all(0 < len(chosen) <= 5 for chosen in watched.chosen)
    assert finished.rounds["accuracy"].iloc[-1] > 0.3


def test_a_deadline_and_owners_that_come_and_go_are_survived(play):
    watched, finished = play("tifl", "server.selector.num_tiers=2", "server.deadline_s=1.0")
    late = [
        report
        for view in watched.views
        for report in view.reports
        if report.outcome is Outcome.LATE
    ]

    assert late
    assert len(finished.rounds) == 3
    assert not {report.client for report in late} & {c for cohort in watched.chosen for c in cohort}
