"""Default rates of links, beside measured rates."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import FadingSettings
from fleetsim.fleet.network.direction import ROW, Direction
from fleetsim.fleet.network.fleet_radios import cellular_radio
from fleetsim.fleet.network.wireless.rate import CQI
from fleetsim.fleet.network.wireless.wifi import IndoorWifiSettings
from fleetsim.units import BIT_PER_MBIT
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Kind, Section, SummaryLine, filled

_SEED = 1
_SIZE = 4000
_NUM_BLOCKS = 40
_PERCENTILES = (10, 50, 90)
_CAMPAIGNS = {
    "speedtest": "Speedtests of one US operator",
    "ireland": "downloads in Ireland, driving and standing",
    "norway": "commuters around Oslo, 2010-2011",
    "mobiperf": "MobiPerf 2018, a selected sample",
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Percentiles 10, 50 and 90 of the rates of one link in one direction, in Mbit/s."""

    title: str
    direction: str
    mbit_per_s: FloatArray


def cell_rates(title: str, direction: Direction, **keys: Any) -> Rates:
    """Return rates of a default cell with these keys changed, over clients and fading blocks."""
    settings = FadingSettings.model_validate({"kind": "fading", **keys})
    channel = build_channel(
        settings,
        seed=_SEED,
        size=_SIZE,
        wired_bit_per_s=np.full(_SIZE, np.nan),
        radio=cellular_radio(settings),
    )
    assert channel.cell is not None
    clients, first = np.arange(_SIZE), np.zeros(_SIZE, dtype=np.int64)
    rates = channel.cell.rates_bit_per_s(clients, direction, first, _NUM_BLOCKS) / BIT_PER_MBIT
    return Rates(title, direction.value, np.percentile(rates, _PERCENTILES))


def wifi_rates(direction: Direction) -> Rates:
    """Return default rates of clients on Wi-Fi."""
    rates = IndoorWifiSettings().rates_bit_per_s(seed=_SEED, size=_SIZE)[ROW[direction]]
    percentiles = np.percentile(rates / BIT_PER_MBIT, _PERCENTILES)
    return Rates("`fleet.wifi`", direction.value, percentiles)


def measured() -> list[Rates]:
    """Return measured rates."""
    return [
        Rates(f"{network}: {_CAMPAIGNS[campaign]}", direction, np.array(percentiles))
        for network, direction, *percentiles, _, campaign in measurements.rows(
            measurements.table("link-rates")
        )
    ]


def simulated() -> list[Rates]:
    """Return rates by default and with other settings, down and up."""
    ways = (Direction.DOWN, Direction.UP)
    cells = [cell_rates(title, way, **keys) for title, keys in _CELLS.items() for way in ways]
    return [*cells, *(wifi_rates(way) for way in ways)]


_CARRIER = {"bandwidth_hz": 20e6, "noise_figure_db": 9.0}
_CELLS: dict[str, dict[str, Any]] = {
    "`fleet.channel`, by default": {},
    "with `rate: shannon`": {"rate": "shannon"},
    "and without the modem's limit": {"rate": "shannon", "max_bit_per_s_per_hz": None},
    "a whole carrier, 20 MHz, noise figure 9 dB": _CARRIER,
    "and `rate: shannon`": {"rate": "shannon", **_CARRIER},
}
"""Keys that differ from those of a default cell, by the words of the table."""


def _checks(kind: Kind, model: Rates, published: Rates) -> list[Check]:
    return [
        Check(f"{percent} %", kind, float(there), float(here), "Mbit/s", "")
        for percent, here, there in zip(
            _PERCENTILES, model.mbit_per_s, published.mbit_per_s, strict=True
        )
    ]


def _lte_checks(cell: list[Rates], carrier: list[Rates], published: list[Rates]) -> list[Check]:
    """Compare LTE's medians; arguments: rates down and up of either, and measured ones."""
    down, up, driving = published[:3]
    pairs = (
        ("a client of the default cell, down, with a phone in Ireland", driving, cell[0]),
        ("the same, up, with a Speedtest", up, cell[1]),
        ("a whole carrier, down, with a Speedtest", down, carrier[0]),
        ("the same, up", up, carrier[1]),
    )
    return [
        replace(_checks("prediction", model, measured_rates)[1], what=what, source="as above")
        for what, measured_rates, model in pairs
    ]


def section() -> Section:
    """Return the section: percentiles of simulated rates beside measured ones."""
    model, published = simulated(), measured()
    steps, shannon = (
        _lte_checks(model[cell : cell + 2], model[carrier : carrier + 2], published)
        for cell, carrier in ((0, 6), (2, 8))
    )
    text = filled(
        "link_rates",
        model=model,
        published=published,
        steps=steps,
        shannon=shannon,
        reported=measurements.rows(measurements.table("cqi-snr")),
        least_db={cqi: db for cqi, (_, db) in enumerate(CQI, start=2)},
    )
    return Section(
        "Rates of links",
        text,
        (
            SummaryLine.of("LTE medians, steps of NR", steps),
            SummaryLine.of("The same with Shannon's rate", shannon),
            SummaryLine.of("Wi-Fi down, percentiles", _checks("fit", model[-2], published[-1])),
        ),
    )
