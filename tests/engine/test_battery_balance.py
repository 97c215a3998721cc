"""Balance of every kind of battery: what was there and charged is used, lost or left."""

from typing import Any

import pytest

from fleetsim.errors import SimulationError
from tests.engine.batches import world_of
from tests.engine.tiny import Tiny

# One watt-hour; the charger gives 10 W from second 100 to 150 of a very long lap.
PLAIN: dict[str, Any] = {"capacity_wh": 1.0, "charge_w": 10.0, "cutoff_fraction": 0.0}
TRACE = "0,1,0,1,0 100,1,1,1,0 150,1,0,1,0"


def phones(tiny: Tiny, size: int, **battery: Any) -> Tiny:
    tiny.devices, tiny.size = {"pixel-6": 1.0}, size
    tiny.battery = PLAIN | battery
    tiny.trace(TRACE, span_s=1_000_000)
    return tiny


@pytest.mark.parametrize(
    ("initial", "now_s", "charged_j"),
    [
        (0.5, 90.0, 0.0),  # before the charger comes
        (0.5, 130.0, 300.0),  # 10 W for 30 s
        (0.5, 900.0, 500.0),  # 10 W for 50 s
        (0.99, 900.0, 36.0),  # a hundredth of 3600 J is missing
    ],
)
def test_an_idle_battery_was_given_what_fits_into_it(tiny, initial, now_s, charged_j):
    world = world_of(phones(tiny, 1, initial_fraction=[initial, initial]).fleet())
    balance = world.battery_balance(now_s)

    assert balance.charged_j == pytest.approx([charged_j], abs=1e-9)
    assert balance.left_j == pytest.approx([3600.0 * initial + charged_j])
    assert [*balance.owner_j, *balance.loss_j] == [0.0, 0.0]


@pytest.mark.parametrize("spent_j", [-600.0, 1000.0])
def test_joules_that_no_charger_gave_are_a_fault(tiny, spent_j):
    world = world_of(phones(tiny, 2, initial_fraction=[0.5, 0.5]).fleet())
    world.energy_j[1, 0] = spent_j

    with pytest.raises(SimulationError, match=r"500\.0 J are the most that could be") as caught:
        world.battery_balance(900.0)
    assert caught.value.client == 1


def test_a_run_charges_what_the_charger_gives_and_its_tasks_take_the_rest(tiny):
    phones(tiny, 4, initial_fraction=[0.5, 0.6])
    tiny.server = {"cohort": 3, "deadline_s": 900.0}
    tiny.stop = {"rounds": 12}
    server = tiny.build()
    server.run()
    clients = server.clients()
    on_charger_s = min(max(server.now_s - 100.0, 0.0), 50.0)
    spent_j = sum(
        getattr(clients, f"energy_{name}_j")
        for name in ("compute", "receive", "transmit", "tail", "idle")
    )

    assert on_charger_s > 0.0
    assert clients.battery_capacity_j.tolist() == [3600.0] * 4
    # No battery is ever full, so all that the charger gives is kept.
    assert clients.battery_charged_j == pytest.approx([10.0 * on_charger_s] * 4)
    assert clients.battery_final_j == pytest.approx(
        clients.battery_initial_j + 10.0 * on_charger_s - spent_j
    )
    assert clients.battery_fraction == pytest.approx(clients.battery_final_j / 3600.0)
    assert clients.num_selected.sum() == 36
