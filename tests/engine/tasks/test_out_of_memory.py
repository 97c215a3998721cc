"""Devices with too little free memory for a step of training: ineligible, or lost at once.

A t2.small has 2 GiB, half of them free; a t2.medium has 4.
"""

import dataclasses
import math

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose, StepMemory, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError
from fleetsim.fleet.energy import Component
from fleetsim.units import BYTE_PER_MIB
from tests.engine.batches import laid_out, task, world_of
from tests.engine.tasks.test_throttled import instance
from tests.engine.tiny import COST, Tiny

# 220 MiB of the engine + 50 samples a batch of 20 MiB: 1,220 MiB.
LARGE = dataclasses.replace(COST, memory=StepMemory(0, 20 * BYTE_PER_MIB, 0))
# One batch of 50 samples forward on a t2.small: dispatch, and 1 GFLOP each at 12 GFLOP/s.
FIRST_BATCH_S = 0.003 + 50 / 12


@pytest.fixture
def mixed(tiny: Tiny) -> Tiny:
    """Two clients of each size."""
    tiny.devices, tiny.cost = {"t2.small": 0.5, "t2.medium": 0.5}, LARGE
    tiny.server = {"cohort": 4, "deadline_s": 1000}
    return tiny


def share(when_short: str) -> dict[str, object]:
    return {"kind": "share", "free_fraction": [0.5, 0.5], "when_short": when_short}


def test_who_is_short_of_memory_is_never_asked(mixed):
    mixed.run(memory=share("ineligible"))

    assert mixed.recorder.rounds[0].num_eligible == 2
    assert [row.device for row in mixed.recorder.tasks] == ["t2.medium"] * 2


def test_who_is_short_of_memory_dies_at_the_end_of_its_first_forward_pass(mixed):
    mixed.run(memory=share("fails"))
    devices = [row.device for row in mixed.recorder.tasks]
    small, large = (mixed.recorder.tasks[devices.index(name)] for name in mixed.devices)
    round_ = mixed.recorder.rounds[0]

    assert (small.outcome, large.outcome) == (Outcome.MEMORY, Outcome.DELIVERED)
    assert small.download_s > 0.0
    assert small.compute_s == pytest.approx(FIRST_BATCH_S)
    assert small.finished_at_s == pytest.approx(small.download_s + FIRST_BATCH_S)
    assert (small.upload_s, small.upload_byte) == (0.0, 0)
    assert (small.num_samples, small.train_flop) == (50, 50e9)
    assert small.energy_compute_j == pytest.approx(2.76 * FIRST_BATCH_S)
    assert (round_.num_delivered, round_.num_lost) == (2, 2)
    assert round_.energy_wasted_j == pytest.approx(2 * small.energy_j)
    # The server is not told why.
    outcomes = {report.client: report.outcome for report in mixed.selector.outcomes[0].reports}
    assert (outcomes[small.client], outcomes[large.client]) == (Outcome.OFFLINE, Outcome.DELIVERED)


def test_a_client_with_few_samples_has_smaller_batches_and_stays(mixed):
    # 40 samples: 220 + 800 MiB, which a t2.small has free.
    mixed.run(memory=share("ineligible"), samples=[40] * 4)

    assert mixed.recorder.rounds[0].num_delivered == 4


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        (Work(WorkKind.NONE), Outcome.DELIVERED),
        (Work(WorkKind.EVALUATE), Outcome.DELIVERED),
        (Work(WorkKind.GRADIENT), Outcome.MEMORY),
        (Work(WorkKind.TRAIN, epochs=1), Outcome.MEMORY),
        # A client that continues a probe that was its whole training has no step left.
        (Work(WorkKind.TRAIN, epochs=0), Outcome.DELIVERED),
    ],
)
def test_only_backward_passes_need_the_memory_of_a_step(mixed, work, outcome):
    probe = task(0, 0, work=work, purpose=Purpose.PROBE)
    [ended] = laid_out(refusing(mixed, "t2.small"), [probe]).settle()

    assert ended.outcome is outcome


def refusing(mixed: Tiny, device: str) -> World:
    """World of clients none of whom has memory for a step."""
    mixed.memory, mixed.devices = share("fails"), {device: 1.0}
    fleet = mixed.fleet()
    return world_of(fleet, spare_byte=np.full(fleet.size, -1.0))


