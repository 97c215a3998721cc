"""Clients that have answered and wait for the server: durations and charged energy.

Jetson Nano (CPU) as in test_synchronous: 2.1 W idle, a client with n samples computes for
c(n) = ceil(n / 50) * 0.0305 + 3 n / 4.958 s, and each transfer of the model takes 1 s.
"""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetsim.contracts import Cohort, Outcome, ProbeRequest, RoundRow, TaskRow, Work, WorkKind
from fleetsim.fleet.devices.profile import load_device
from tests.engine.memory_recorder import MemoryRecorder
from tests.engine.tiny import NANO_FILE, FirstCome, Tiny, goes_on

IDLE_W = 2.1
NOTHING = Work(WorkKind.NONE)


def task_s(samples: int) -> float:
    return math.ceil(samples / 50) * 0.0305 + 3 * samples / 4.958 + 2.0


def waits_j(tiny):
    return {row.client: row.energy_enlisted_idle_j for row in tiny.recorder.tasks}


@pytest.fixture
def waiting(tiny: Tiny) -> Tiny:
    """Three boards that end after about 63, 123 and 184 s, with charged waiting."""
    tiny.size, tiny.samples, tiny.idle = 3, [100, 200, 300], "charged"
    tiny.server = {"cohort": 3}
    return tiny


def waited_j(row: TaskRow | RoundRow) -> float:
    assert row.energy_enlisted_idle_j is not None
    return row.energy_enlisted_idle_j


@pytest.mark.parametrize(("deadline_s", "ends_s"), [(None, task_s(300)), (150.0, 150.0)])
def test_whoever_is_done_waits_for_the_slowest_or_the_deadline_at_idle_power(
    waiting, deadline_s, ends_s
):
    waiting.run(server={"cohort": 3, "deadline_s": deadline_s})
    expected = {0: IDLE_W * (ends_s - task_s(100)), 1: IDLE_W * (ends_s - task_s(200)), 2: 0.0}
    (row,), tasks = waiting.recorder.rounds, waiting.recorder.tasks
    clients = next(waiting.server_ran.clients())

    assert waits_j(waiting) == pytest.approx(expected)
    assert waited_j(row) == pytest.approx(sum(expected.values()))
    assert clients.energy_enlisted_idle_j == pytest.approx(list(expected.values()))
    # A client does not report what its waiting will cost.
    reported_j = [report.energy_j for report in waiting.selector.outcomes[0].reports]
    spent_j = [task.energy_j - waited_j(task) for task in tasks]
    late = [] if deadline_s is None else [None]  # it does not report at all
    assert reported_j == pytest.approx([*spent_j[: 3 - len(late)], *late])
    assert row.energy_j == row.energy_total_j
    assert row.energy_j == pytest.approx(sum(spent_j) + sum(expected.values()))
    # The task itself costs what it did: its idle power is that of the task alone.
    assert tasks[0].energy_idle_j == pytest.approx(IDLE_W * task_s(100))


def test_without_the_charge_nothing_else_differs(waiting):
    waiting.run(stop={"rounds": 3})
    charged = waiting.recorder
    waiting.run(recorder=MemoryRecorder(), idle="not_charged")
    free = waiting.recorder

    assert {row.energy_enlisted_idle_j for row in (*free.tasks, *free.rounds)} == {None}
    assert next(waiting.server_ran.clients()).energy_enlisted_idle_j is None
    assert free.tasks == [row._replace(energy_enlisted_idle_j=None) for row in charged.tasks]
    unpaid_j = [paid.energy_j - waited_j(paid) for paid in charged.rounds]
    assert [row.energy_j for row in free.rounds] == pytest.approx(unpaid_j)


def test_the_wait_is_over_when_the_owner_takes_the_device_away(waiting):
    waiting.trace("0,1,0,1,0 100,0,0,1,0 170,1,0,1,0", span_s=1000)
    waiting.server |= {"interruption": {"kind": "pause", "max_pause_s": 500.0}}
    one, two, three = waiting.rows()

    # The second was taken away in mid-task, came back at 170 s and waits from its end on.
    assert two.finished_at_s == pytest.approx(task_s(200) + 70.0)
    rest_s = three.finished_at_s - two.finished_at_s
    waited_s = (100.0 - task_s(100), rest_s, 0.0)
    waiting_j = [waited_j(row) for row in (one, two, three)]
    assert waiting_j == pytest.approx([IDLE_W * seconds for seconds in waited_s])


class Probing(FirstCome):
    """Probes client 0 quickly, then client 1 slowly, and selects the last candidate."""

    needs_probes = True

    def probe(self, view):
        stages = [[(0, 1_000_000), (1, 3_000_000)], [(1, 5_000_000)], []]
        return [
            ProbeRequest(client, NOTHING, needs_model=False, upload_byte=byte)
            for client, byte in stages[view.stage]
        ]

    def select(self, view):
        return Cohort(np.array([0, 2]))


def test_whoever_answered_a_probe_waits_until_the_server_has_chosen(waiting):
    # Stage 0: client 0 answers at 1 s, client 1 at 3 s. Stage 1: client 1 at 8 s. Then 0 is sent
    # out, 1 is free, 2 is slow.
    rows = waiting.rows(selector=Probing(), server={"cohort": 2})
    waited = {(row.purpose.value, row.task): waited_j(row) for row in rows}

    for_others_j = IDLE_W * (task_s(300) - task_s(100))
    expected = {("probe", 0): IDLE_W * 7.0, ("probe", 1): 0.0, ("probe", 2): 0.0}
    assert waited == pytest.approx(expected | {("train", 3): for_others_j, ("train", 4): 0.0})


