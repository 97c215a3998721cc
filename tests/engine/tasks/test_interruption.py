"""Interrupted tasks: lost, paused, or handed in in part.

Jetson Nano (CPU) as in test_synchronous: download 1 s, upload 1 s, 100 samples in two steps of
t_d + 0.0105 + 50 * 3 / 4.958 = 30.2847 s each. 2.1 W awake, 3.3 W computing, 2.0 W on Wi-Fi, and a
tail of 0.04 J after each transfer. Owners change their minds at whole seconds.
"""

import dataclasses
import itertools
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fleetsim.contracts import Outcome, Purpose, TaskRow, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.engine.tasks.interruption import InterruptionSettings
from fleetsim.engine.world import World
from fleetsim.fleet.energy import Component
from fleetsim.fleet.population import Fleet
from tests.engine.batches import (
    PAYLOAD_BIT,
    PHONES,
    ended,
    go_together_as_alone,
    is_what_had_been_until_each_cut,
    laid_out,
    rows_of,
    task,
    world_of,
)
from tests.engine.memory_recorder import MemoryRecorder
from tests.engine.tasks.away import walked
from tests.engine.tiny import COST, KnownTrainer, Tiny, task_energies

STEP_S = 0.02 + 0.0105 + 150 / 4.958
COMPUTE_S = 2 * STEP_S
TAIL_J = 0.13286 * 0.30107
TEN_SECONDS = dataclasses.replace(COST, payload_byte=10_000_000)
"""A model that takes ten seconds each way."""
PAUSE = {"kind": "pause"}
PARTIAL = {"kind": "partial"}
POLICIES: list[dict[str, Any]] = [
    {"kind": "lose"},
    {"kind": "pause", "max_pause_s": 20_000.0, "resume_s": 0.7},
    {"kind": "pause", "max_pause_s": 900.0, "transfers": "restart"},
    {"kind": "partial"},
    {"kind": "partial", "upload_when": "eligible", "max_pause_s": 20_000.0, "min_fraction": 0.4},
]
policy_of = TypeAdapter[InterruptionSettings](InterruptionSettings).validate_python


def one_task(tiny: Tiny, interruption, *, trace=None, **server) -> TaskRow:
    """Row of the first client's task in a run of one round, in a trace of 1000 s if given."""
    if trace is not None:
        tiny.trace(trace, span_s=1000)
    tiny.run(
        size=1,
        server={"cohort": 1, "interruption": interruption, **server},
        recorder=MemoryRecorder(),
    )
    return tiny.recorder.tasks[0]


def test_a_pause_within_a_tail_pays_no_second_of_it_twice(tiny):
    """A phone's LTE tail of 10 s outlives a pause of 3 s: no promotion, and one tail in all."""
    tiny.devices, tiny.cost = {"pixel-6": 1.0}, TEN_SECONDS
    tiny.channel = {**tiny.channel, "metered_radio": "lte-2012"}
    short = one_task(tiny, PAUSE, trace="0,1,0,0,0 4,0,0,0,0 7,1,0,0,0")
    long = one_task(tiny, PAUSE, trace="0,1,0,0,0 4,0,0,0,0 64,1,0,0,0")
    radio = tiny.fleet().radios
    at = int(tiny.fleet().radios_at(np.array([0]), np.array([0.0]))[0])
    tail_s, tail_w, promotion_s = radio.tail_s[at], radio.tail_w[at], radio.promotion_s[at]
    assert tail_s > 3.0
    assert promotion_s > 0.0

    assert long.download_s - short.download_s == pytest.approx(promotion_s)
    # After 3 s the tail is paid for another tail_s - 3: that much of the second segment is cheaper.
    saved_j = promotion_s * radio.promotion_w[at] + tail_w * (tail_s - 3.0)
    spent = [row.energy_receive_j + row.energy_tail_j for row in (short, long)]
    assert spent[1] - spent[0] == pytest.approx(saved_j)


