"""CPU credits and heat persist between tasks, when tasks are cut off, and after a resume."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetsim import bundled
from fleetsim.contracts import Outcome, TaskRow, Work, WorkKind
from fleetsim.engine.servers.buffered import BufferedSettings
from fleetsim.schema import strict_yaml
from tests.engine.batches import ended, go_together_as_alone, laid_out, task, world_of
from tests.engine.memory_recorder import MemoryRecorder
from tests.engine.tiny import COST, Tiny, goes_on


def instance(folder: Path, launch: float) -> str:
    """Device file of a t2.small with these launch credits."""
    data = strict_yaml.read(bundled.folder("devices") / "t2.small.yaml").data
    data["credits"]["launch"]["value"] = launch
    path = folder / f"t2-{launch:g}.yaml"
    path.write_text(strict_yaml.dump(data))
    return str(path)


# Few examples: each lays 24 tasks out one by one.
@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(1, 10**6), cut_share=st.floats(0.0, 1.1), clock=st.floats(0.3, 1.0))
def test_throttled_tasks_go_together_as_they_go_alone(tiny, seed, cut_share, clock):
    """Of instances with few credits, phones that heat up, and boards, all of them in use."""
    little, none = instance(tiny.folder, 1.0), instance(tiny.folder, 0.0)
    tiny.devices = {little: 0.3, none: 0.1, "pixel-6": 0.4, "jetson-nano-gpu": 0.2}
    tiny.size, tiny.seed, tiny.thermal = 12, seed, {"kind": "skin"}
    tiny.samples = [300 + 200 * (client % 7) for client in range(12)]
    tiny.trace("0,1,1,1,0.2 130,1,1,1,0.3 500,1,1,0,0 560,1,1,1,0.1", span_s=700)
    fleet = tiny.fleet()
    worlds = (world_of(fleet), world_of(fleet))
    slow = Work(WorkKind.TRAIN, epochs=1, clock_fraction=clock)
    kinds: list[dict[str, Any]] = [{}, {"work": Work(WorkKind.NONE)}, {"work": slow}]
    for now_s in (0.0, 400.0):
        tasks = [task(c, c, **kinds[c % 3], dispatched_at_s=now_s) for c in range(12)]
        go_together_as_alone(worlds, tasks, cut_share=cut_share, enough=6)


@pytest.mark.parametrize("computed_s", [30.0, 150.0])
def test_a_task_that_is_cut_off_leaves_the_credits_and_the_heat_of_that_moment(tiny, computed_s):
    tiny.devices, tiny.thermal = {"t2.small": 0.5, "pixel-6": 0.5}, {"kind": "skin"}
    tiny.size, tiny.samples = 2, [5000, 5000]
    world = world_of(tiny.fleet())
    phone = world.fleet.device.tolist().index(1)
    tasks = [task(c, c, download_bit=0) for c in range(2)]
    ended(laid_out(world, tasks, 100.0), at_s=100.0 + computed_s)
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


THREE_SECONDS = dataclasses.replace(COST, frozen_byte=3_000_000)


def rows_of(tiny: Tiny, *, rounds: int = 2, **interruption: Any) -> list[TaskRow]:
    """Rows of a run with one client."""
    server = {"cohort": 1, "interruption": {"kind": "lose", **interruption}}
    tiny.size, tiny.cost, tiny.recorder = 1, THREE_SECONDS, MemoryRecorder()
    return tiny.rows(server=server, stop={"rounds": rounds})


def test_the_first_download_has_the_frozen_weights_and_no_other(tiny):
    first, second = rows_of(tiny)

    assert (first.frozen_download_byte, first.download_byte) == (3_000_000, 1_000_000)
    assert (second.frozen_download_byte, second.download_byte) == (0, 1_000_000)
    assert (first.download_s, second.download_s) == pytest.approx((4.0, 1.0))
    # The second begins in the tail of the upload before it, which has paid 0.04 J.
    assert (first.energy_receive_j, second.energy_receive_j) == pytest.approx((8.0, 1.96))
    assert first.upload_byte == second.upload_byte == 1_000_000


def test_a_client_that_is_cut_off_pays_again_for_what_did_not_arrive(tiny):
    tiny.trace("0,1,0,1,0 2,0,0,1,0 10,1,0,1,0", span_s=100_000)
    cut, again = rows_of(tiny)

    assert cut.outcome is Outcome.OFFLINE
    assert (cut.frozen_download_byte, cut.download_byte) == (2_000_000, 0)
    assert (again.frozen_download_byte, again.download_byte) == (1_000_000, 1_000_000)
    assert again.download_s == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("transfers", "frozen_byte", "download_s"),
    [("resume", 3_000_000, 4.0), ("restart", 5_000_000, 6.0)],
)
def test_frozen_weights_that_are_moved_again_are_counted_again(
    tiny, transfers, frozen_byte, download_s
):
    tiny.trace("0,1,0,1,0 2,0,0,1,0 10,1,0,1,0", span_s=100_000)
    first, second = rows_of(tiny, kind="pause", transfers=transfers)

    assert first.outcome is Outcome.DELIVERED
    assert (first.frozen_download_byte, first.download_byte) == (frozen_byte, 1_000_000)
    assert first.download_s == pytest.approx(download_s)
    assert second.frozen_download_byte == 0


def test_no_column_without_frozen_weights(tiny):
    tiny.run(size=1, recorder=MemoryRecorder(), server={"cohort": 1})

    assert tiny.recorder.tasks[0].frozen_download_byte is None
    assert "clients/frozen_left_byte" not in tiny.recorder.states[-1]


@pytest.mark.parametrize("kind", ["synchronous", "buffered"])
def test_a_resumed_run_knows_who_has_the_frozen_weights(tiny, kind):
    tiny.varied()
    tiny.cost, tiny.stop = THREE_SECONDS, {"rounds": 6}
    tiny.server = {"cohort": 3}
    if kind == "buffered":
        tiny.server = BufferedSettings.model_validate({"concurrency": 4, "buffer_size": 2})

    whole = goes_on(tiny, tiny.build_buffered if kind == "buffered" else tiny.build, after=(2, 4))

    assert {row.frozen_download_byte for row in whole.tasks} >= {0, 3_000_000}