@pytest.mark.parametrize(
    ("launch", "clock_fraction", "speed"), [(30, 0.5, 1 / 1.27), (0, 1.0, 0.2)]
)
def test_a_first_batch_is_slowed_as_training_is(mixed, launch, clock_fraction, speed):
    # By half the clock (0.27 / 0.5 + 0.73 of the time), or without CPU credits, which leaves a
    # t2.small 20 % of its vCPU.
    world = refusing(mixed, instance(mixed.folder, launch))
    work = Work(WorkKind.TRAIN, epochs=1, clock_fraction=clock_fraction)
    slowed = task(0, 0, work=work, download_bit=0)
    [ended] = laid_out(world, [slowed], batching=Batching(50)).settle()

    assert ended.outcome is Outcome.MEMORY
    assert ended.compute_s == pytest.approx(FIRST_BATCH_S / speed)


def test_tasks_that_fit_go_as_they_go_where_nobody_looks(mixed):
    mixed.devices = {"t2.medium": 1.0}
    runs = []
    for memory in ({"kind": "unchecked"}, share("fails"), share("ineligible")):
        mixed.memory, mixed.recorder = memory, type(mixed.recorder)()
        mixed.run()
        runs.append(mixed.recorder.tasks)

    assert runs[0] == runs[1] == runs[2]


def test_a_model_that_fits_nowhere_is_refused_with_what_it_takes(mixed):
    message = "1220 MiB or more and no client has more than 1024 MiB"
    with pytest.raises(ScenarioError, match=message):
        mixed.run(memory=share("fails"), devices={"t2.small": 1.0})


# A step leaves 828 MiB of the 2,048 that a t2.medium has free: a game of 900 MiB is too much.
GAME_BYTE = 900 * BYTE_PER_MIB
SPARE_BYTE = 828 * BYTE_PER_MIB


@pytest.fixture
def playing(mixed: Tiny) -> Tiny:
    """One t2.medium, whose owner opens a game after 60 s and closes it after 100."""
    mixed.devices, mixed.size = {"t2.medium": 1.0}, 1
    mixed.trace(f"0,1,1,1,0,0 60,1,1,1,0,{GAME_BYTE} 100,1,1,1,0,0", span_s=100_000)
    mixed.server = {"cohort": 1}
    return mixed


def spared(tiny, when_short):
    """World in which a step leaves the client so much."""
    tiny.memory = share(when_short)
    return world_of(tiny.fleet(), spare_byte=np.array([float(SPARE_BYTE)]))


def at_work(world, now_s):
    """Result of a task of a short download and 8 s of computation, dispatched at a moment."""
    return laid_out(world, [task(0, 0)], now_s, batching=Batching(50)).settle()[0]


@pytest.mark.parametrize(
    ("opens", "closes", "back_s"),
    [
        (0, " 100,1,1,1,0,0", 100.0),
        (0, "", 100_000.0),  # the next lap begins without a game
        (GAME_BYTE, "", math.inf),
    ],
)
def test_who_failed_for_lack_of_memory_is_asked_again_when_apps_leave_enough(
    playing, opens, closes, back_s
):
    playing.trace(f"0,1,1,1,0,{opens} 60,1,1,1,0,{GAME_BYTE + 1}{closes}", span_s=100_000)
    world = spared(playing, "fails")
    failed = at_work(world, 60.0)

    assert failed.outcome is Outcome.MEMORY
    assert world.eligible.candidates(failed.finished_at_s).size == 0
    assert world.eligible.next_change_s(failed.finished_at_s) == back_s
    assert back_s == math.inf or world.eligible.candidates(back_s).size == 1


def test_who_is_at_work_leaves_when_an_app_takes_the_memory(playing):
    left = at_work(spared(playing, "ineligible"), 56.0)

    assert (left.outcome, left.finished_at_s) == (Outcome.OFFLINE, 60.0)
    assert left.energy_j[Component.COMPUTE] > 0.0


@pytest.mark.parametrize(
    ("computes_from_s", "outcome"),
    [
        (50.0, Outcome.DELIVERED),
        (59.999, Outcome.DELIVERED),  # the system leaves it what it has when the game is opened
        (60.001, Outcome.MEMORY),
        (99.999, Outcome.MEMORY),  # although the game is closed before the batch is through
        (100.001, Outcome.DELIVERED),
    ],
)
def test_memory_is_looked_at_when_the_computation_begins(playing, computes_from_s, outcome):
    download_s = at_work(spared(playing, "fails"), 0.0).download_s
    done = at_work(spared(playing, "fails"), computes_from_s - download_s)

    assert download_s > 0.005
    assert done.outcome is outcome
