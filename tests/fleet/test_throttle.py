"""Throttled computations: seconds, joules and the condition of a client."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.population import Fleet
from fleetsim.fleet.timeline import Timeline
from tests.fleet.made_fleets import fleet_of

T2 = ("t2.small", "t2.medium", "t2.large", "t2.xlarge")
ALL_FOUR = dict.fromkeys(T2, 0.25)
SKIN = {"kind": "skin"}
COST = ModelCost({"conv": 1e9}, num_parameters=1, payload_byte=4)
TRAIN = Work(WorkKind.TRAIN, epochs=1)
ONE = np.zeros(1, dtype=np.int64)


def working(devices: dict[str, float], work_s: float = 600.0, **settings: Any) -> Fleet:
    """One client a device, with enough samples that each computes about so long, unhindered."""
    # 3 GFLOP a sample at 12 GFLOP/s
    return fleet_of(devices, size=len(devices), samples=max(1, round(work_s / 0.25)), **settings)


def laid_out(fleet, work=TRAIN, start_s=0.0, client=0) -> tuple[Timeline, float]:
    """The computation of a client that has just begun, and the seconds it takes unhindered."""
    clients, at_s = ONE + client, np.array([start_s])
    begin = fleet.throttle.rested(clients, fleet.throttle.initial()[clients], np.zeros(1), at_s)
    timelines = fleet.computations(clients, at_s, begin, COST, work, batching=Batching(10**9))
    return timelines.row(0), float(timelines.progress[0, -1])


def client_of(fleet: Fleet, device: str) -> int:
    names = [profile.name for profile in fleet.profiles]
    return int(np.flatnonzero(fleet.device == names.index(device))[0])


# Full use until launch credits are gone, then the baseline: minutes, and use of each vCPU. Minutes
# are launch credits over vCPUs less earnings a minute, by the tables of the Amazon EC2 user guide.
@pytest.mark.parametrize(
    ("device", "minutes", "baseline"),
    [
        ("t2.small", 30 / (1 - 12 / 60), 0.2),
        ("t2.medium", 60 / (2 - 24 / 60), 0.2),
        ("t2.large", 60 / (2 - 36 / 60), 0.3),
        ("t2.xlarge", 120 / (4 - 54 / 60), 0.225),
    ],
)
def test_a_t2_falls_to_its_baseline_when_launch_credits_end(device, minutes, baseline):
    fleet = working(ALL_FOUR, work_s=3 * 3600.0)
    timeline, work_s = laid_out(fleet, client=client_of(fleet, device))
    rates = np.diff(timeline.progress) / np.diff(timeline.edges_s)

    assert timeline.edges_s[1] / 60 == pytest.approx(minutes)
    assert rates == pytest.approx([1.0, baseline])
    assert timeline.end_s == pytest.approx(60 * minutes + (work_s - 60 * minutes) / baseline)


def test_an_idle_hour_buys_a_quarter_of_an_hour():
    fleet = working({"t2.small": 1.0}, work_s=2 * 3600.0)
    late, _ = laid_out(fleet, start_s=3600.0)

    # 30 launch credits and 12 earned, spent at 0.8 a minute
    assert (late.edges_s[1] - late.start_s) / 60 == pytest.approx((30 + 12) / 0.8)


def trace(folder: Path, states: str, span_s: int) -> dict[str, Any]:
    rows = "\n".join(f"u,{line}" for line in states.split())
    (folder / "states.csv").write_text(f"user,t_s,online,charging,unmetered,load\n{rows}\n")
    (folder / "users.csv").write_text(f"user,span_s\nu,{span_s}\n")
    return {"trace": str(folder), "shift": "none", "kinds": ["phone", "vm"]}


def test_load_uses_credits_while_a_t2_idles_and_shares_its_baseline(tmp_path: Path) -> None:
    # a load of 0.6 for half an hour costs 0.6 x 1800 s of launch credits and earns 0.2 x 1800 s
    usage = trace(tmp_path, "0,1,0,1,0.6 1800,1,0,1,0.5", span_s=10**7)
    fleet = working({"t2.small": 1.0}, work_s=3600.0, usage=usage)
    begin = fleet.throttle.rested(ONE, fleet.throttle.initial(), np.zeros(1), np.array([1800.0]))
    timeline, _ = laid_out(fleet, start_s=1800.0)

    assert begin[0] == pytest.approx([1800 - 1080, 360])
    lasts_s = (720 + 360) / 0.8
    assert timeline.edges_s[1] - 1800.0 == pytest.approx(lasts_s)
    rates = np.diff(timeline.progress) / np.diff(timeline.edges_s)
    assert rates == pytest.approx([0.5, 0.1])


def test_a_phone_in_use_is_warm_before_it_is_asked(tmp_path):
    usage = trace(tmp_path, "0,1,0,1,0.5 100000,1,0,1,0", span_s=10**7)
    fleet = working({"redmi-note-10": 1.0}, thermal=SKIN, usage=usage)
    initial = fleet.throttle.initial()

    at_s = [np.array([t_s]) for t_s in (0.0, 99_000.0, 100_140.0)]
    warm = fleet.throttle.rested(ONE, initial, at_s[0], at_s[1])
    cooled = fleet.throttle.rested(ONE, warm, at_s[1], at_s[2])
    rest_c = 25 + 6.8 * 0.15
    assert initial[0, -1] == pytest.approx(rest_c)
    assert warm[0, -1] == pytest.approx(rest_c + 6.8 * 2.76 / 2)
    assert cooled[0, -1] == pytest.approx(rest_c + 6.8 * 2.76 / 2 * np.exp(-2))


# A CPU waits for memory in 73 % of its time: 0.27 / 0.5 + 0.73. A GPU is bound by its clock.
@pytest.mark.parametrize(
    ("device", "stretch"), [("jetson-nano-cpu", 1.27), ("jetson-nano-gpu", 2.0)]
)
def test_half_the_clock_draws_a_quarter_and_stretches_the_share_bound_by_it(device, stretch):
    fleet = working({device: 1.0})
    whole, _ = laid_out(fleet)
    half, _ = laid_out(fleet, Work(WorkKind.TRAIN, epochs=1, clock_fraction=0.5))

    assert half.end_s == pytest.approx(stretch * whole.end_s)
    assert half.power_w == pytest.approx(whole.power_w / 4)
    assert half.energy_until(np.inf) == pytest.approx(whole.energy_until(np.inf) * stretch / 4)


@pytest.mark.parametrize("clock", [0.0, -0.5, 1.01, float("nan")])
def test_a_clock_outside_its_range_is_refused(clock):
    with pytest.raises(ValueError, match=r"clock_fraction must be in \(0, 1\], got"):
        Work(WorkKind.TRAIN, epochs=1, clock_fraction=clock)


DEVICES = {"t2.small": 0.3, "t2.xlarge": 0.2, "pixel-6": 0.3, "jetson-nano-cpu": 0.2}
MIXED = working(DEVICES, work_s=5000.0, thermal=SKIN)
EVERYBODY = np.arange(MIXED.size)
conditions = st.tuples(st.floats(0.0, 1800.0), st.floats(0.0, 17_000.0), st.floats(10.0, 60.0))


@settings(max_examples=60)
@given(conditions, st.floats(0.0, 1e8), st.floats(0.05, 1.0), st.floats(0.0, 1.0))
def test_progress_and_joules_never_exceed_the_unhindered_ones(condition, start_s, clock, share):
    begin, starts_s = np.tile(condition, (MIXED.size, 1)), np.full(MIXED.size, start_s)
    work = Work(WorkKind.TRAIN, epochs=1, clock_fraction=clock)
    rows = MIXED.computations(EVERYBODY, starts_s, begin, COST, work, Batching(10**9))
    until_s = starts_s + share * (rows.end_s - starts_s)
    passed_s = until_s - starts_s
    train_w = np.array([p.power.train_above_idle_w for p in MIXED.profiles])[MIXED.device]

    slack = 1e-9 * rows.end_s + 1e-6
    shares = np.array([p.compute.clock_share for p in MIXED.profiles])[MIXED.device]
    assert (rows.progress_until(until_s) <= passed_s / (shares / clock + 1 - shares) + slack).all()
    assert (rows.energy_until(until_s) <= clock**2 * train_w * passed_s + 20 * slack).all()
    assert (np.diff(rows.progress, axis=1) >= 0.0).all()


@pytest.mark.slow
@settings(max_examples=60)
@given(conditions, st.floats(0.05, 1.0), st.floats(0.0, 1.0))
def test_a_computation_cut_anywhere_goes_on_as_if_it_had_not_been(condition, clock, share):
    begin, starts_s = np.tile(condition, (MIXED.size, 1)), np.zeros(MIXED.size)
    work = Work(WorkKind.TRAIN, epochs=1, clock_fraction=clock)
    rows = MIXED.computations(EVERYBODY, starts_s, begin, COST, work, Batching(10**9))
    cut_s = share * rows.end_s
    then = MIXED.throttle.worked(EVERYBODY, begin, cut_s, clock)
    later = MIXED.computations(EVERYBODY, cut_s, then, COST, work, Batching(10**9))

    at_s = cut_s + 0.5 * (rows.end_s - cut_s)
    assert rows.progress_until(cut_s) + later.progress_until(at_s) == pytest.approx(
        rows.progress_until(at_s), rel=1e-6, abs=1e-4
    )
    assert rows.energy_until(cut_s) + later.energy_until(at_s) == pytest.approx(
        rows.energy_until(at_s), rel=1e-6, abs=1e-3
    )
