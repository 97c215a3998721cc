"""Radios: power by rate and by transmit power, Wi-Fi, round trips.

Power of a phone is the model's radio plus its screen; that of a walk is given without it.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import RadioProfile, load_device, load_radio, wifi_radio
from fleetsim.fleet.network.radios.power import amplifier_w, with_tx_power
from fleetsim.units import BIT_PER_MBIT, MS_PER_S
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, number, percent, table

ARTIFACT = "SIGCOMM21-5G/artifact@35aaf28"
_SCREEN_W = 2.35
"""Screen at full brightness, which the fits subtract (Galaxy S20 Ultra)."""
_CONNECTED_2012_W, _UP_2012 = 0.13286, 283.17
"""Wi-Fi of MobiSys'12: watts, mW per Mbit/s up."""
_CAMPAIGNS = {
    "speedtest": f"{ARTIFACT}, Speedtests all over the US",
    "ireland": "uccmisl/5Gdataset@306d92e, Ireland",
    "norway": "confiwent/Real-world-bandwidth-traces@d28c4fd, Norway 2010-2011",
}
_CAP_HEAD = ("radio", "campaign", "samples", "median", "99 %", "fastest", "`max_down`")
_LINE_HEAD = (
    *("radio", "direction", "points", "Mbit/s", "r"),
    *("error of the phone", "error of the radio"),
)
_WIFI_HEAD = ("Mbit/s up", "phone of 2012", "model", "error", "before", "error before")
_WIFI_PHONE = "pixel-6"


@dataclass(frozen=True, slots=True)
class PowerLine:
    """Radio and direction, beside the mean power at each requested rate."""

    radio: str
    direction: str
    mbit_per_s: FloatArray
    measured_w: FloatArray
    """Measured power of the whole phone."""
    model_w: FloatArray
    """Power of the model's radio and the screen."""

    @property
    def phone_error(self) -> float:
        """Mean absolute error of the phone's power."""
        return float(np.mean(np.abs(self.model_w / self.measured_w - 1.0)))

    @property
    def radio_error(self) -> float:
        """Mean absolute error over the mean power of the radio alone."""
        radio_w = np.mean(self.measured_w - _SCREEN_W)
        return float(np.mean(np.abs(self.model_w - self.measured_w)) / radio_w)

    def cells(self) -> tuple[str, ...]:
        """Return a row of a table."""
        rates = self.mbit_per_s
        least, most = number(float(rates.min())), number(float(rates.max()))
        errors = (percent(e, signed=False) for e in (self.phone_error, self.radio_error))
        correlation = f"{np.corrcoef(self.measured_w, self.model_w)[0, 1]:.3f}"
        num, span = str(self.measured_w.size), f"{least} to {most}"
        return (f"`{self.radio}`", self.direction, num, span, correlation, *errors)


def power_w(radio: RadioProfile, direction: str, mbit_per_s: FloatArray) -> FloatArray:
    """Return watts of a busy radio above idle at these rates, shape kept."""
    bit_per_s = mbit_per_s * BIT_PER_MBIT
    if direction == "down":
        return radio.receive_w + radio.receive_j_per_bit * bit_per_s
    return radio.transmit_w + radio.transmit_j_per_bit * bit_per_s


def power_lines() -> list[PowerLine]:
    """Return the radios of the Galaxy S20 Ultra, in both directions."""
    lines, points_of = [], measurements.table("radio-power")
    for (radio, direction), points in measurements.groups(points_of, "radio", "direction"):
        rates, measured_w = points["mbit_per_s"].to_numpy(), points["power_w"].to_numpy()
        model_w = _SCREEN_W + power_w(load_radio(radio), direction, rates)
        lines.append(PowerLine(radio, direction, rates, measured_w, model_w))
    return lines


def walk_checks() -> list[Check]:
    """Return seconds of a walk with mmWave 5G, in groups, without the screen."""
    checks, radio, source = [], load_radio("nr-mmwave"), f"{ARTIFACT}, Power-Throughput-RSRP"
    for row in measurements.rows(measurements.table("radio-walk")):
        what = f"down, {row.low} to {row.high} Mbit/s"
        if row.direction == "up":
            what = f"up, signal of {row.low} to {row.high} dBm, {number(row.mbit_per_s)} Mbit/s"
        model_w = float(power_w(radio, row.direction, np.array([row.mbit_per_s]))[0])
        checks.append(Check(what, "prediction", row.power_w, model_w, "W", source))
    return checks


def weak_signal_check() -> Check:
    """Return the weakest signals of the walk, where a phone emits its highest power."""
    (check,) = (c for c in walk_checks() if "-120" in c.what)
    weakest = measurements.table("radio-walk").query("direction == 'up' and low == -120")
    radio = with_tx_power(load_radio("nr-mmwave"), 23.0)
    model_w = float(power_w(radio, "up", weakest["mbit_per_s"].to_numpy())[0])
    return Check(f"{check.what}, at 23 dBm", "prediction", check.expected, model_w, "W", "as above")


def modem_checks() -> list[Check]:
    """Return power of modems above reception, by transmit power; medians over five phones."""
    checks, amplifier = [], load_radio("lte").amplifier
    assert amplifier is not None
    source = "power_profile.xml of five phones (measurements/README.md)"
    for level, phones in measurements.groups(measurements.table("modem-transmit"), "tx_dbm"):
        watts = phones["above_receive_w"]
        range_w = f"{number(watts.min())} to {number(watts.max())} W"
        what, model_w = f"{level:g} dBm, five phones from {range_w}", amplifier_w(amplifier, level)
        checks.append(Check(what, "fit", watts.median(), model_w, "W", source))
    return checks


