"""Runs with secure aggregation: bytes and round trips on the clock, and rounds that fail."""

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run

SMALL = (
    "fleet.size=12", "server.cohort=4", "server.over_commit=1", "server.deadline_s=600",
    "stop.rounds=2", "fleet.usage.trace=null", "fleet.usage.starts_at_s=0",
    "fleet.devices={jetson-nano-cpu: 1.0}",
    "fleet.channel={kind: constant, down_bit_per_s: 8.0e6, up_bit_per_s: 8.0e6}",
)  # fmt: skip
PLUS = "server.secure_aggregation={kind: secagg-plus, neighbours: 2, key_byte: 10, share_byte: 7}"


def made(tmp_path, *changes):
    return run(load("quickstart", (*SMALL, *changes)), out=tmp_path, train=False)


def test_bytes_of_every_task_by_hand(tmp_path):
    """64 x 200 + 200 x 200 + 200 x 10 weights and 410 biases are P = 55,210. Down 4 P and 2 * 2 *
    (10 + 7); up 2 * 10, (3 * 2 + 1) * 7 and 55,211 entries of 18 bit, as 4 * 65,535 < 2^18."""
    tasks = made(tmp_path / "run", PLUS).tasks

    assert set(tasks["download_byte"]) == {4 * 55_210 + 68}
    assert set(tasks["upload_byte"]) == {20 + 49 + 124_225}


def test_messages_take_round_trips_and_the_radio_joules(tmp_path):
    """The same bytes but for a few, so that what is left are two round trips down and one up."""
    few = "server.secure_aggregation={kind: secagg, key_byte: 1, share_byte: 1, value_bit: 30}"
    plain = made(tmp_path / "plain").tasks
    secure = made(tmp_path / "secure", few).tasks
    down_s = (secure["download_s"] - plain["download_s"]).to_numpy()
    up_s = (secure["upload_s"] - plain["upload_s"]).to_numpy()
    more_byte = (secure["upload_byte"] - plain["upload_byte"]).to_numpy()

    assert set(secure["download_byte"] - plain["download_byte"]) == {2 * 3 * 2}
    assert set(more_byte) == {2 + 10 + 4}
    assert down_s == pytest.approx(2 * up_s, rel=0.02)
    assert (up_s > 1e-3).all()
    assert (secure["energy_receive_j"] > plain["energy_receive_j"]).all()


def test_a_round_with_too_few_answers_to_unmask_them_is_not_aggregated(tmp_path):
    """Eight selected for four answers: four of eight are not more than half, but are a third."""
    half = "server.secure_aggregation={kind: secagg}"
    third = "server.secure_aggregation={kind: secagg, threshold_fraction: 0.3}"
    failed = made(tmp_path / "half", "server.over_commit=2", half).rounds
    passed = made(tmp_path / "third", "server.over_commit=2", third).rounds

    assert set(failed["num_delivered"]) == set(passed["num_delivered"]) == {4}
    assert not failed["aggregated"].any()
    assert passed["aggregated"].all()


def test_sums_are_those_of_a_server_that_sees_single_updates(tmp_path):
    """Secure aggregation is a model of costs: the numbers of the model are not quantised."""
    few = (*SMALL, "task.local.epochs=1")
    plain = run(load("quickstart", few), out=tmp_path / "plain", workers=1)
    secure = run(load("quickstart", (*few, PLUS)), out=tmp_path / "secure", workers=1)

    assert plain.rounds["accuracy"].tolist() == secure.rounds["accuracy"].tolist()
    assert plain.manifest.digest != secure.manifest.digest
