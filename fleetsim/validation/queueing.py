"""Clients that wait for each other: shared links, and rounds that end with the slowest task.

* k equal clients on one link take k times as long as one; the end of unequal ones that begin at
  different times follows from a walk through their rates by hand.
* Transfers that begin as a Poisson process and share one link evenly are an M/G/1 queue with
  processor sharing: mean seconds of a transfer S / (1 - rho), S alone on the link, rho the load,
  for any distribution of sizes (Kleinrock, Queueing Systems II, 1976).
* A round of n tasks of exponential length with mean m takes m H_n, with variance
  m^2 (1 + 1/4 + ... + 1/n^2) (Renyi, 1953).
"""

import math
import tempfile
from pathlib import Path

import numpy as np

from fleetsim import rng
from fleetsim.contracts import FloatArray, Outcome
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import ConstantSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.sharing.flows import Flows, lay_out_flows
from fleetsim.fleet.network.sharing.shared_links import SharedLinksSettings
from fleetsim.scenario import load
from fleetsim.simulate import run
from fleetsim.units import S_PER_HOUR
from fleetsim.validation.tables import Check, Estimate, Section, SummaryLine, Z, filled

_SEED = 20_261_122
_LINK_BIT_PER_S = 1e6
_ACCESS_BIT_PER_S = 1e9
_QUEUES = ((0.4, False), (0.6, True))
"""Load, and True for exponential instead of equal sizes."""
_NUM_TRANSFERS = 500
_NUM_QUEUES = 24
_WARM_UP = 100
_NUM_RUNS = 3
_ROUNDS = Path(__file__).with_name("exponential-tasks.yaml")


def finishing_s(start_s: FloatArray, bit: FloatArray, access_bit_per_s: FloatArray) -> FloatArray:
    """Return the ends of uploads that share the server's link of 1 Mbit/s, all [n]."""
    size = bit.size
    channel = build_channel(
        ConstantSettings(down_bit_per_s=1e15, up_bit_per_s=1e15, give_up_s=1e9),
        seed=_SEED,
        size=size,
        wired_bit_per_s=access_bit_per_s,
    )
    links = SharedLinksSettings(server_in_bit_per_s=_LINK_BIT_PER_S).build(
        seed=_SEED, wired_bit_per_s=access_bit_per_s
    )
    clients = np.arange(size)
    never_s, no_power = np.full(size, np.inf), RadioPower.line(*np.zeros((2, size)))
    flows = Flows(start_s, bit, start_s + channel.give_up_s, never_s, no_power)
    end_s = np.empty(size)
    for rows, timelines in lay_out_flows(
        flows,
        channel.demands(clients, Direction.UP, 1),
        lambda demand, channel: links.fair_bit_per_s(clients, Direction.UP, demand, channel),
    ):
        end_s[rows] = timelines.end_s
    return end_s


def poisson_sojourns_s(load: float, queue: int, *, is_exponential: bool) -> FloatArray:
    """Return seconds of transfers that begin as a Poisson process; each takes 1 s if alone."""
    draws = rng.stream(_SEED, "validation/queue", queue, round(100 * load), is_exponential)
    start_s = np.cumsum(draws.exponential(1.0 / load, _NUM_TRANSFERS))
    size_s = draws.exponential(1.0, _NUM_TRANSFERS) if is_exponential else np.ones(_NUM_TRANSFERS)
    access = np.full(_NUM_TRANSFERS, _ACCESS_BIT_PER_S)
    return finishing_s(start_s, size_s * _LINK_BIT_PER_S, access) - start_s


