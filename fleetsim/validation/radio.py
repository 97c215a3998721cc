"""Radios: power by rate and by transmit power, Wi-Fi, round trips.

Power of a phone is the model's radio plus its screen; that of a walk is given without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import RadioProfile, load_device, load_radio, wifi_radio
from fleetsim.fleet.network.radios.amplifier import amplifier_w, with_tx_power
from fleetsim.fleet.traces.csv_table import CsvTable
from fleetsim.units import BIT_PER_MBIT, MS_PER_S
from fleetsim.validation import measurements
from fleetsim.validation.tables import (
    Check,
    Section,
    Verdict,
    checks_table,
    errors_say,
    number,
    percent,
    table,
)

ARTIFACT = "SIGCOMM21-5G/artifact@35aaf28"
_SCREEN_W = 2.35
"""Screen at full brightness, which the fits subtract (Galaxy S20 Ultra)."""
_RADIOS = ("lte", "nr-low", "nr-mmwave")
_CONNECTED_2012_W, _UP_2012 = 0.13286, 283.17
"""Wi-Fi of MobiSys'12: watts, mW per Mbit/s up."""
_CAMPAIGNS = {
    "speedtest": f"{ARTIFACT}, Speedtests all over the US",
    "ireland": "uccmisl/5Gdataset@306d92e, Ireland",
    "norway": "confiwent/Real-world-bandwidth-traces@d28c4fd, Norway 2010-2011",
}
_CAP_HEAD = ("radio", "campaign", "samples", "median", "99 %", "fastest", "`max_down`")
_WIFI_PHONE = "pixel-6"


@dataclass(frozen=True, slots=True)
class PowerLine:
    """Radio and direction, beside the mean power at each requested rate."""

    radio: str
    direction: str
    mbit_per_s: FloatArray
    measured_w: FloatArray
    """Measured power of the whole phone."""
    said_w: FloatArray
    """Power of the model's radio and the screen."""

    @property
    def correlation(self) -> float:
        """Correlation between measured and modelled power."""
        return float(np.corrcoef(self.measured_w, self.said_w)[0, 1])

    @property
    def phone_error(self) -> float:
        """Mean absolute error of the phone's power."""
        return float(np.mean(np.abs(self.said_w / self.measured_w - 1.0)))

    @property
    def radio_error(self) -> float:
        """Mean absolute error over the mean power of the radio alone."""
        radio_w = np.mean(self.measured_w - _SCREEN_W)
        return float(np.mean(np.abs(self.said_w - self.measured_w)) / radio_w)


def power_w(radio: RadioProfile, direction: str, mbit_per_s: FloatArray) -> FloatArray:
    """Return watts of a busy radio above idle at these rates, shape kept."""
    bit_per_s = mbit_per_s * BIT_PER_MBIT
    if direction == "down":
        return radio.receive_w + radio.receive_j_per_bit * bit_per_s
    return radio.transmit_w + radio.transmit_j_per_bit * bit_per_s


def power_lines() -> list[PowerLine]:
    """Return the radios of the Galaxy S20 Ultra, in both directions."""
    data = measurements.radio_table("radio-power")
    rates, measured_w = data.numbers("mbit_per_s"), data.numbers("power_w")
    lines = []
    for radio in _RADIOS:
        for direction in ("down", "up"):
            rows = _rows(data, radio=radio, direction=direction)
            said_w = _SCREEN_W + power_w(load_radio(radio), direction, rates[rows])
            lines.append(PowerLine(radio, direction, rates[rows], measured_w[rows], said_w))
    return lines


def walk_checks() -> list[Check]:
    """Return seconds of a walk with mmWave 5G, in groups, without the screen."""
    data, radio = measurements.radio_table("radio-walk"), load_radio("nr-mmwave")
    columns = zip(
        data.columns["direction"],
        data.columns["low"],
        data.columns["high"],
        data.numbers("mbit_per_s"),
        data.numbers("power_w"),
        strict=True,
    )
    return [
        Check(
            f"down, {low} to {high} Mbit/s"
            if direction == "down"
            else f"up, signal of {low} to {high} dBm, {number(float(rate))} Mbit/s",
            "prediction",
            float(measured_w),
            float(power_w(radio, direction, np.array([rate]))[0]),
            "W",
            f"{ARTIFACT}, Power-Throughput-RSRP",
        )
        for direction, low, high, rate, measured_w in columns
    ]


