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
from fleetsim.fleet.timeline import Timeline
from fleetsim.report.figures import style
from fleetsim.units import S_PER_HOUR, S_PER_MINUTE
from fleetsim.validation import measurements
from fleetsim.validation.tables import Check, Section, SummaryLine, number, percent, table

_T2 = ("t2.small", "t2.medium", "t2.large", "t2.xlarge")
_PHONES = ("pixel-3", "pixel-4", "pixel-6", "pixel-8", "redmi-note-10")
_PIXEL_3_GHZ = (1.9968, 1.6896, 1.3632, 1.056, 0.8256)
_PIXEL_3_FULL_GHZ = 2.6496
_COST = ModelCost({"conv": 1e9}, num_parameters=1, payload_byte=4)
_HEATER_W = 5.0
_HEAD = (
    *("phone", "training power", "at full clock for"),
    *("speed at first", "speed sustained", "from then on"),
)
_WORK_S = 3.0 * S_PER_HOUR
_AWS = (
    "awsdocs/amazon-ec2-user-guide@0147f87 `burstable-credits-baseline-concepts.md`, @1300242"
    " `burstable-performance-instances-standard-mode-concepts.md`"
)


def computation(device: str, **settings: object) -> Timeline:
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
    return fleet.computations(one, np.zeros(1), fresh, _COST, work, Batching(10**9)).row(0)


def speeds(timeline: Timeline) -> list[float]:
    """Return the share of full speed in each segment."""
    values: list[float] = (np.diff(timeline.progress) / np.diff(timeline.edges_s)).tolist()
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
                float(timeline.edges_s[1]) / S_PER_MINUTE, "min", "launch / (v (1 - b))",
            ),
            Check(
                f"{device}: speed afterwards over before", "exact",
                rules.per_hour / (S_PER_MINUTE * rules.num_vcpus),
                speeds(timeline)[1], "", "b = e / (60 v)",
            ),
        ]  # fmt: skip
    heat = _heat_checks()
    rows = []
    for phone in _PHONES:
        timeline = computation(phone, thermal={"kind": "skin"})
        speed = speeds(timeline)
        first, last = (percent(share, signed=False) for share in (speed[0], speed[-1]))
        until, since = "always", "0 s"
        if len(speed) > 1:
            until, since = (f"{number(float(timeline.edges_s[at]))} s" for at in (1, -2))
        train_w = number(load_device(phone).power.train_above_idle_w)
        rows.append((f"`{phone}`", f"{train_w} W", until, first, last, since))
    text = f"""\
**Credits.** {_AWS} publishes earnings, maxima and launch credits. The moment and the depth of the
fall in throughput of an instance at full load follow from them. The comparison is with these rules,
not with a measurement: AWS lowers an instance "gradually", by a rule that is not public, and **no
measured run of a t2 was found**.

{Check.table(credits)}

![Throughput of t2 instances at full load over three hours](validation/t2-credits.svg)

**Heat.** The caps are a Pixel 3's thermal configuration. Two figures, each fitted to one point,
give the speed and the extent of a skin's warming:

{Check.table(heat)}

Results for phones that train from rest in air of 25 C; not measured anywhere:

{table(_HEAD, rows)}
"""
    return Section(
        "Credits and heat",
        text,
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
def _figure(curves: dict[str, Timeline]) -> Figure:
    figure = style.new_figure(7.0, 3.6)
    axes = figure.subplots()
    styles = zip(style.fill_colors(len(curves)), ("-", "--", "-", "-"), strict=True)
    for (device, timeline), (color, dash) in zip(curves.items(), styles, strict=True):
        edges_min = timeline.edges_s / S_PER_MINUTE
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
