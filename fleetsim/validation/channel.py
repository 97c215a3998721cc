"""Fading channel, against closed forms and integrals over the densities of its laws.

With gain g of mean 1: rayleigh has density exp(-g); rician (K + 1) exp(-K - (K + 1) g)
I0(2 sqrt(K (K + 1) g)) and variance (1 + 2 K) / (1 + K)^2; nakagami m^m g^(m - 1) exp(-m g) /
Gamma(m) and variance 1 / m. At a mean ratio `snr` the outage below rho bit/s/Hz is
Pr[g < (2^rho - 1) / snr], the ergodic rate E[log2(1 + g snr)]; under rayleigh they are
1 - exp(-(2^rho - 1) / snr) and exp(1 / snr) E1(1 / snr) / ln 2.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import integrate, special, stats

from fleetsim.contracts import FloatArray
from fleetsim.fleet.network.channel import Channel, build_channel
from fleetsim.fleet.network.channels import CalibratedSettings, FadingSettings, NormalisedSettings
from fleetsim.fleet.network.channels.blocks import BlockSettings
from fleetsim.fleet.network.direction import Direction
from fleetsim.fleet.network.wireless.cell import Cell
from fleetsim.fleet.network.wireless.rate import nr_64qam
from fleetsim.report.figures import style
from fleetsim.units import BIT_PER_MBIT, db_to_ratio, ratio_to_db
from fleetsim.validation.tables import Check, Estimate, Section, SummaryLine, Z, filled

NUM_BLOCKS = 200_000
_SEED = 20_261_122
_BANDWIDTH_HZ = 1e6
_SNR_DB = 5.0
_RHO = 1.0
_LAGS = (1, 2, 5, 10)
_UP, _DOWN = Direction.UP, Direction.DOWN
_FIRST = np.zeros(1, dtype=np.int64)
_RHOS = np.arange(0.1, 4.001, 0.05)
_DISTANCES_M = (50.0, 100.0, 250.0, 500.0, 707.0, 1000.0)


@dataclass(frozen=True, slots=True)
class FadingLaw:
    """Law of fading and its parameter."""

    name: str
    parameter: float = 1.0

    @property
    def title(self) -> str:
        """Name and parameter, for tables and figures."""
        letter = {"rician": "K", "nakagami": "m"}.get(self.name)
        return self.name if letter is None else f"{self.name}, {letter} = {self.parameter:g}"

    @property
    def gain(self) -> Any:
        """Distribution of the gain, of `scipy.stats`."""
        if self.name == "rician":
            k = self.parameter
            return stats.ncx2(2, 2.0 * k, scale=0.5 / (k + 1.0))
        return stats.gamma(self.parameter, scale=1.0 / self.parameter)

    @property
    def variance(self) -> float:
        """Variance of the gain."""
        return float(self.gain.var())

    def mean_of(self, value: Callable[[float], float], until: float = 150.0) -> float:
        """Integrate value(g) density(g) up to a gain; over sqrt(g), which is smooth at 0."""
        density = self.gain.pdf
        knots = [root for root in (0.5, 1.0, 2.0, 4.0) if root**2 < until]
        integral, _ = integrate.quad(
            lambda root: value(root**2) * density(root**2) * 2.0 * root,
            1e-150, math.sqrt(until), points=knots or None, limit=200,
            epsabs=1e-11, epsrel=1e-10,
        )  # fmt: skip
        return float(integral)

    def cdf(self, gain: FloatArray) -> FloatArray:
        """Distribution function of the gain."""
        return np.asarray(self.gain.cdf(gain))

    def keys(self) -> dict[str, Any]:
        """Return the keys of a scenario's channel with this law."""
        extra = {"rician": "rician_k", "nakagami": "nakagami_m"}.get(self.name)
        return {"fading": self.name} | ({} if extra is None else {extra: self.parameter})


LAWS = (
    FadingLaw("rayleigh"),
    FadingLaw("rician", 3.0),
    FadingLaw("rician", 10.0),
    FadingLaw("nakagami", 0.5),
    FadingLaw("nakagami", 3.0),
)


def gains_of(law: FadingLaw, direction: Direction = _UP) -> FloatArray:
    """Return gains of one client in consecutive blocks [NUM_BLOCKS]."""
    gains: FloatArray = _cell(law).fading.gains(_FIRST, direction, _FIRST, NUM_BLOCKS)[0]
    return gains


