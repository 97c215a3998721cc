"""Radios: power by rate and by transmit power, Wi-Fi, round trips.

Power of a phone is the model's radio plus its screen; that of a walk is given without it.
"""

from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import RadioProfile, load_device, load_radio, wifi_radio
from fleetsim.fleet.network.radio_power import amplifier_w, with_tx_power
from fleetsim.units import BIT_PER_MBIT, MS_PER_S
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, filled, number, percent

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
_WIFI_RATES = (0.015, 0.15, 1.0, 5.0, 20.0, 60.0)
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

    @property
    def correlation(self) -> float:
        """Correlation of the model's power with the measured one."""
        return float(np.corrcoef(self.measured_w, self.model_w)[0, 1])


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


def wifi_powers() -> tuple[list[tuple[float, float, float]], float]:
    """Return rows of Mbit/s up, watts of a phone of 2012 and of the model; watts when busy."""
    device = load_device(_WIFI_PHONE)
    assert device.wifi is not None
    rates = np.array(_WIFI_RATES)
    measured_w = _CONNECTED_2012_W + _UP_2012 * rates / MS_PER_S
    model_w = power_w(wifi_radio(device), "up", rates)
    rows = zip(_WIFI_RATES, measured_w.tolist(), model_w.tolist(), strict=True)
    return list(rows), device.wifi.transmit_w


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


def section() -> Section:
    """Return the section."""
    lines, walk, weak = power_lines(), walk_checks(), weak_signal_check()
    modem, trips = modem_checks(), round_trip_checks()
    wifi, before_w = wifi_powers()
    wifi_errors = [f"{percent(m / w - 1.0)} at {number(r)}" for r, w, m in (wifi[0], wifi[-1])]
    phone_error, radio_error = (
        percent(float(np.mean(errors)), signed=False)
        for errors in zip(*((line.phone_error, line.radio_error) for line in lines), strict=True)
    )
    text = filled(
        "radio",
        screen_w=_SCREEN_W,
        lines=lines,
        walk=walk,
        weak=weak,
        modem=modem,
        wifi=wifi,
        before_w=before_w,
        trips=trips,
        campaigns=_CAMPAIGNS,
        fastest_samples=[
            (load_radio(row.radio).max_down_bit_per_s / BIT_PER_MBIT, *row)
            for row in measurements.rows(measurements.table("fastest-samples"))
        ],
    )
    return Section(
        "Radios",
        text,
        (
            SummaryLine(
                "Radio power by rate, Galaxy S20 Ultra",
                "fit",
                sum(line.measured_w.size for line in lines),
                f"mean error of the phone {phone_error}, of the radio {radio_error}",
            ),
            SummaryLine.of("mmWave power on a walk", walk),
            SummaryLine.of("mmWave, weakest signal, at 23 dBm", [weak]),
            SummaryLine.of("Modems by transmit power", modem),
            SummaryLine(
                "Wi-Fi power by rate against 2012",
                "prediction",
                len(wifi),
                " Mbit/s, ".join(wifi_errors),
            ),
            SummaryLine.of("Round trips, own campaign", [t for t in trips if t.kind == "fit"]),
            SummaryLine.of(
                "Round trips, another campaign", [t for t in trips if t.kind == "prediction"]
            ),
        ),
    )
