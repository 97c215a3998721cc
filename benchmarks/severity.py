"""Table and figure of the effect of severity on rounds: means stay, tails grow.

    python benchmarks/severity.py [--rounds 300]

Runs one fleet without training at several severities of availability, of speed, of bandwidth and of
all three together. Rewrites the table of docs/models/heterogeneity.md and the figure beside it. The
fleet: 1,000 phones of one model under a constant channel, cohorts of 20.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from fleetsim.contracts import FloatArray
from fleetsim.fleet.population import build_fleet
from fleetsim.scenario import Scenario, load
from fleetsim.simulate import run

_DOCS = Path(__file__).resolve().parents[1] / "docs" / "models"
_PAGE, _FIGURE = _DOCS / "heterogeneity.md", _DOCS / "heterogeneity.svg"
_MARK = "<!-- from here on written by benchmarks/severity.py -->\n"
_SEVERITIES = (0.0, 0.25, 0.5, 0.75, 1.0)
_KNOBS = {
    "availability": ("fleet.usage.synthetic.severity",),
    "speed": ("fleet.heterogeneity.speed",),
    "bandwidth": ("fleet.heterogeneity.bandwidth",),
    "all three": (
        "fleet.usage.synthetic.severity",
        "fleet.heterogeneity.speed",
        "fleet.heterogeneity.bandwidth",
    ),
}
_SCENARIO = """\
name: severity
seed: 1
task:
  dataset: {kind: blank, input_shape: [1, 28, 28], num_classes: 10, median_samples: 200, sigma: 0.0}
  model: {kind: fedgra-cnn}
  local:
    epochs: 8
    batch_size: 20
    optimizer: {kind: sgd, learning_rate: 0.05}
fleet:
  size: 1000
  devices: {pixel-6: 1.0}
  channel: {kind: constant, down_bit_per_s: 4.0e+7, up_bit_per_s: 2.0e+7}
  heterogeneity: {speed: 0.0, bandwidth: 0.0}
  usage:
    synthetic: {availability: 0.4, severity: 0.0, cycles_per_day: 24}
server:
  cohort: 20
  over_commit: 1.0
  selector: {kind: random}
stop: {rounds: 1}
"""
_WEEK_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one fleet."""

    mean_speed: float
    """Mean computing rate of the clients over that of their devices."""
    mean_bandwidth: float
    mean_availability: float
    """Mean of the clients' shares of a week."""
    round_s: FloatArray
    """Length of every round."""
    offline_fraction: float
    """Share of tasks that ended because their client went offline."""


def measured(scenario: Scenario) -> Figures:
    """Build and run a scenario; return its figures."""
    fleet = build_fleet(
        scenario.fleet,
        seed=scenario.clients_seed,
        num_samples=np.full(scenario.fleet.size, 1, dtype=np.int64),
    )
    clients, bandwidth = np.arange(fleet.size), fleet.channel.multiple
    online = fleet.usage.eligible_schedule(charging_required=False, unmetered_required=False)
    with tempfile.TemporaryDirectory() as home:
        done = run(scenario, out=Path(home) / "run", train=False)
        round_s = (done.rounds.finished_at_s - done.rounds.started_at_s).to_numpy(dtype=np.float64)
        is_offline = float((done.tasks.outcome == "offline").mean())
    return Figures(
        mean_speed=float(fleet.unit_speed.mean()),
        mean_bandwidth=1.0 if bandwidth is None else float(bandwidth.mean()),
        mean_availability=float(online.seconds_true(clients, 0.0, _WEEK_S).mean()) / _WEEK_S,
        round_s=round_s,
        offline_fraction=is_offline,
    )


def table(figures: dict[tuple[str, float], Figures]) -> str:
    """Return the figures as a table."""
    head = (
        "knob",
        "severity",
        "mean speed",
        "mean bandwidth",
        "mean availability",
        "round mean s",
        "median s",
        "90 % s",
        "99 % s",
        "left in mid-task",
    )
    rows = [
        (
            knob,
            f"{severity:g}",
            f"{one.mean_speed:.4f}",
            f"{one.mean_bandwidth:.4f}",
            f"{one.mean_availability:.4f}",
            f"{one.round_s.mean():.1f}",
            *(f"{np.quantile(one.round_s, q):.1f}" for q in (0.5, 0.9, 0.99)),
            f"{one.offline_fraction:.4f}",
        )
        for (knob, severity), one in figures.items()
    ]
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(figures: dict[tuple[str, float], Figures]) -> None:
    """Draw round times by severity, one panel per property."""
    mpl.rcParams.update({"svg.hashsalt": "fleetsim", "font.size": 9})
    figure, panels = plt.subplots(1, len(_KNOBS), figsize=(11, 2.8), sharey=True)
    for panel, knob in zip(panels, _KNOBS, strict=True):
        for quantile, style in ((0.99, ":"), (0.9, "--"), (0.5, "-")):
            values = [np.quantile(figures[knob, s].round_s, quantile) for s in _SEVERITIES]
            panel.plot(_SEVERITIES, values, style, color="C0", label=f"{100 * quantile:.0f} %")
        means = panel.twinx()
        one = [figures[knob, s] for s in _SEVERITIES]
        means.plot(_SEVERITIES, [f.mean_speed for f in one], "o-", ms=3, color="C1", label="speed")
        means.plot(
            _SEVERITIES, [f.mean_availability for f in one], "s-", ms=3, color="C2",
            label="availability",
        )  # fmt: skip
        means.set_ylim(0.0, 1.1)
        if panel is panels[0]:
            means.legend(title="mean (right)", fontsize=7, loc=(0.5, 0.08))
        panel.set_yscale("log")
        panel.set_title(knob)
        panel.set_xlabel("severity")
    panels[0].set_ylabel("round time [s]")
    panels[0].legend(title="round time (left)", fontsize=7, loc=(0.04, 0.5))
    figure.tight_layout()
    figure.savefig(_FIGURE, metadata={"Date": None})


def main() -> None:
    """Measure, write the page and the figure, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    figures: dict[tuple[str, float], Figures] = {}
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "severity.yaml"
        path.write_text(_SCENARIO, encoding="utf-8")
        for knob, keys in _KNOBS.items():
            for severity in _SEVERITIES:
                changes = [f"stop.rounds={options.rounds}", *(f"{key}={severity}" for key in keys)]
                figures[knob, severity] = measured(load(str(path), changes))
    page = _PAGE.read_text(encoding="utf-8").partition(_MARK)[0]
    text = table(figures)
    _PAGE.write_text(f"{page}{_MARK}\n{options.rounds} rounds each.\n\n{text}\n", encoding="utf-8")
    draw(figures)
    print(text)


if __name__ == "__main__":
    main()