def weak_signal_check() -> Check:
    """Return the weakest signals of the walk, where a phone emits its highest power."""
    (check,) = (c for c in walk_checks() if "-120" in c.what)
    data = measurements.radio_table("radio-walk")
    rate = data.numbers("mbit_per_s")[_rows(data, direction="up", low="-120")]
    radio = with_tx_power(load_radio("nr-mmwave"), 23.0)
    said_w = float(power_w(radio, "up", rate)[0])
    return Check(f"{check.what}, at 23 dBm", "prediction", check.expected, said_w, "W", "as above")


def modem_checks() -> list[Check]:
    """Return power of modems above reception, by transmit power; medians over five phones."""
    data, amplifier = measurements.radio_table("modem-transmit"), load_radio("lte").amplifier
    assert amplifier is not None
    dbm, watts = data.numbers("tx_dbm"), data.numbers("above_receive_w")
    return [
        Check(
            f"{level:g} dBm, five phones from {number(watts[dbm == level].min())} to"
            f" {number(watts[dbm == level].max())} W",
            "fit",
            float(np.median(watts[dbm == level])),
            amplifier_w(amplifier, float(level)),
            "W",
            "power_profile.xml of five phones (measurements/README.md)",
        )
        for level in np.unique(dbm)
    ]


def wifi_rows() -> list[tuple[float, float, float, float]]:
    """Return rows: Mbit/s up, watts of a phone of 2012, of the model, without a duty cycle."""
    device = load_device(_WIFI_PHONE)
    assert device.wifi is not None
    radio = wifi_radio(device)
    rows = []
    for rate in (0.015, 0.15, 1.0, 5.0, 20.0, 60.0):
        said_w = float(power_w(radio, "up", np.array([rate]))[0])
        measured_w = _CONNECTED_2012_W + _UP_2012 * rate / MS_PER_S
        rows.append((rate, measured_w, said_w, device.wifi.transmit_w))
    return rows


def round_trip_checks() -> list[Check]:
    """Return medians of two campaigns beside the round-trip times of the radio files."""
    data = measurements.radio_table("latency")
    rows = zip(
        data.columns["radio"],
        data.columns["campaign"],
        data.numbers("low_s").tolist(),
        data.numbers("rtt_s").tolist(),
        data.numbers("high_s").tolist(),
        strict=True,
    )
    return [
        Check(
            f"`{radio}`, {low_s * MS_PER_S:.0f} to {high_s * MS_PER_S:.0f} ms",
            "fit" if campaign == "speedtest" or radio == "3g" else "prediction",
            rtt_s * MS_PER_S,
            load_radio(radio).rtt_s * MS_PER_S,
            "ms",
            _CAMPAIGNS[campaign],
        )
        for radio, campaign, low_s, rtt_s, high_s in rows
    ]


def cap_rows() -> list[tuple[str, ...]]:
    """Return rates of downloads in cars and trains, beside the highest rate of each radio file."""
    data = measurements.radio_table("fastest-samples")
    rows = zip(
        data.columns["radio"],
        data.columns["campaign"],
        data.columns["num"],
        *(data.numbers(f"{which}_mbit_per_s").tolist() for which in ("p50", "p99", "most")),
        strict=True,
    )
    return [
        (
            f"`{radio}`",
            _CAMPAIGNS[campaign],
            num,
            *(f"{number(rate)}" for rate in rates),
            number(load_radio(radio).max_down_bit_per_s / BIT_PER_MBIT),
        )
        for radio, campaign, num, *rates in rows
    ]


