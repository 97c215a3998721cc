"""clients.parquet names the record and the shift that every client got, of usage and of network."""

import numpy as np
import pytest

import fleetsim
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.population import Fleet, build_fleet
from fleetsim.record.saved_run import Run

DAY_S = 86_400
COLUMNS = ["usage_record", "usage_shift_s", "network_record", "network_shift_s"]
SIZE = 8


def state(user: str, second: int) -> int:
    """1 where a user of the trace below is online: in other hours for every user and day."""
    return (second // 3600 * 7 + second // DAY_S * 3 + ord(user)) % 2


def rate(record: str, second: float) -> float:
    """Rate of a record of the trace below: another one in every second."""
    return 1e6 * (ord(record) - ord("a") + 1) + 1e3 * (int(second) % 60)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory) -> fleetsim.Scenario:
    home = tmp_path_factory.mktemp("traces")
    spans = [f"{user},{3 * DAY_S}" for user in "xyz"]
    hours = [(user, s) for user in "xyz" for s in range(0, 3 * DAY_S, 3600)]
    states = [f"{user},{s},{state(user, s)},1,1,0" for user, s in hours]
    rates = [f"{name},{s},{rate(name, s)}" for name in "abc" for s in range(60)]
    for name, header, rows in (
        ("users", "user,span_s", spans),
        ("states", "user,t_s,online,charging,unmetered,load", states),
        ("rates", "trace,t_s,down_bit_per_s", rates),
    ):
        folder = home / ("links" if name == "rates" else "people")
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.csv").write_text("\n".join([header, *rows, ""]))
    changes = {
        "seed": 5,
        "fleet.size": SIZE,
        "fleet.devices": {"pixel-6": 0.75, "t2.small": 0.25},
        "fleet.network": {"kind": "cellular"},
        "fleet.usage": {"trace": str(home / "people"), "starts_at_s": 7200},
        "fleet.channel": {"kind": "trace", "trace": str(home / "links"), "up_over_down": 0.5},
        "server.cohort": 2,
        "stop": {"rounds": 1},
    }
    return fleetsim.load("quickstart", changes)


@pytest.fixture(scope="module")
def run(scenario, tmp_path_factory) -> Run:
    return fleetsim.run(scenario, out=tmp_path_factory.mktemp("run") / "run", train=False)


@pytest.fixture(scope="module")
def fleet(scenario) -> Fleet:
    sizes = np.full(SIZE, 10)
    return build_fleet(scenario.fleet, seed=scenario.clients_seed, num_samples=sizes)


@pytest.mark.parametrize("t_s", [0.0, 17.25, 3600.0, 100_000.125, 1_234_567.0])
def test_state_and_rate_of_a_client_are_those_of_its_records_so_much_later(run, fleet, t_s):
    clients = run.clients[run.clients["device"] == "pixel-6"]
    online = fleet.usage.state_at(clients["client"].to_numpy(), t_s).online
    rates = [fleet.rate_at(client, Direction.DOWN, t_s) for client in clients["client"]]
    users = zip(clients["usage_record"], clients["usage_shift_s"], strict=True)
    links = zip(clients["network_record"], clients["network_shift_s"], strict=True)

    assert len(clients) == 6
    assert online.tolist() == [state(user, int(t_s + s) % (3 * DAY_S)) for user, s in users]
    assert rates == [rate(name, (t_s + s) % 60) for name, s in links]


def test_shifts_are_days_after_the_start_and_differ_while_records_are_used_equally_often(run):
    clients = run.clients
    phones, cabled = clients[clients.device == "pixel-6"], clients[clients.device == "t2.small"]

    assert set((phones["usage_shift_s"] - 7200) % DAY_S) == {0.0}
    assert phones["network_shift_s"].nunique() == 6
    assert set(clients["network_record"].dropna()) == {"a", "b", "c"}
    # An instance with a cable and without an owner follows no record.
    assert len(cabled) == 2
    assert cabled[COLUMNS].isna().all(axis=None)