def test_the_battery_lives_on_while_a_task_is_suspended(tiny):
    """A phone charges through its pause at 7.5 W and draws nothing for the task."""
    tiny.devices, tiny.battery = {"pixel-6": 1.0}, {"initial_fraction": [0.5, 0.5]}
    tiny.trace("0,1,0,1,0 21,0,1,1,0 521,1,0,1,0", span_s=10**6)
    tiny.cost = dataclasses.replace(COST, forward_flop={"conv": 2e10})
    row = one_task(tiny, PAUSE)
    charged_j = 7.5 * 500.0 - row.energy_j

    assert (row.outcome, row.paused_s) == (Outcome.DELIVERED, 500.0)
    level = 0.5 + charged_j / tiny.fleet().batteries.capacity_j[0]
    assert next(tiny.server_ran.clients()).battery_fraction[0] == pytest.approx(level)


def test_a_phone_that_runs_empty_in_its_pause_has_forgotten_its_task(tiny):
    """Of 1800 J, 2979 s of 0.1 W leave 1500, the computation takes some 900; 2 W take all."""
    tiny.devices = {"pixel-6": 1.0}
    tiny.cost = dataclasses.replace(COST, forward_flop={"conv": 2e10})
    tiny.trace("0,1,0,1,0 21,0,0,1,0 3000,1,0,1,0", span_s=10**6)
    rows = []
    for standby_w in (0.1, 2.0):
        tiny.battery = {"capacity_wh": 1.0, "initial_fraction": [0.5, 0.5], "cutoff_fraction": 0.02}
        tiny.battery["everyday"] = {"standby_w": standby_w, "screen_w": 0.0, "cpu_w": 0.0}
        rows.append(one_task(tiny, PAUSE))
    outlives, dies = rows

    assert (outlives.outcome, outlives.paused_s) == (Outcome.DELIVERED, 2979.0)
    assert (dies.outcome, dies.paused_s) == (Outcome.BATTERY, 2979.0)
    assert dies.finished_at_s == 3000.0
    assert (dies.upload_s, dies.energy_transmit_j) == (0.0, 0.0)
    assert dies.compute_s == pytest.approx(21.0 - dies.download_s)


def test_a_phone_cools_in_its_pause(tiny):
    tiny.devices = {"pixel-6": 1.0}
    tiny.thermal = {"kind": "skin", "ambient_c": 35.0, "time_constant_s": 100.0}
    tiny.cost = dataclasses.replace(COST, forward_flop={"conv": 2e11})
    rows = []
    for trace in ("0,1,0,1,0", "0,1,0,1,0 201,0,0,1,0 3000,1,0,1,0"):
        tiny.trace(trace, span_s=10**6)
        rows.append(one_task(tiny, PAUSE))
    without, paused = rows

    assert without.compute_s > 400.0
    assert paused.num_pauses == 1
    assert paused.compute_s < without.compute_s - 1.0


def test_a_process_that_does_not_run_does_not_die(tiny):
    tiny.size, tiny.crash_per_hour, tiny.server = 40, 60.0, {"cohort": 40, "interruption": PAUSE}
    for trace in ("0,1,0,1,0", "0,1,0,1,0 21,0,0,1,0 1021,1,0,1,0"):
        tiny.trace(trace, span_s=10**6)
        rows = tiny.rows()
    assert {row.outcome for row in rows} == {Outcome.DELIVERED, Outcome.CRASHED}

    for there, here in zip(rows[:40], rows[40:], strict=True):
        assert here.outcome is there.outcome
        waits = 0.0 if there.finished_at_s <= 21.0 else 1000.0
        assert here.finished_at_s == pytest.approx(there.finished_at_s + waits)
        assert here.energy_compute_j == pytest.approx(there.energy_compute_j)


stays = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=8)


# The device is away for as long as the task is waited for, a second longer, and for ever.
AWAY = {"samples": 100, "payload_s": 1, "resume_s": 0.0, "restarts": False, "deadline_s": 200}