def section() -> Section:
    """Return the section."""
    lines, walk, weak = power_lines(), walk_checks(), weak_signal_check()
    modem, trips, wifi = modem_checks(), round_trip_checks(), wifi_rows()
    num_points = sum(line.measured_w.size for line in lines)
    radio_error = float(np.mean([line.radio_error for line in lines]))
    phone_error = float(np.mean([line.phone_error for line in lines]))
    wifi_errors = [(rate, said / measured - 1.0) for rate, measured, said, _ in wifi]
    predicted_trips = [check for check in trips if check.kind == "prediction"]
    fitted_trips = [check for check in trips if check.kind == "fit"]
    text = f"""\
### Power by rate
Base and slope of `lte`, `nr-low` and `nr-mmwave` are lines through these same points, so their errors
are those of a line. Each point is the mean over all seconds in which this many Mbit/s were
requested; {number(_SCREEN_W)} W of it is the screen, which hides the radio's error in the phone's.

{
        table(
            (
                "radio",
                "direction",
                "points",
                "Mbit/s",
                "r",
                "error of the phone",
                "error of the radio",
            ),
            [
                (
                    f"`{line.radio}`",
                    line.direction,
                    str(line.measured_w.size),
                    f"{number(float(line.mbit_per_s.min()))} to {number(float(line.mbit_per_s.max()))}",
                    f"{line.correlation:.3f}",
                    percent(line.phone_error, signed=False),
                    percent(line.radio_error, signed=False),
                )
                for line in lines
            ],
        )
    }

Nothing was fitted to the walk with mmWave 5G. At a medium rate on the downlink, and with a weak
signal on the uplink, a phone draws more than the line: a weak signal costs more energy per bit. With
a strong signal it draws less than the line. The last row has the amplifier at its maximum, 23 dBm,
as in scenarios with a link budget.

{checks_table([*walk, weak])}

### Transmit power
The efficiency at 23 dBm and the exponent 0.36 are fits to these medians. The phones differ by more
than a factor of two.

{checks_table(modem)}

### Wi-Fi
A Pixel 6 that sends over Wi-Fi, beside the law of a phone of 2012 (Huang et al., MobiSys'12), which
includes the processor's work and was measured at rates of that time, and beside the model without a
duty cycle ("before"). At low rates only the connection draws power, and the model matches it. At
higher rates it falls below the law of 2012; from about 3 Mbit/s on it is **further from it than
before**. No measurement of a recent phone by rate was found.

{
        table(
            ("Mbit/s up", "phone of 2012", "model", "error", "before", "error before"),
            [
                (
                    number(rate),
                    f"{number(measured)} W",
                    f"{number(said)} W",
                    percent(said / measured - 1.0),
                    f"{number(before)} W",
                    percent(before / measured - 1.0),
                )
                for rate, measured, said, before in wifi
            ],
        )
    }

### Round trips and fastest rates
Medians, with the percentiles 10 and 90; the model has one figure for all. The distance of the
servers decides: those of the Speedtests were 1500 km away in the median, that of the pings in
Ireland is not known. There is no measurement for Wi-Fi and cables.

{checks_table(trips)}

Mbit/s of samples during downloads, beside the highest rate that the radio file allows: at most one
sample in a hundred is faster.

{table(_CAP_HEAD, cap_rows())}
"""  # noqa: E501
    return Section(
        "Radios",
        text,
        (
            Verdict(
                "Radio power by rate, Galaxy S20 Ultra",
                "fit",
                num_points,
                f"mean error of the phone {percent(phone_error, signed=False)}, of the radio"
                f" {percent(radio_error, signed=False)}",
            ),
            Verdict("mmWave power on a walk", "prediction", len(walk), errors_say(walk)),
            Verdict("mmWave, weakest signal, at 23 dBm", "prediction", 1, errors_say([weak])),
            Verdict("Modems by transmit power", "fit", len(modem), errors_say(modem)),
            Verdict(
                "Wi-Fi power by rate against 2012",
                "prediction",
                len(wifi),
                f"{percent(wifi_errors[0][1])} at {number(wifi_errors[0][0])} Mbit/s,"
                f" {percent(wifi_errors[-1][1])} at {number(wifi_errors[-1][0])}",
            ),
            Verdict(
                "Round trips, own campaign", "fit", len(fitted_trips), errors_say(fitted_trips)
            ),
            Verdict(
                "Round trips, another campaign",
                "prediction",
                len(predicted_trips),
                errors_say(predicted_trips),
            ),
        ),
    )


def _rows(data: CsvTable, **wanted: str) -> np.ndarray:
    """Return indices of the rows with these texts in these columns."""
    is_wanted = np.ones(data.num_rows, dtype=np.bool_)
    for column, text in wanted.items():
        is_wanted &= np.array(data.columns[column]) == text
    return np.flatnonzero(is_wanted)
