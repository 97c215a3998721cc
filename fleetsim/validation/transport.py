"""Transfers over TCP: one connection by round trip, seconds by size.

The transfer times were measured for this page: Linux's own TCP between two network namespaces,
joined by a link of a given delay and rate without losses (measurements/README.md).
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import load_radio
from fleetsim.fleet.network.channel import build_channel
from fleetsim.fleet.network.channels import ConstantSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.radio_power import RadioPower
from fleetsim.fleet.network.transport import TcpSettings
from fleetsim.report.figures import style
from fleetsim.units import BIT_PER_BYTE, BIT_PER_MBIT, MS_PER_S
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, filled, percent

_PAYLOAD = 1448.0 / 1500.0
"""Payload of a packet of 1500 bytes, with TCP's timestamps."""
_NO_TLS = TcpSettings(handshake_round_trips=1.0)
_BYTE_PER_MB = 1e6


def model_s(rtt_s: FloatArray, bit_per_s: FloatArray, size_byte: FloatArray) -> FloatArray:
    """Return seconds of the model from opening a connection without TLS to the last byte [n]."""
    size, end_s = rtt_s.size, np.empty(rtt_s.size)
    channel = build_channel(
        ConstantSettings(down_bit_per_s=1.0, up_bit_per_s=1.0),
        seed=0,
        size=size,
        wired_bit_per_s=_PAYLOAD * bit_per_s,
    )
    for rows, timelines in channel.transfers(
        np.arange(size),
        Direction.DOWN,
        np.zeros(size),
        BIT_PER_BYTE * size_byte,
        RadioPower.line(*np.zeros((2, size))),
        caps=_NO_TLS.rate_caps(rtt_s),
    ):
        end_s[rows] = timelines.end_s
    return end_s


def transfers() -> pd.DataFrame:
    """Return the measured transfers over links of a constant rate and delay, and the model's.

    Rates of the links include headers. `cubic_s` and `bbr_s` were measured, `model_s` is the model,
    `plain_s` the time at the rate of the link from the first moment.
    """
    data = measurements.table("tcp-transfers")
    rtt_s, bit_per_s = data["rtt_ms"] / MS_PER_S, data["mbit_per_s"] * BIT_PER_MBIT
    return data.assign(
        rtt_s=rtt_s,
        bit_per_s=bit_per_s,
        model_s=model_s(rtt_s.to_numpy(), bit_per_s.to_numpy(), data["size_byte"].to_numpy()),
        plain_s=BIT_PER_BYTE * data["size_byte"] / (_PAYLOAD * bit_per_s),
    )


def one_connection_checks() -> list[Check]:
    """Return downloads over one connection on mmWave, which the receive window limits."""
    window_mbit = TcpSettings().receive_window_byte * BIT_PER_BYTE / BIT_PER_MBIT
    most_mbit = load_radio("nr-mmwave").max_down_bit_per_s / BIT_PER_MBIT
    return [
        Check(
            f"round trip of {row.rtt_s * MS_PER_S:.0f} ms, {row.num} tests",
            "fit",
            row.mbit_per_s,
            min(window_mbit / row.rtt_s, most_mbit),
            "Mbit/s",
            "SIGCOMM21-5G/artifact@35aaf28, Speedtests",
        )
        for row in measurements.rows(measurements.table("one-connection"))
    ]


def section() -> Section:
    """Return the section."""
    window, measured = one_connection_checks(), transfers()
    errors = [
        percent((measured[model] / measured[seconds] - 1.0).abs().mean(), signed=False)
        for model, seconds in (("model_s", "cubic_s"), ("model_s", "bbr_s"), ("plain_s", "cubic_s"))
    ]
    return Section(
        "Transport",
        filled("transport", window=window, transfers=measurements.rows(measured)),
        (
            SummaryLine.of("One connection by round trip", window),
            SummaryLine(
                "Transfer times over Linux TCP",
                "prediction",
                2 * len(measured),
                f"mean error {errors[0]} (cubic), {errors[1]} (BBR); of the rate alone {errors[2]}",
            ),
        ),
        {"transfer-times": _figure(measured)},
    )


@style.house_style()
def _figure(measured: pd.DataFrame) -> Figure:
    figure = style.new_figure(7.0, 3.8)
    axes = figure.subplots()
    size_byte = np.asarray(np.geomspace(1e4, 2e7, 200))
    colours = (style.BLUE, style.VERMILLION, style.GREEN, style.BLACK)
    by_link = measurements.groups(measured, "rtt_s", "bit_per_s")
    for colour, ((rtt_s, bit_per_s), of_link) in zip(colours, by_link, strict=True):
        seconds = model_s(np.full(200, rtt_s), np.full(200, bit_per_s), size_byte)
        label = f"{rtt_s * MS_PER_S:.0f} ms, {bit_per_s / BIT_PER_MBIT:g} Mbit/s"
        axes.plot(size_byte / _BYTE_PER_MB, seconds, color=colour, label=label)
        size_mb = of_link["size_byte"] / _BYTE_PER_MB
        axes.plot(size_mb, of_link["cubic_s"], "o", color=colour)
    axes.set(xlabel="size in MB", ylabel="seconds", xscale="log", yscale="log")
    axes.legend(title="line: model, dots: measured (cubic)", loc="upper left", fontsize=8)
    return figure