def phone_and_board(tiny, **battery) -> tuple[int, int]:
    """Return the numbers of a phone that ends soon and a board that takes half an hour."""
    tiny.devices, tiny.size = {"pixel-6": 0.5, NANO_FILE: 0.5}, 2
    tiny.idle, tiny.server = "charged", {"cohort": 2, "eligibility": {"min_battery_fraction": 0.2}}
    tiny.battery = battery
    tiny.trace("0,1,0,1,0", span_s=100_000)
    phone = int(np.argmax(np.isfinite(tiny.fleet().batteries.capacity_j)))
    tiny.samples = [3000, 3000]
    tiny.samples[phone] = 100
    return phone, 1 - phone


EVERYDAY = {"standby_w": 0.0, "screen_w": 0.0, "cpu_w": 0.0}


# A battery with everyday use, which is none here, is walked and not computed in closed form.
@pytest.mark.parametrize("lives", [{}, {"everyday": EVERYDAY}], ids=["plain", "live"])
@pytest.mark.parametrize(
    ("initial", "cutoff", "left"),
    # 0.3 % of 63,950 J are 192 J above the cut-off; the wait alone would take 270 J.
    [(0.5, 0.15, None), (0.203, 0.199, 0.199)],
)
def test_a_battery_pays_for_the_wait_down_to_its_cut_off(tiny, lives, initial, cutoff, left):
    battery = {"initial_fraction": [initial, initial], "cutoff_fraction": cutoff, **lives}
    phone, board = phone_and_board(tiny, **battery)
    rows = {row.client: row for row in tiny.rows()}
    profile = load_device("pixel-6")
    waited_s = rows[board].finished_at_s - rows[phone].finished_at_s
    whole_j = profile.power.idle_awake_w * waited_s

    assert waited_s > 1000.0
    assert rows[phone].outcome is Outcome.DELIVERED
    assert rows[phone].energy_j > waited_j(rows[phone]) > 50.0
    assert (waited_j(rows[phone]) == pytest.approx(whole_j)) == (left is None)
    left = left or initial - rows[phone].energy_j / profile.battery_j
    assert next(tiny.server_ran.clients()).battery_fraction[phone] == pytest.approx(left)
    assert initial - left == pytest.approx(rows[phone].energy_j / profile.battery_j)


LIVE = {
    "capacity_wh": 0.4, "charge_w": 5.0, "cutoff_fraction": 0.1, "charging": {"kind": "cc-cv"},
    "discharging": {"kind": "resistive"}, "everyday": {"standby_w": 0.05, "restart_fraction": 0.2},
}  # fmt: skip


def mixed(tiny: Tiny, *, battery, crash_per_hour=4.0, seed=1) -> Tiny:
    tiny.varied()
    tiny.server = {"cohort": 4, "over_commit": 1.5, "deadline_s": 400.0}
    tiny.battery, tiny.crash_per_hour, tiny.seed = battery, crash_per_hour, seed
    tiny.stop, tiny.idle = {"rounds": 8}, "charged"
    slow = Work(WorkKind.EVALUATE, num_samples=30)
    probes = [ProbeRequest(c, slow, needs_model=False, upload_byte=1000) for c in range(5)]
    tiny.selector = FirstCome(dict.fromkeys(range(1, 20, 2), probes))
    return tiny


@pytest.mark.parametrize("battery", [{}, LIVE], ids=["plain", "live"])
def test_a_resumed_run_charges_the_same_waits(tiny, battery):
    whole = goes_on(mixed(tiny, battery=battery), tiny.build, after=(1, 4, 7))

    assert sum(waited_j(row) > 0.0 for row in whole.tasks) > 10


# Ten examples: each is a run of six rounds.
@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    crash_per_hour=st.sampled_from([0.0, 20.0]),
    battery=st.sampled_from([{}, LIVE, {"initial_fraction": [0.31, 0.32]}]),
)
def test_in_any_world_waits_fit_between_task_and_round_and_all_joules_add_up(
    tiny, seed, crash_per_hour, battery
):
    """The run itself checks that the joules of every battery are conserved."""
    tiny.recorder = recorder = MemoryRecorder()
    mixed(tiny, battery=battery, crash_per_hour=crash_per_hour, seed=seed)
    tiny.run(stop={"rounds": 6, "time_s": 50_000.0})
    devices = map(load_device, tiny.devices)
    watts = {device.name: device.power.idle_awake_w for device in devices}
    closed_s = {row.round: row.finished_at_s for row in recorder.rounds}
    clients = next(tiny.server_ran.clients())

    for row in recorder.tasks:
        most_j = watts[row.device] * (closed_s[row.round] - row.finished_at_s)
        assert 0.0 <= waited_j(row) <= most_j + 1e-9
        assert row.outcome is Outcome.DELIVERED or waited_j(row) == 0.0
    for client in range(tiny.size):
        waiting_j = [waited_j(row) for row in recorder.tasks if row.client == client]
        assert clients.energy_enlisted_idle_j[client] == pytest.approx(math.fsum(waiting_j))
    total_j = math.fsum(row.energy_j for row in recorder.tasks)
    assert total_j == pytest.approx(recorder.rounds[-1].energy_total_j)
