"""Slowdown of devices by CPU credits (t2 instances) and heat (phones)."""

import math

import numpy as np
from matplotlib.figure import Figure

from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices.credits import CreditProfile
from fleetsim.fleet.devices.profile import load_device
from fleetsim.fleet.devices.thermal import (
    PIXEL_3,
    Heater,
    SkinProfile,
    Skins,
    SkinSettings,
    skins_of,
)
from fleetsim.fleet.population import build_fleet
from fleetsim.fleet.settings import FleetSettings
from fleetsim.fleet.timeline import Timelines
from fleetsim.report.figures import style
from fleetsim.units import S_PER_HOUR, S_PER_MINUTE
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, filled

_T2 = ("t2.small", "t2.medium", "t2.large", "t2.xlarge")
_PHONES = ("pixel-3", "pixel-4", "pixel-6", "pixel-8", "redmi-note-10")
_PIXEL_3_GHZ = (1.9968, 1.6896, 1.3632, 1.056, 0.8256)
_PIXEL_3_FULL_GHZ = 2.6496
_COST = ModelCost({"conv": 1e9}, num_parameters=1, payload_byte=4)
_HEATER_W = 5.0
_WORK_S = 3.0 * S_PER_HOUR


def computation(device: str, **settings: object) -> Timelines:
    """Return a computation of `_WORK_S` at full speed, by a fresh device from virtual time 0 on."""
    compute = load_device(device).compute
    sample_s = 3.0 * _COST.forward_flop["conv"] / compute.conv_flop_per_s
    data = {"size": 1, "devices": {device: 1.0}, **settings}
    fleet = build_fleet(
        FleetSettings.model_validate(data),
        seed=1,
        num_samples=np.array([math.ceil(_WORK_S / sample_s)]),
    )
    one, work = np.zeros(1, dtype=np.int64), Work(WorkKind.TRAIN, epochs=1)
    fresh = fleet.throttle.initial()
    return fleet.computations(one, np.zeros(1), fresh, _COST, work, Batching(10**9))


def speeds(timeline: Timelines) -> list[float]:
    """Return the share of full speed in each segment."""
    values: list[float] = (np.diff(timeline.progress[0]) / np.diff(timeline.edges_s[0])).tolist()
    return values


def section() -> Section:
    """Return the section: credits and heat against published figures."""
    credits, curves = [], {}
    for device in _T2:
        rules = load_device(device).credits
        assert isinstance(rules, CreditProfile)
        timeline = computation(device)
        curves[device] = timeline
        # launch credits, in vCPU-minutes, spent by all vCPUs and earned back at the baseline
        lasts_min = rules.launch / (rules.num_vcpus * (1.0 - rules.baseline_fraction))
        credits += [
            Check(
                f"{device}: full speed lasts", "exact", lasts_min,
                float(timeline.edges_s[0, 1]) / S_PER_MINUTE, "min", "launch / (v (1 - b))",
            ),
            Check(
                f"{device}: speed afterwards over before", "exact",
                rules.per_hour / (S_PER_MINUTE * rules.num_vcpus),
                speeds(timeline)[1], "", "b = e / (60 v)",
            ),
        ]  # fmt: skip
    heat, phones = _heat_checks(), []
    for name in _PHONES:
        timeline = computation(name, thermal={"kind": "skin"})
        phones.append((load_device(name), timeline.edges_s[0], speeds(timeline)))
    return Section(
        "Credits and heat",
        filled("slowdown", credits=credits, heat=heat, phones=phones),
        (
            SummaryLine.of("t2 credits, minute and depth of the fall", credits),
            SummaryLine.of("Skin temperature, two points", heat[:2]),
            SummaryLine.of("Caps of a Pixel 3", heat[2:]),
        ),
        {"t2-credits": _figure(curves)},
    )


def _heat_checks() -> list[Check]:
    known, use = measurements.numbers(), np.ones(1)
    skins = _skins(PIXEL_3)
    # a phone that caps nothing until 40 C, warmed from 26 C; one that must not pass 42 C
    warms_s = float(_skins(_one_cap(40.0)).step(np.array([26.0]), use, 1.0).hold_s[0])
    held = float(_skins(_one_cap(42.0)).step(np.array([42.0]), use, 1.0).power[0])
    source, caps = "LineageOS/android_device_google_crosshatch@f9e0ef6", []
    for threshold_c, ghz in zip(PIXEL_3.threshold_c, _PIXEL_3_GHZ, strict=True):
        speed = float(skins.step(np.array([threshold_c + 1e-6]), use, 1.0).speed[0])
        what = f"clock of a Pixel 3's big cores just above {threshold_c:g} C"
        caps.append(Check(what, "exact", ghz, speed * _PIXEL_3_FULL_GHZ, "GHz", source))
    return [
        known["nexus5_encode_s"].check(
            "5 W (assumed) take the skin from 26 to 40 C", "fit", warms_s
        ),
        known["pixel7_budget_w"].check(
            "power that holds 42 C in air of 25 C", "fit", held * _HEATER_W
        ),
        *caps,
    ]


def _skins(skin: SkinProfile) -> Skins:
    """Return one phone that draws 0 W at rest and 5 W at work, in a scenario's default air."""
    skins = skins_of(SkinSettings(), [Heater(skin, 0.0, _HEATER_W)])
    assert skins is not None
    return skins


def _one_cap(threshold_c: float) -> SkinProfile:
    return SkinProfile(threshold_c=(threshold_c,), clock_fraction=(0.01,))


@style.house_style()
def _figure(curves: dict[str, Timelines]) -> Figure:
    figure = style.new_figure(7.0, 3.6)
    axes = figure.subplots()
    styles = zip(style.fill_colors(len(curves)), ("-", "--", "-", "-"), strict=True)
    for (device, timeline), (color, dash) in zip(curves.items(), styles, strict=True):
        edges_min = timeline.edges_s[0] / S_PER_MINUTE
        speed = speeds(timeline)
        axes.step(
            edges_min, [*speed, speed[-1]], where="post", color=color, linestyle=dash, label=device
        )
    axes.set(xlabel="minutes after launch", ylabel="throughput over full")
    axes.set_xlim(0.0, _WORK_S / S_PER_MINUTE)
    axes.set_ylim(0.0, 1.08)
    style.in_percent(axes, "y")
    axes.legend()
    return figure