def wifi_rows() -> list[tuple[float, float, float, float]]:
    """Return rows: Mbit/s up, watts of a phone of 2012, of the model, without a duty cycle."""
    device = load_device(_WIFI_PHONE)
    assert device.wifi is not None
    radio = wifi_radio(device)
    rows = []
    for rate in (0.015, 0.15, 1.0, 5.0, 20.0, 60.0):
        model_w = float(power_w(radio, "up", np.array([rate]))[0])
        measured_w = _CONNECTED_2012_W + _UP_2012 * rate / MS_PER_S
        rows.append((rate, measured_w, model_w, device.wifi.transmit_w))
    return rows


def round_trip_checks() -> list[Check]:
    """Return medians of two campaigns beside the round-trip times of the radio files."""
    return [
        Check(
            f"`{row.radio}`, {row.low_s * MS_PER_S:.0f} to {row.high_s * MS_PER_S:.0f} ms",
            "fit" if row.campaign == "speedtest" or row.radio == "3g" else "prediction",
            row.rtt_s * MS_PER_S,
            load_radio(row.radio).rtt_s * MS_PER_S,
            "ms",
            _CAMPAIGNS[row.campaign],
        )
        for row in measurements.rows(measurements.table("latency"))
    ]


def cap_rows() -> list[tuple[str, ...]]:
    """Return rates of downloads in cars and trains, beside the highest rate of each radio file."""
    rows = measurements.rows(measurements.table("fastest-samples"))
    return [
        (
            *(f"`{radio}`", _CAMPAIGNS[campaign], str(num), *map(number, rates)),
            number(load_radio(radio).max_down_bit_per_s / BIT_PER_MBIT),
        )
        for radio, *rates, num, campaign in rows
    ]


def section() -> Section:
    """Return the section."""
    lines, walk, weak = power_lines(), walk_checks(), weak_signal_check()
    modem, trips, wifi = modem_checks(), round_trip_checks(), wifi_rows()
    num_points = sum(line.measured_w.size for line in lines)
    radio_error = float(np.mean([line.radio_error for line in lines]))
    phone_error = float(np.mean([line.phone_error for line in lines]))
    wifi_errors = [(rate, model / measured - 1.0) for rate, measured, model, _ in wifi]
    wifi_cells = [
        (
            *(number(rate), f"{number(measured)} W"),
            *(f"{number(model)} W", percent(model / measured - 1.0)),
            *(f"{number(before)} W", percent(before / measured - 1.0)),
        )
        for rate, measured, model, before in wifi
    ]
    text = f"""\
### Power by rate
Base and slope of `lte`, `nr-low` and `nr-mmwave` are lines through these same points, so their errors
are those of a line. Each point is the mean over all seconds in which this many Mbit/s were
requested; {number(_SCREEN_W)} W of it is the screen, which hides the radio's error in the phone's.

{table(_LINE_HEAD, [line.cells() for line in lines])}

Nothing was fitted to the walk with mmWave 5G. At a medium rate on the downlink, and with a weak
signal on the uplink, a phone draws more than the line: a weak signal costs more energy per bit. With
a strong signal it draws less than the line. The last row has the amplifier at its maximum, 23 dBm,
as in scenarios with a link budget.

{Check.table([*walk, weak])}

### Transmit power
The efficiency at 23 dBm and the exponent 0.36 are fits to these medians. The phones differ by more
than a factor of two.

{Check.table(modem)}

### Wi-Fi
A Pixel 6 that sends over Wi-Fi, beside the law of a phone of 2012 (Huang et al., MobiSys'12), which
includes the processor's work and was measured at rates of that time, and beside the model without a
duty cycle ("before"). At low rates only the connection draws power, and the model matches it. At
higher rates it falls below the law of 2012; from about 3 Mbit/s on it is **further from it than
before**. No measurement of a recent phone by rate was found.

{table(_WIFI_HEAD, wifi_cells)}

### Round trips and fastest rates
Medians, with the percentiles 10 and 90; the model has one figure for all. The distance of the
servers decides: those of the Speedtests were 1500 km away in the median, that of the pings in
Ireland is not known. There is no measurement for Wi-Fi and cables.

{Check.table(trips)}

Mbit/s of samples during downloads, beside the highest rate that the radio file allows: at most one
sample in a hundred is faster.

{table(_CAP_HEAD, cap_rows())}
"""  # noqa: E501
    return Section(
        "Radios",
        text,
        (
            SummaryLine(
                "Radio power by rate, Galaxy S20 Ultra",
                "fit",
                num_points,
                f"mean error of the phone {percent(phone_error, signed=False)}, of the radio"
                f" {percent(radio_error, signed=False)}",
            ),
            SummaryLine.of("mmWave power on a walk", walk),
            SummaryLine.of("mmWave, weakest signal, at 23 dBm", [weak]),
            SummaryLine.of("Modems by transmit power", modem),
            SummaryLine(
                "Wi-Fi power by rate against 2012",
                "prediction",
                len(wifi),
                f"{percent(wifi_errors[0][1])} at {number(wifi_errors[0][0])} Mbit/s,"
                f" {percent(wifi_errors[-1][1])} at {number(wifi_errors[-1][0])}",
            ),
            SummaryLine.of("Round trips, own campaign", [t for t in trips if t.kind == "fit"]),
            SummaryLine.of(
                "Round trips, another campaign", [t for t in trips if t.kind == "prediction"]
            ),
        ),
    )