def estimates(law: FadingLaw) -> list[Estimate]:
    """Return moments, outage, ergodic rate and correlations of a law, simulated and exact."""
    snr, gains = db_to_ratio(_SNR_DB), gains_of(law)
    fourth = law.mean_of(lambda gain: (gain - 1.0) ** 4)
    outage = law.mean_of(lambda gain: 1.0, until=(2.0**_RHO - 1.0) / snr)
    rate = law.mean_of(partial(_rate_at, snr))
    square = law.mean_of(lambda gain: _rate_at(snr, gain) ** 2)
    variance = law.variance
    rates = _rates(law)
    is_out = _rates(law, outage_bit_per_s_per_hz=_RHO) == 0.0
    steps = nr_64qam(0.0, math.inf, 1.0)
    above = 1.0 - law.cdf(steps.least_snr / snr)
    by_step, square_by_step = (
        float(np.diff(steps.bit_per_s_per_hz**power, prepend=0.0) @ above) for power in (1, 2)
    )
    stepped = _rates(law, _DOWN, rate="nr-64qam", overhead_fraction=0.0)
    standard = (gains - 1.0) / math.sqrt(variance)
    other = (gains_of(law, Direction.DOWN) - 1.0) / math.sqrt(variance)
    return [
        Estimate.mean("mean gain", 1.0, gains, variance),
        Estimate.mean("variance of the gain", variance, (gains - 1.0) ** 2, fourth - variance**2),
        Estimate.mean(
            f"outage below {_RHO:g} bit/s/Hz at {_SNR_DB:g} dB",
            outage, is_out.astype(np.float64), outage * (1.0 - outage),
        ),
        Estimate.mean(f"ergodic rate at {_SNR_DB:g} dB, bit/s/Hz", rate, rates, square - rate**2),
        Estimate.mean(
            f"mean rate of nr-64qam down at {_SNR_DB:g} dB, bit/s/Hz",
            by_step, stepped, square_by_step - by_step**2,
        ),
        *(
            Estimate.mean(f"autocorrelation at lag {lag}", 0.0,
                      standard[lag:] * standard[:-lag], 1.0)
            for lag in _LAGS
        ),
        Estimate.mean("correlation of up and down", 0.0, standard * other, 1.0),
    ]  # fmt: skip


def section() -> Section:
    """Return the section: all laws, closed forms of Rayleigh fading, link budget by distance."""
    by_law, budget = {law: estimates(law) for law in LAWS}, _budget()
    closed, normalised = _rayleigh_checks(), _normalised()
    text = filled(
        "channel",
        num_blocks=NUM_BLOCKS,
        z=Z,
        by_law=by_law,
        closed=closed,
        normalised=normalised,
        budget=budget,
    )
    everything = [*itertools.chain(*by_law.values()), *normalised]
    by_hand = [check for *_, snr, rate, calibrated in budget for check in (snr, rate, calibrated)]
    return Section(
        "Fading channel",
        text,
        (
            SummaryLine.inside("Fading laws: moments, outage, rate, correlation", everything),
            SummaryLine.of("Link budget by distance", by_hand),
        ),
        {"fading": _figure()},
    )


def _cell(law: FadingLaw, **keys: Any) -> Cell:
    settings = NormalisedSettings.model_validate(
        {"kind": "normalised", "mean_snr_db": _SNR_DB, "bandwidth_hz": _BANDWIDTH_HZ}
        | law.keys()
        | keys
    )
    cell = _channel_of(settings).cell
    assert cell is not None
    return cell


def _channel_of(settings: BlockSettings) -> Channel:
    return build_channel(settings, seed=_SEED, size=1, wired_bit_per_s=np.full(1, np.nan))


def _rates(law: FadingLaw, direction: Direction = _UP, **keys: Any) -> FloatArray:
    """Return rates per hertz of consecutive blocks."""
    rates: FloatArray = _cell(law, **keys).rates_bit_per_s(_FIRST, direction, _FIRST, NUM_BLOCKS)[0]
    rates /= _BANDWIDTH_HZ
    return rates


def _rayleigh_checks() -> list[Check]:
    rayleigh, checks = LAWS[0], []
    for snr_db in (-5.0, 5.0, 20.0):
        snr = db_to_ratio(snr_db)
        outage = rayleigh.mean_of(lambda gain: 1.0, until=1.0 / snr)
        for what, by_hand, integral in (
            ("rate", _ergodic_rate(snr), rayleigh.mean_of(partial(_rate_at, snr))),
            ("outage", 1.0 - math.exp(-1.0 / snr), outage),
        ):
            checks.append(Check(f"{what} at {snr_db:g} dB", "exact", by_hand, integral, "", ""))
    return checks


