"""Selectors of the papers with real training: their probes and bytes on the wire."""

import pytest

from fleetsim.scenario import load
from fleetsim.selectors import build_selector
from fleetsim.simulate import run
from tests.selectors.delegate import Watched

ROUNDS = 4
QUICK = (
    *("fleet.size=9", "server.cohort=3", "server.over_commit=1.0", "server.deadline_s=null"),
    *(f"stop.rounds={ROUNDS}", "task.local.epochs=1", "task.holdout_fraction=0.25"),
    *("task.model.hidden=[40, 40]", "fleet.devices={pixel-6: 1.0}", "fleet.usage={}"),
)
"""Of one kind of phone, which owners leave alone."""


@pytest.mark.slow
def test_afl_is_told_what_the_first_of_several_epochs_lost(tmp_path):
    changes = [*QUICK, "task.local.epochs=3", "server.selector={kind: afl}"]
    scenario = load("quickstart", changes)
    watched = Watched(build_selector(scenario.server.selector))
    run(scenario, out=tmp_path, workers=1, selector=watched)
    valuation = watched.state()["valuation"]

    assert len(watched.reports) == 3 * ROUNDS
    for report in watched.reports:
        assert report.epoch_losses is not None
        assert len(report.epoch_losses) == 3
        assert report.epoch_losses[-1] == report.loss
    for report in watched.reports[-3:]:
        assert report.epoch_losses is not None
        expected = report.num_samples**0.5 * report.epoch_losses[0]
        assert valuation[report.client] == pytest.approx(expected)


def test_pyramidfl_uploads_parts_of_updates(tmp_path):
    selector = "{kind: pyramidfl, exploration_fraction: 0, exploration_min_fraction: 0}"
    scenario = load("quickstart", [*QUICK, f"server.selector={selector}"])
    tasks = run(scenario, out=tmp_path, workers=1).tasks
    # A client without the model downloads it to train.
    shares = tasks.upload_byte / tasks.download_byte.max()

    assert (tasks.purpose == "train").all()
    # 1 - .1 - rank * .5 / 3
    for _, of_round in shares.groupby(tasks["round"]):
        assert sorted(of_round) == pytest.approx([0.9 - 1 / 3, 0.9 - 0.5 / 3, 0.9], rel=1e-3)


def test_messages_take_seconds_and_joules_of_those_who_send_them(tmp_path):
    """Printed potentials settle in one exchange. Nine clients who are all neighbours: 8 byte for
    each of 8 neighbours, (2 scalars and 9 indices) x 8 x 8 = 704 byte each way, which take .704 s
    at 8 kbit/s, after three round trips of 71 ms over LTE."""
    channel = "{kind: constant, down_bit_per_s: 8.0e3, up_bit_per_s: 8.0e3}"
    selector = "{kind: bp-ucb, slot_rounds: 1, potentials: printed, graph: {kind: complete}}"
    changes = [*QUICK, "stop.rounds=2", f"fleet.channel={channel}", f"server.selector={selector}"]
    tasks = run(load("quickstart", changes), out=tmp_path / "run", workers=1).tasks
    talked = tasks[(tasks["purpose"] == "probe") & (tasks["num_samples"] == 0)]

    assert len(talked) == 9
    assert talked["upload_byte"].tolist() == talked["download_byte"].tolist() == [704] * 9
    assert talked["upload_s"].tolist() == pytest.approx([0.704 + 3 * 0.071] * 9)
    assert talked["download_s"].tolist() == pytest.approx([0.704 + 3 * 0.071] * 9)
    assert (talked["energy_transmit_j"] > 0.0).all()
    assert (talked["energy_receive_j"] > 0.0).all()
