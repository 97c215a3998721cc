"""Changed rows of a world: complete, and each once."""

import numpy as np

from fleetsim.contracts import ClientRows, IntArray, Outcome, Purpose, Report, latest_rows
from fleetsim.engine.world import World
from tests.engine.batches import ended, fleet_of, laid_out, task, world_of
from tests.engine.tiny import Tiny


def throttled_world(tiny: Tiny, seed: int) -> World:
    tiny.thermal = {"kind": "skin"}
    return world_of(fleet_of(tiny, size=24, seed=seed))


def everything(world: World) -> dict[str, bytes]:
    return {name: column.tobytes() for name, column in world._kept().items()}


def live(world: World, stream: np.random.Generator, round_: int) -> None:
    """Run a few tasks, cut some off, and count some clients."""
    now_s = 1000.0 * round_
    clients: IntArray = stream.choice(24, 5, replace=False)
    tasks = [task(5 * round_ + at, client) for at, client in enumerate(clients.tolist())]
    ended(laid_out(world, tasks, now_s), at_s=now_s + float(stream.uniform(0.0, 40.0)))
    counted = stream.choice(24, 2, replace=False).tolist()
    world.count(
        [Report(client, Purpose.TRAIN, Outcome.DELIVERED, now_s, now_s, 10) for client in counted]
    )


def test_rows_put_into_a_fresh_world_make_it_the_old_one(tiny):
    stream = np.random.default_rng(3)
    world = throttled_world(tiny, seed=3)
    parts: list[ClientRows] = []
    for round_ in range(6):
        live(world, stream, round_)
        if round_ % 2:
            parts.append(world.take_changed())
    again = throttled_world(tiny, seed=3)
    assert everything(again) != everything(world)

    again.restore(latest_rows(parts))

    assert everything(again) == everything(world)


def test_nobody_is_said_to_have_changed_twice(tiny):
    world = throttled_world(tiny, seed=4)
    live(world, np.random.default_rng(4), 0)
    changed = world.take_changed()

    assert 5 <= changed["client"].size <= 7
    assert (np.diff(changed["client"].astype(np.int64)) > 0).all()
    assert world.take_changed()["client"].size == 0
