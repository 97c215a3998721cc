"""Transfers over TCP: one connection by round trip, seconds by size.

The transfer times were measured for this page: Linux's own TCP between two network namespaces,
joined by a link of a given delay and rate without losses (measurements/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from fleetsim.contracts import FloatArray
from fleetsim.fleet.devices.profile import load_radio
from fleetsim.fleet.network.transport import TcpSettings, transfer_s
from fleetsim.report.figures import style
from fleetsim.units import BIT_PER_BYTE, BIT_PER_MBIT, MS_PER_S
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

_PAYLOAD = 1448.0 / 1500.0
"""Payload of a packet of 1500 bytes, with TCP's timestamps."""
_NO_TLS = TcpSettings(handshake_round_trips=1.0)
_BYTE_PER_MB = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Transfers over links of a constant rate and delay; all arrays [n]."""

    rtt_s: FloatArray
    bit_per_s: FloatArray
    """Rate of the link, headers included."""
    size_byte: FloatArray
    cubic_s: FloatArray
    """Measured seconds, with cubic."""
    bbr_s: FloatArray
    """Measured seconds, with BBR."""

    @property
    def said_s(self) -> FloatArray:
        """Seconds of the model."""
        return said_s(self.rtt_s, self.bit_per_s, self.size_byte)

    @property
    def plain_s(self) -> FloatArray:
        """Seconds at the rate of the link from the first moment."""
        return BIT_PER_BYTE * self.size_byte / (_PAYLOAD * self.bit_per_s)


def said_s(rtt_s: FloatArray, bit_per_s: FloatArray, size_byte: FloatArray) -> FloatArray:
    """Return seconds of the model from opening a connection without TLS to the last byte [n]."""
    return transfer_s(_NO_TLS, rtt_s, BIT_PER_BYTE * size_byte, _PAYLOAD * bit_per_s)


def transfers() -> Transfers:
    """Return the measured transfers."""
    data = measurements.radio_table("tcp-transfers")
    return Transfers(
        rtt_s=data.numbers("rtt_ms") / MS_PER_S,
        bit_per_s=data.numbers("mbit_per_s") * BIT_PER_MBIT,
        size_byte=data.numbers("size_byte"),
        cubic_s=data.numbers("cubic_s"),
        bbr_s=data.numbers("bbr_s"),
    )


def one_connection_checks() -> list[Check]:
    """Return downloads over one connection on mmWave, which the receive window limits."""
    data, settings = measurements.radio_table("one-connection"), TcpSettings()
    window_mbit = settings.receive_window_byte * BIT_PER_BYTE / BIT_PER_MBIT
    most_mbit = load_radio("nr-mmwave").max_down_bit_per_s / BIT_PER_MBIT
    return [
        Check(
            f"round trip of {rtt_s * MS_PER_S:.0f} ms, {num} tests",
            "fit",
            measured,
            float(min(window_mbit / rtt_s, most_mbit)),
            "Mbit/s",
            "SIGCOMM21-5G/artifact@35aaf28, Speedtests",
        )
        for rtt_s, measured, num in zip(
            data.numbers("rtt_s").tolist(),
            data.numbers("mbit_per_s").tolist(),
            data.columns["num"],
            strict=True,
        )
    ]


def section() -> Section:
    """Return the section."""
    window, measured = one_connection_checks(), transfers()
    said, plain = measured.said_s, measured.plain_s
    errors = [
        percent(float(np.mean(np.abs(model_s / seconds - 1.0))), signed=False)
        for model_s, seconds in (
            (said, measured.cubic_s),
            (said, measured.bbr_s),
            (plain, measured.cubic_s),
        )
    ]
    rows = [
        (
            f"{measured.rtt_s[row] * MS_PER_S:.0f} ms",
            f"{measured.bit_per_s[row] / BIT_PER_MBIT:g} Mbit/s",
            f"{measured.size_byte[row]:,.0f}",
            f"{number(measured.cubic_s[row])} s",
            f"{number(measured.bbr_s[row])} s",
            f"{number(said[row])} s",
            percent(said[row] / measured.cubic_s[row] - 1.0),
            percent(said[row] / measured.bbr_s[row] - 1.0),
            f"{number(plain[row])} s",
            percent(plain[row] / measured.cubic_s[row] - 1.0),
        )
        for row in range(said.size)
    ]
    head = (
        "round trip", "link", "bytes", "cubic", "BBR", "model", "error to cubic", "error to BBR",
        "rate alone", "its error to cubic",
    )  # fmt: skip
    text = f"""\
### One connection
Downloads over one connection on mmWave 5G. The receive window of 8 MiB is fitted to them; the fall
of their rate with one over the round trip is not.

{checks_table(window)}

### Transfer times
A connection, a request and an answer of this size over Linux's own TCP (6.18, cubic and BBR),
medians of seven. The model's rate is that of the link's packets less their headers. "Rate alone" is
the model with `transport: {{kind: none}}`, which has no round trips.

{table(head, rows)}

![Seconds of transfers over TCP by size, measured and model](validation/transfer-times.svg)
"""
    return Section(
        "Transport",
        text,
        (
            Verdict("One connection by round trip", "fit", len(window), errors_say(window)),
            Verdict(
                "Transfer times over Linux TCP",
                "prediction",
                2 * said.size,
                f"mean error {errors[0]} (cubic), {errors[1]} (BBR); of the rate alone {errors[2]}",
            ),
        ),
        {"transfer-times": _figure(measured)},
    )


@style.house_style()
def _figure(measured: Transfers) -> Figure:
    figure = style.new_figure(7.0, 3.8)
    axes = figure.subplots()
    links = np.unique(np.stack([measured.rtt_s, measured.bit_per_s]), axis=1).T
    size_byte = np.geomspace(1e4, 2e7, 200)
    colours = (style.BLUE, style.VERMILLION, style.GREEN, style.BLACK)
    for colour, (rtt_s, bit_per_s) in zip(colours, links, strict=True):
        seconds = said_s(np.full(200, rtt_s), np.full(200, bit_per_s), np.asarray(size_byte))
        label = f"{rtt_s * MS_PER_S:.0f} ms, {bit_per_s / BIT_PER_MBIT:g} Mbit/s"
        axes.plot(size_byte / _BYTE_PER_MB, seconds, color=colour, label=label)
        is_link = (measured.rtt_s == rtt_s) & (measured.bit_per_s == bit_per_s)
        axes.plot(
            measured.size_byte[is_link] / _BYTE_PER_MB, measured.cubic_s[is_link], "o",
            color=colour,
        )  # fmt: skip
    axes.set(xlabel="size in MB", ylabel="seconds", xscale="log", yscale="log")
    axes.legend(title="line: model, dots: measured (cubic)", loc="upper left", fontsize=8)
    return figure
