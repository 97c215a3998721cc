"""A phone with 5 % battery dies in mid-upload, is paid for in the ledger, and comes back.

Every time is computed by hand, in closed form.
"""

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run
from tests.engine.tiny import PLAIN_RADIO

CAPACITY_J = 4.614 * 3600 * 3.85
IDLE_W, TRAIN_W, RECEIVE_W, TRANSMIT_W = 0.149, 4.43, 0.363, 1.739
TAIL_W, TAIL_S = 0.13286, 0.30107
STANDBY_W, SCREEN_W = 0.05, 1.09
CHARGE_W, OHM = 7.5, 0.18
"""pixel-6 at any rate, wifi's tail, and the defaults of everyday, charge_w and internal_ohm."""
BELOW_5_V, BELOW_10_V = 3.453, 3.674
PLUGGED_S = 4000.0
SCENARIO = """
name: phone-dies
seed: 1
task:
  dataset: {kind: blank, median_samples: 100, sigma: 0.0, input_shape: [1, 28, 28], num_classes: 10}
  partition: {kind: iid}
  model: {kind: logistic}
  local: {epochs: 50, batch_size: 10, optimizer: {kind: sgd, learning_rate: 0.1}}
fleet:
  size: 1
  devices: {pixel-6: 1.0}
  channel:
    kind: constant
    down_bit_per_s: 25120.0
    up_bit_per_s: 100.0
    give_up_s: 1.0e5
    unmetered_radio: RADIO
  transport: {kind: none}
  usage: {trace: TRACE, shift: none}
  battery:
    initial_fraction: [0.05, 0.05]
    cutoff_fraction: 0.04
    charging: {kind: cc-cv}
    discharging: {kind: resistive}
    everyday: {}
server:
  cohort: 1
  eligibility:
    min_battery_fraction: 0.045
    any_of:
      - none_of: [{charging: true}]
      - {charging: true, min_battery_fraction: 0.8}
  selector: {kind: random}
stop: {rounds: 2}
"""
"""The phone may take part off the charger with 4.5 %, on the charger with 80 %."""


def drained_w(drawn_w: float, volt: float) -> float:
    """Power that leaves the battery at a given draw of the device."""
    return drawn_w + (drawn_w / volt) ** 2 * OHM


def test_a_phone_with_5_percent_dies_in_mid_upload_and_returns_when_it_is_charged(tmp_path):
    home = tmp_path / "trace"
    home.mkdir()
    states = "user,t_s,online,charging,unmetered,load\nu,0,1,0,1,0\nu,4000,1,1,1,0\n"
    (home / "states.csv").write_text(states, encoding="utf-8")
    (home / "users.csv").write_text("user,span_s\nu,100000\n", encoding="utf-8")
    path = tmp_path / "phone.yaml"
    path.write_text(
        SCENARIO.replace("TRACE", str(home)).replace("RADIO", PLAIN_RADIO), encoding="utf-8"
    )

    done = run(load(path), out=tmp_path / "run", train=False)
    first, second = done.tasks.iloc[0], done.tasks.iloc[1]
    payload_bit = 8 * first["download_byte"]
    download_s = payload_bit / 25120.0
    compute_s = first["compute_s"]

    # What is left above the cut-off when the upload begins; just below 5 % from the start on.
    left_j = 0.01 * CAPACITY_J
    left_j -= drained_w(RECEIVE_W + IDLE_W + STANDBY_W, BELOW_5_V) * download_s
    tail_j = TAIL_W * TAIL_S
    left_j -= tail_j * (1 + TAIL_W * OHM / BELOW_5_V**2)
    left_j -= drained_w(TRAIN_W + IDLE_W + STANDBY_W, BELOW_5_V) * compute_s
    upload_s = left_j / drained_w(TRANSMIT_W + IDLE_W + STANDBY_W, BELOW_5_V)
    death_s = download_s + compute_s + upload_s

    assert (first["outcome"], first["download_s"]) == ("battery", pytest.approx(download_s))
    assert 0.0 < first["upload_byte"] < first["download_byte"]
    assert first["upload_s"] == pytest.approx(upload_s, rel=1e-9)
    assert first["finished_at_s"] == pytest.approx(death_s, rel=1e-9)

    # All its joules are in the ledger, wasted by the battery, and no other client's.
    task_j = RECEIVE_W * download_s + TRAIN_W * compute_s + TRANSMIT_W * upload_s
    task_j += IDLE_W * death_s + 2 * tail_j
    ledger = done.ledger()
    assert done.energy_by("energy_outcome")["battery"] == pytest.approx(task_j, rel=1e-9)
    assert set(ledger["energy_outcome"]) == {"battery", "used"}
    assert done.rounds["energy_wasted_j"].sum() == pytest.approx(task_j, rel=1e-9)

    # The owner's standby takes on until the charger comes; then constant current, then the taper.
    at_plug_j = 0.04 * CAPACITY_J - tail_j * (1 + TAIL_W * OHM / BELOW_5_V**2)
    at_plug_j -= drained_w(STANDBY_W, BELOW_5_V) * (PLUGGED_S - death_s)
    to_70_s = (0.70 * CAPACITY_J - at_plug_j) / (CHARGE_W - STANDBY_W)
    to_80_s = 0.05 * CAPACITY_J / CHARGE_W * (1 / 0.957 + 1 / 0.813)
    returns_s = PLUGGED_S + to_70_s + to_80_s

    assert second["dispatched_at_s"] == pytest.approx(returns_s, rel=1e-9)
    assert second["outcome"] == "delivered"
    # Owner's joules are not the federation's, and all of them add up.
    me = done.clients.iloc[0]
    put_in_j = me["battery_initial_j"] + me["battery_charged_j"]
    spent_j = sum(me[column] for column in me.index if column.startswith("energy_"))
    out_j = spent_j + me["battery_owner_j"] + me["battery_loss_j"] + me["battery_final_j"]
    assert put_in_j == pytest.approx(out_j, abs=1e-6)
    assert me["battery_owner_j"] == pytest.approx(STANDBY_W * done.manifest.virtual_s)