# Forty examples: each builds a fleet and walks 200 seconds.
@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(stays=[(21, 20), (500, 1)], max_pause_s=20, **AWAY)
@example(stays=[(21, 21), (500, 1)], max_pause_s=20, **AWAY)
@example(stays=[(21, 10**5)], max_pause_s=70, **AWAY)
@given(
    stays=stays,
    samples=st.integers(1, 120),
    payload_s=st.integers(1, 12),
    max_pause_s=st.integers(1, 90),
    resume_s=st.sampled_from([0.0, 2.5]),
    restarts=st.booleans(),
    deadline_s=st.integers(1, 200),
)
def test_pauses_are_those_of_a_walk_second_by_second(
    tiny, stays, samples, payload_s, max_pause_s, resume_s, restarts, deadline_s
):
    changes = list(itertools.accumulate(itertools.chain(*stays), initial=0))
    there = {at: index % 2 == 0 for index, at in enumerate(changes)}
    tiny.trace(" ".join(f"{at},{int(is_on)},0,1,0" for at, is_on in there.items()), span_s=10**6)
    tiny.size, tiny.samples = 1, [samples]
    tiny.cost = dataclasses.replace(COST, payload_byte=payload_s * 1_000_000)
    transfers = "restart" if restarts else "resume"
    policy = policy_of(
        {**PAUSE, "max_pause_s": max_pause_s, "resume_s": resume_s, "transfers": transfers}
    )
    one = task(0, 0, download_bit=payload_s * 8_000_000, upload_bit=payload_s * 8_000_000)
    batch = laid_out(world_of(tiny.fleet()), [one], batching=Batching(50), interruption=policy)
    batch.give_up(float(deadline_s))
    [done] = batch.settle()
    compute_s = math.ceil(samples / 50) * 0.0305 + 3 * samples / 4.958
    needs_s = (float(payload_s), compute_s, float(payload_s))
    expected = walked(there, needs_s, max_pause_s, resume_s, restarts, deadline_s)

    assert (done.outcome, done.num_pauses) == (expected.outcome, expected.num_pauses)
    assert done.finished_at_s == pytest.approx(expected.end_s)
    assert done.paused_s == pytest.approx(expected.paused_s)
    seconds = (done.download_s, done.compute_s, done.upload_s)
    assert seconds == pytest.approx(expected.seconds, abs=1e-5)  # bytes are whole
    download_s, compute_s, upload_s = expected.seconds
    at_work_j = (3.3 * compute_s, 2.0 * download_s, 2.0 * upload_s, 2.1 * sum(expected.seconds))
    *working_j, tail_j, idle_j = done.energy_j
    assert [*working_j, idle_j] == pytest.approx(at_work_j, abs=1e-4)
    assert tail_j == pytest.approx(TAIL_J * expected.num_transfers, rel=1e-4)
    if done.outcome is Outcome.DELIVERED:
        assert done.flop == pytest.approx(samples * 3e9)
        assert (done.num_samples, done.completed_fraction) == (samples, 1.0)
    moved = (done.downloaded_bit, done.uploaded_bit)
    assert moved == pytest.approx((8e6 * download_s, 8e6 * upload_s), abs=100.0)


@pytest.mark.parametrize(
    ("policy", "taken_at_s", "then", "outcome", "paused_s"),
    [
        # Still online: of 40 s one step of 30.3 s is whole, and goes up at once.
        ({}, 41, "1,0,1,0", Outcome.DELIVERED, 0.0),
        ({"upload_when": "online"}, 41, "0,0,1,0 60,1,0,1,0", Outcome.DELIVERED, 19.0),
        ({"upload_when": "eligible"}, 41, "1,0,1,0 60,1,1,1,0", Outcome.DELIVERED, 19.0),
        ({"max_pause_s": 100.0}, 41, "0,0,1,0 600,1,0,1,0", Outcome.OFFLINE, 100.0),
        ({}, 31, "1,0,1,0", Outcome.OFFLINE, 0.0),  # 30 s: not one whole step
        ({"min_fraction": 0.5}, 32, "1,0,1,0", Outcome.DELIVERED, 0.0),
        ({"min_fraction": 0.51}, 32, "1,0,1,0", Outcome.OFFLINE, 0.0),
    ],
)
def test_a_large_enough_part_is_uploaded_as_soon_as_it_may(
    tiny, policy, taken_at_s, then, outcome, paused_s
):
    trace, charging = f"0,1,1,1,0 {taken_at_s},{then}", {"charging": True}
    row = one_task(tiny, {**PARTIAL, **policy}, eligibility=charging, trace=trace)

    # Seconds of the upload, which a lost part does not come to.
    up_s = float(outcome is Outcome.DELIVERED)
    assert (row.outcome, row.finished_at_s) == (outcome, taken_at_s + paused_s + up_s)
    assert (row.num_pauses, row.paused_s) == (int(paused_s > 0.0), paused_s)
    assert (row.completed_fraction, row.upload_byte) == ((0.5, 10**6) if up_s else (None, 0))
    compute_s = taken_at_s - 1.0
    joules = (3.3 * compute_s, 2.0, 2.0 * up_s, (1.0 + up_s) * TAIL_J, 2.1 * (taken_at_s + up_s))
    assert task_energies(row) == pytest.approx(joules)


