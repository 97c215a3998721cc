"""CPU credits and heat persist between tasks, when tasks are cut off, and after a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetsim import bundled
from fleetsim.contracts import MemoryRecorder, Outcome, Work, WorkKind
from fleetsim.engine.eligibility import EligibilitySettings
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.engine.world import World
from fleetsim.schema import strict_yaml
from tests.engine.tasks.test_task_batch import standing, task
from tests.engine.tiny import COST, FirstCome, Tiny


def instance(folder: Path, launch: float) -> str:
    """Device file of a t2.small with these launch credits."""
    data = strict_yaml.read(bundled.folder("devices") / "t2.small.yaml").data
    data["credits"]["launch"]["value"] = launch
    path = folder / f"t2-{launch:g}.yaml"
    path.write_text(strict_yaml.dump(data))
    return str(path)


def throttled(tiny: Tiny, *, size: int = 12, seed: int = 1) -> Tiny:
    """Instances with few credits, phones that heat up, and boards, all of them in use."""
    little, none = instance(tiny.folder, 1.0), instance(tiny.folder, 0.0)
    tiny.devices = {little: 0.3, none: 0.1, "pixel-6": 0.4, "jetson-nano-gpu": 0.2}
    tiny.size, tiny.seed, tiny.thermal = size, seed, {"kind": "skin"}
    tiny.samples = [300 + 200 * (client % 7) for client in range(size)]
    tiny.trace("0,1,1,1,0.2 130,1,1,1,0.3 500,1,1,0,0 560,1,1,1,0.1", span_s=700)
    return tiny


def world_of(tiny: Tiny) -> World:
    return World(tiny.fleet(), EligibilitySettings())


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(1, 10**6), cut_share=st.floats(0.0, 1.1), clock=st.floats(0.3, 1.0))
def test_throttled_tasks_go_together_as_they_go_alone(tiny, seed, cut_share, clock):
    worlds = [world_of(throttled(tiny, seed=seed)) for _ in range(2)]
    kinds: list[dict[str, Any]] = [
        {},
        {"work": Work(WorkKind.NONE)},
        {"work": Work(WorkKind.TRAIN, epochs=1, clock_fraction=clock)},
    ]
    for now_s in (0.0, 400.0):
        alone, together = [
            [task(c, c, **kinds[c % 3], dispatched_at_s=now_s) for c in range(12)] for _ in range(2)
        ]
        batch = TaskBatch(worlds[0], together, now_s=now_s, cost=COST, batch_size=10)
        cut_s = now_s + cut_share * (batch.closing(6)[0] - now_s)
        batch.cut(cut_s, priority(Rank.STOP), Outcome.CANCELLED)
        results = batch.settle()
        singles = []
        for each in alone:
            single = TaskBatch(worlds[1], [each], now_s=now_s, cost=COST, batch_size=10)
            single.cut(cut_s, priority(Rank.STOP), Outcome.CANCELLED)
            singles += single.settle()

        assert results == singles
        assert standing(worlds[0]) == standing(worlds[1])


@pytest.mark.parametrize("computed_s", [30.0, 150.0])
def test_a_task_that_is_cut_off_leaves_the_credits_and_the_heat_of_that_moment(tiny, computed_s):
    tiny.devices, tiny.thermal = {"t2.small": 0.5, "pixel-6": 0.5}, {"kind": "skin"}
    tiny.size, tiny.samples = 2, [5000, 5000]
    world = world_of(tiny)
    phone = world.fleet.device.tolist().index(1)
    tasks = [task(c, c, download_bit=0) for c in range(2)]
    batch = TaskBatch(world, tasks, now_s=100.0, cost=COST, batch_size=10)
    batch.cut(100.0 + computed_s, priority(Rank.STOP), Outcome.CANCELLED)
    batch.settle()
    changed = world.take_changed()
    assert changed["client"].tolist() == [0, 1]
    condition = changed["condition"].astype(np.float64)

    # spends 1 of its launch credits a minute and earns 0.2, after 100 s of earning
    assert condition[1 - phone, :2] == pytest.approx([1800 - computed_s, 0.2 * (100 + computed_s)])
    skins = world.fleet.throttle.skins
    assert skins is not None
    mine = skins.take(np.array([1]))
    expected_c = mine.after(mine.resting_c, np.ones(1), 1.0, np.array([computed_s]))
    assert condition[phone, 2] == pytest.approx(expected_c[0])


def test_a_t2_small_that_trains_for_three_hours_slows_to_a_fifth_after_37_5_minutes(tiny):
    """Round after round; transfers of a second each earn what little they can."""
    tiny.devices, tiny.size, tiny.samples = {"t2.small": 1.0}, 1, [1100]
    tiny.server, tiny.stop = {"cohort": 1}, {"time_s": 3 * 3600.0}
    tiny.run()
    rows = tiny.recorder.tasks
    ends_s = np.array([row.finished_at_s for row in rows[:-1]])
    rate = np.array([row.train_flop / row.compute_s for row in rows[:-1]])

    # A round is 275 s of work and two short transfers: the balance falls 0.8 credits a minute.
    first_slow = int(np.argmax(rate < 0.99 * rate[0]))
    assert rows[first_slow].dispatched_at_s < 37.5 * 60 + 1 < ends_s[first_slow] + 1
    assert rate[first_slow + 1 :] == pytest.approx(0.2 * rate[0], rel=1e-3)
    assert ends_s[-1] > 2.7 * 3600


def test_a_rested_phone_trains_faster_than_one_that_has_just_trained(tiny):
    tiny.devices, tiny.thermal = {"pixel-6": 1.0}, {"kind": "skin"}
    tiny.size, tiny.samples = 1, [1000]
    world, took_s = world_of(tiny), []
    now_s = 0.0
    for pause_s in (0.0, 0.0, 3600.0):
        now_s += pause_s
        one = task(0, 0, dispatched_at_s=now_s)
        batch = TaskBatch(world, [one], now_s=now_s, cost=COST, batch_size=10)
        [ended] = batch.settle()
        took_s.append(ended.compute_s)
        now_s = ended.finished_at_s

    assert took_s[1] > 1.1 * took_s[0]
    assert took_s[2] == pytest.approx(took_s[0], rel=1e-9)


def run_of(tiny: Tiny, recorder: MemoryRecorder, mode: str, state: Any = None) -> Any:
    throttled(tiny, size=8)
    tiny.stop, tiny.selector, tiny.recorder = {"rounds": 10}, FirstCome(), recorder
    if mode == "synchronous":
        tiny.server = {"cohort": 3, "over_commit": 1.4, "deadline_s": 300}
        return tiny.build(state)
    tiny.server = {"concurrency": 5, "buffer_size": 3, "deadline_s": 900.0}
    return tiny.build_buffered(state)


@pytest.mark.parametrize("mode", ["synchronous", "buffered"])
def test_a_run_resumed_anywhere_remembers_credits_and_heat(tiny, mode):
    whole = MemoryRecorder()
    run_of(tiny, whole, mode).run()
    of_instances = [row for row in whole.tasks if row.device.startswith("t2-")]
    assert any(row.train_flop < 0.5 * 12e9 * row.compute_s for row in of_instances)
    skin_c = whole.states[-1]["clients/condition"][:, 2].astype(np.float64)
    assert float(np.nanmax(skin_c)) > 35.0

    for round_ in (1, 4, 9):
        rest = MemoryRecorder()
        state = whole.states[round_ - 1]
        assert state["clients/condition"].shape == (state["clients/client"].size, 3)
        run_of(tiny, rest, mode, state).run()

        assert rest.rounds == whole.rounds[round_:]
        assert rest.tasks == [row for row in whole.tasks if row.round > round_]


def test_a_fleet_without_credits_or_skins_saves_no_conditions(tiny):
    assert "condition" not in world_of(tiny).take_changed()