def _rate_at(snr: float, gain: float) -> float:
    return math.log2(1.0 + gain * snr)


def _ergodic_rate(snr: float) -> float:
    """Return the mean rate per hertz under Rayleigh fading."""
    return math.exp(1.0 / snr) * float(special.exp1(1.0 / snr)) / math.log(2.0)


def _normalised() -> list[Estimate]:
    """Return outage and mean rate at 20 dB."""
    rayleigh, snr = LAWS[0], 100.0
    rates = _rates(rayleigh, mean_snr_db=20.0)
    outages = []
    for rho in (0.5, 1.0, 2.0, 4.0):
        share = 1.0 - math.exp(-(2.0**rho - 1.0) / snr)
        is_out = (rates < rho).astype(np.float64)
        outages.append(Estimate.mean(f"outage below {rho:g}", share, is_out, share * (1.0 - share)))
    mean, square = _ergodic_rate(snr), rayleigh.mean_of(lambda gain: _rate_at(snr, gain) ** 2)
    return [*outages, Estimate.mean("mean rate", mean, rates, square - mean**2)]


def _budget() -> list[tuple[float, float, float, Check, Check, Check]]:
    """Return distance in m, loss in dB, outage, and signal, rate and signal of `calibrated`."""
    rows = []
    for distance_m in _DISTANCES_M:
        place = {"min_distance_m": distance_m, "cell_radius_m": distance_m, "fading": "none"}
        budget = _channel_of(
            FadingSettings.model_validate(
                {"tx_power_dbm": 20.0, "bandwidth_hz": _BANDWIDTH_HZ, **place}
            )
        )
        calibrated = _channel_of(CalibratedSettings.model_validate({"kind": "calibrated", **place}))
        loss_db = 128.1 + 37.6 * math.log10(distance_m / 1000.0)
        snr_db = 20.0 - loss_db + 174.0 - 10.0 * math.log10(_BANDWIDTH_HZ)
        snr, calibrated_db = budget.mean_snr(0, _UP), ratio_to_db(calibrated.mean_snr(0, _UP))
        calibrated_by_hand_db = 20.0 - 37.6 * math.log10(distance_m / 500.0)
        mbit_per_s = budget.rate_at(0, _UP, 0.0) / BIT_PER_MBIT
        by_hand = _BANDWIDTH_HZ * math.log2(1.0 + 10.0 ** (snr_db / 10.0)) / BIT_PER_MBIT
        rows.append(
            (
                *(distance_m, loss_db, 1.0 - math.exp(-1.0 / snr)),
                Check("snr", "exact", snr_db, ratio_to_db(snr), "dB", "by hand"),
                Check("rate", "exact", by_hand, mbit_per_s, "Mbit/s", "by hand"),
                Check("calibrated", "exact", calibrated_by_hand_db, calibrated_db, "dB", "by hand"),
            )
        )
    return rows


@style.house_style()
def _figure() -> Figure:
    figure = style.new_figure(style.WIDTH_IN, 4.2)
    left, right = figure.subplots(1, 2)
    gain_axis = np.linspace(1e-3, 4.0, 200)
    snr = db_to_ratio(_SNR_DB)
    for law, color in zip(LAWS, style.fill_colors(len(LAWS)), strict=True):
        gains = np.sort(gains_of(law))
        left.plot(gain_axis, law.cdf(gain_axis), color=color, label=f"{law.title}, theory")
        shares = np.arange(0.05, 1.0, 0.1)
        at = np.quantile(gains, shares)
        seen = at < gain_axis[-1]
        left.plot(at[seen], shares[seen], "o", color=color, markersize=3.5)
        thresholds = (2.0**_RHOS - 1.0) / snr
        right.plot(_RHOS, law.cdf(thresholds), color=color)
        shares_out = np.searchsorted(gains, thresholds) / gains.size
        right.plot(_RHOS[3::8], shares_out[3::8], "o", color=color, markersize=3.5)
    left.plot([], [], "o", color=style.BLACK, markersize=3.5, label="simulator")
    left.set(xlabel="power gain of a block", ylabel="share of the blocks below", xlim=(0.0, 4.0))
    right.set(
        xlabel="required rate, bit/s/Hz", ylabel=f"outage at {_SNR_DB:g} dB", yscale="log",
        ylim=(1e-4, 1.2),
    )  # fmt: skip
    right.yaxis.set_major_formatter("{x:g}")
    style.legend_below(figure, left)
    return figure