def round_times_s(num_clients: int) -> FloatArray:
    """Run scenarios and return lengths of rounds whose tasks all crash, exponentially."""
    times_s: list[float] = []
    for seed in range(_SEED, _SEED + _NUM_RUNS):
        scenario = load(_ROUNDS, seed=seed, server__cohort=num_clients)
        with tempfile.TemporaryDirectory() as home:
            done = run(scenario, out=Path(home) / "run", train=False)
            num_rounds, outcomes = len(done.rounds), set(done.tasks.outcome)
            if num_rounds != scenario.stop.rounds or outcomes != {Outcome.CRASHED}:
                raise ValueError(f"{num_rounds} rounds, tasks {outcomes}")
            times_s += (done.rounds.finished_at_s - done.rounds.started_at_s).tolist()
    return np.array(times_s)


def section() -> Section:
    """Return the section: links, queues and rounds."""
    mean_s = S_PER_HOUR / load(_ROUNDS).fleet.crash_per_hour
    rounds_s = {num_clients: round_times_s(num_clients) for num_clients in (5, 20)}
    exact, waits = _exact(), _waits()
    rounds = [_round(mean_s, num_clients, times_s) for num_clients, times_s in rounds_s.items()]
    text = filled(
        "queueing",
        exact=exact,
        waits=waits,
        num_queues=_NUM_QUEUES,
        num_transfers=_NUM_TRANSFERS,
        warm_up=_WARM_UP,
        z=Z,
        rounds=rounds,
        mean_s=mean_s,
        num_rounds=rounds_s[5].size,
    )
    return Section(
        "Waiting for each other",
        text,
        (
            SummaryLine.of("Shared links", exact),
            SummaryLine.inside("Processor sharing on a link", waits),
            SummaryLine.inside("Length of rounds of exponential tasks", rounds),
        ),
    )


def _exact() -> list[Check]:
    checks = []
    for k in (1, 2, 10, 100):
        access = np.full(k, _ACCESS_BIT_PER_S)
        end_s = finishing_s(np.zeros(k), np.full(k, _LINK_BIT_PER_S), access)
        what = f"{k} equal clients: the last ends"
        checks.append(Check(what, "exact", float(k), float(end_s.max()), "s", "k times one alone"))
    # 1 Mbit each; B begins at 0.5 s, C at 1.0 s and has 0.2 Mbit/s of its own. A alone to 0.5 s;
    # A and B at 0.5 to 1.0 s, when A has moved 0.75 and B 0.25 Mbit; then C 0.2 and both 0.4: A
    # ends at 1.625 s. B, with 0.5 left, at 0.8 ends at 2.25 s; C alone has 0.2 to the end, 6.0 s.
    staggered = finishing_s(
        np.array([0.0, 0.5, 1.0]),
        np.full(3, 1e6),
        np.array([_ACCESS_BIT_PER_S, _ACCESS_BIT_PER_S, 2e5]),
    )
    for name, by_hand, end_s in zip("ABC", (1.625, 2.25, 6.0), staggered.tolist(), strict=True):
        what = f"three unequal clients: {name} ends"
        checks.append(Check(what, "exact", by_hand, end_s, "s", "by hand"))
    return checks


def _waits() -> list[Estimate]:
    result = []
    for load_share, is_exponential in _QUEUES:
        queues = [
            poisson_sojourns_s(load_share, queue, is_exponential=is_exponential)
            for queue in range(_NUM_QUEUES)
        ]
        means = np.array([sojourns_s[_WARM_UP:-_WARM_UP].mean() for sojourns_s in queues])
        half_width = Z * float(means.std(ddof=1)) / math.sqrt(_NUM_QUEUES)
        law = "exponential sizes" if is_exponential else "equal sizes"
        what = f"load {load_share:g}, {law}: mean seconds"
        result.append(Estimate(what, 1.0 / (1.0 - load_share), float(means.mean()), half_width))
    return result


def _round(mean_s: float, num_clients: int, times_s: FloatArray) -> Estimate:
    ranks = np.arange(1, num_clients + 1)
    variance = mean_s**2 * float((1.0 / ranks**2).sum())
    expected_s = mean_s * float((1.0 / ranks).sum())
    return Estimate.mean(f"{num_clients} tasks: mean length", expected_s, times_s, variance)