@pytest.mark.parametrize(("weight", "weighs"), [("samples", 1.0), ("processed", 0.5)])
def test_a_part_has_whole_steps_and_the_weight_that_is_asked_for(tiny, weight, weighs):
    tiny.trainer, policy = KnownTrainer(), {**PARTIAL, "weight": weight}
    row = one_task(tiny, policy, eligibility={"charging": True}, trace="0,1,1,1,0 41,1,0,1,0")
    (report,) = tiny.selector.outcomes[0].reports

    assert row.train_flop == pytest.approx(100 * 3e9 * 40.0 / COMPUTE_S)
    assert tiny.trainer.steps == [1]
    assert (report.completed_fraction, report.weight_fraction) == (0.5, weighs)
    assert row.num_samples == report.num_samples == 100


def test_an_interrupted_upload_goes_on_over_the_radio_that_is_there(tiny):
    """4 of 10 s on Wi-Fi, then on the metered radio, with its own power and tail."""
    tiny.devices, tiny.cost, tiny.samples = {"pixel-6": 1.0}, TEN_SECONDS, [50]
    eligibility = {"unmetered": True}
    whole = one_task(tiny, PARTIAL, eligibility=eligibility, trace="0,1,0,1,0")
    leaves_s = math.ceil(whole.finished_at_s - 6.0)
    row = one_task(tiny, PARTIAL, eligibility=eligibility, trace=f"0,1,0,1,0 {leaves_s},1,0,0,0")
    fleet = tiny.fleet()
    wifi, mobile = (
        int(fleet.radios_at(np.array([0]), np.array([t]))[0]) for t in (0.0, leaves_s + 0.5)
    )
    assert fleet.radios.name[wifi] != fleet.radios.name[mobile]
    promotion_s = float(fleet.radios.promotion_s[mobile])
    on_wifi_s = leaves_s - (whole.finished_at_s - whole.upload_s)
    tails = fleet.radios.tail_w * fleet.radios.tail_s

    assert (row.outcome, row.num_pauses, row.completed_fraction) == (Outcome.DELIVERED, 0, 1.0)
    assert row.upload_s == pytest.approx(whole.upload_s + promotion_s, abs=1e-5)
    assert row.upload_byte == 10_000_000
    assert row.energy_tail_j == pytest.approx(2 * tails[wifi] + tails[mobile], rel=1e-4)
    assert 0.0 < on_wifi_s < whole.upload_s


def test_under_partial_an_interrupted_download_or_probe_is_lost(tiny):
    tiny.cost = TEN_SECONDS
    tiny.trace("0,1,0,1,0 4,0,0,1,0 6,1,0,1,0", span_s=1000)
    assert one_task(tiny, PARTIAL).outcome is Outcome.OFFLINE

    tiny.cost = COST
    tiny.trace("0,1,0,1,0 41,0,0,1,0 60,1,0,1,0", span_s=1000)
    probe = task(0, 0, purpose=Purpose.PROBE)
    [lost] = laid_out(world_of(tiny.fleet()), [probe], interruption=policy_of(PARTIAL)).settle()

    assert (lost.outcome, lost.finished_at_s, lost.paused_s) == (Outcome.OFFLINE, 41.0, 0.0)


@cache
def busy_fleet(seed: int, *, drains: bool = False) -> Fleet:
    """Phones and boards whose owners come and go every few minutes, and may draw on them."""
    tiny = Tiny(Path(), size=12, devices=PHONES, seed=seed, crash_per_hour=0.5)
    tiny.samples = [20 + 13 * (client % 7) for client in range(12)]
    tiny.channel = {"kind": "fading", "block_s": 0.1, "upload_success": [{"probability": 0.8}]}
    availability = {"availability": 0.6, "severity": 0.5, "cycles_per_day": 150, "users": 12}
    tiny.usage = {"synthetic": availability, "kinds": ["phone", "board"]}
    tiny.battery = {"initial_fraction": [0.3, 0.32], "cutoff_fraction": 0.299}
    if drains:
        tiny.battery |= {"capacity_wh": 4.0, "cutoff_fraction": 0.05}
        tiny.battery |= {"charging": {"kind": "cc-cv"}, "discharging": {"kind": "resistive"}}
        tiny.battery["everyday"] = {"standby_w": 1.0, "screen_w": 1.0, "cpu_w": 2.0}
    return tiny.fleet()


