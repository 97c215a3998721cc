"""The bundled traces: made by their scripts, with days and nights, and with tunnels."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from fleetsim import bundled
from fleetsim.fleet.traces.network.files import read_net_trace
from fleetsim.fleet.traces.network.trace import NetTrace
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.trace import Trace
from tests.fleet.traces.scripts import script_of

NAMES = ("people-week", "livelab-phones", "commute-5g")


@cache
def trace_of(name: str) -> Trace | NetTrace:
    folder = bundled.folder("traces") / name
    return read_net_trace(folder) if name == "commute-5g" else read_trace(folder)


def columns(trace: Trace | NetTrace) -> list[list[Any]]:
    if isinstance(trace, Trace):
        return [column.tolist() for column in (trace.times_s, *trace.columns)]
    assert trace.up_bit_per_s is not None
    return [trace.times_ms.tolist(), trace.down_bit_per_s.tolist(), trace.up_bit_per_s.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_its_script_makes_all_records_and_the_page(name: str) -> None:
    script = script_of(name)
    made = script.generate()
    page = (bundled.folder("traces") / name / "README.md").read_text(encoding="utf-8")

    assert columns(made) == columns(trace_of(name))
    assert script.readme(made, page) == page


def test_people_charge_at_night_and_are_on_their_phones_by_day() -> None:
    trace = trace_of("people-week")
    assert isinstance(trace, Trace)
    shares = script_of("people-week").hourly_shares(trace)

    assert trace.num_users == 300
    assert shares["charging"][3] > 3 * shares["charging"][15]
    assert shares["eligible"][3] > 3 * shares["eligible"][15]
    assert shares["unmetered"][21] > shares["unmetered"][13]


def test_every_commuter_has_outages_and_home_is_faster_than_the_ride() -> None:
    trace = trace_of("commute-5g")
    assert isinstance(trace, NetTrace)

    assert trace.num_records == 30
    assert np.array_equal(trace.up_bit_per_s == 0.0, trace.down_bit_per_s == 0.0)
    for rate in np.split(trace.down_bit_per_s, trace.offsets[1:-1]):
        assert (rate == 0.0).any()
        assert np.median(rate[:200]) > np.percentile(rate, 20)