def busy_world(fleet: Fleet) -> World:
    return world_of(fleet, unmetered=True)


# Three examples of each policy: each lays the tasks out one by one, twice.
@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=3)
@example(seed=18, cut_share=1.0, enough=9, drains=False)
@given(
    seed=st.integers(1, 20),
    cut_share=st.floats(0.0, 1.1),
    enough=st.integers(1, 12),
    drains=st.booleans(),
)
def test_interrupted_tasks_go_together_as_they_go_alone(policy, seed, cut_share, enough, drains):
    fleet = busy_fleet(seed, drains=drains)
    worlds = (busy_world(fleet), busy_world(fleet))
    before_j = ended_s = 0.0
    kinds: list[dict[str, Any]] = [
        {"work": Work(WorkKind.TRAIN, epochs=40)},
        {"download_bit": 100 * PAYLOAD_BIT, "upload_bit": 100 * PAYLOAD_BIT},
        {"work": Work(WorkKind.NONE)},
        {"work": Work(WorkKind.TRAIN, epochs=400), "purpose": Purpose.PROBE},
    ]
    for earliest_s in (0.0, 7200.0):
        # Who may pause for hours may still be at it.
        now_s = max(earliest_s, ended_s)
        clients = worlds[0].eligible.candidates(now_s).tolist()
        assert clients == worlds[1].eligible.candidates(now_s).tolist()
        if not clients:
            continue
        results, ended_s = go_together_as_alone(
            worlds,
            [task(c, c, **kinds[c % 4], dispatched_at_s=now_s) for c in clients],
            cut_share=cut_share,
            enough=enough,
            interruption=policy_of(policy),
        )
        spent_j = math.fsum(joules for each in results for joules in each.energy_j)
        metered_j = float(worlds[0].energy_j.sum())
        assert metered_j - before_j == pytest.approx(spent_j, rel=1e-9, abs=1e-9)
        before_j = metered_j
        worlds[0].check_batteries(ended_s)
        for each in results:
            at_work_s = each.download_s + each.compute_s + each.upload_s
            assert each.finished_at_s - now_s == pytest.approx(at_work_s + each.paused_s)
            awake_w = fleet.profile(each.task.client).power.idle_awake_w
            assert each.energy_j[Component.IDLE] == pytest.approx(awake_w * at_work_s)


@pytest.mark.parametrize("policy", POLICIES[1:], ids=str)
def test_what_is_cut_off_in_a_pause_is_what_had_been_until_then(policy):
    fleet = busy_fleet(3)
    given: dict[str, Any] = {"interruption": policy_of(policy)}
    clients = busy_world(fleet).eligible.candidates(0.0).tolist()
    tasks = [task(c, c, work=Work(WorkKind.TRAIN, epochs=100)) for c in clients]
    cut = is_what_had_been_until_each_cut(lambda: busy_world(fleet), tasks, moments=12, **given)

    assert any(one.outcome is Outcome.CANCELLED and one.paused_s > 0.0 for one in cut)
    # A cut that a later one preceded is as if it were the only one.
    last_s = float(laid_out(busy_world(fleet), tasks, **given).end_s.max())
    for cut_s in np.linspace(0.0, last_s, 6).tolist():
        twice, once = busy_world(fleet), busy_world(fleet)
        batch = laid_out(twice, tasks, **given)
        batch.give_up(1.5 * cut_s + 1.0)

        assert ended(batch, at_s=cut_s) == ended(laid_out(once, tasks, **given), at_s=cut_s)
        assert rows_of(twice) == rows_of(once)


def test_a_late_task_is_cut_where_it_was_when_an_answer_comes_at_the_very_deadline(tiny):
    tiny.samples = [300, 100]
    tiny.size, tiny.server = 2, {"cohort": 1, "over_commit": 2.0, "deadline_s": COMPUTE_S + 2.0}
    tiny.run()
    slow, fast = tiny.recorder.tasks

    assert (fast.outcome, slow.outcome) == (Outcome.DELIVERED, Outcome.CANCELLED)
    assert (slow.download_s, slow.upload_s) == (1.0, 0.0)
    assert slow.compute_s == pytest.approx(COMPUTE_S + 1.0)
