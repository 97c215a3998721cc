#!/usr/bin/env python3
"""Digests of the tables of short runs, which show that a change of code changes no result.

Run it in two checkouts on one machine and compare the output:

    scripts/digests.py > before.txt      # in the first
    scripts/digests.py > after.txt       # in the second
    diff before.txt after.txt

Equal lines mean equal tables to the last bit. `scripts/digests.py NAME ...` runs only these
cases, `scripts/digests.py --list` lists all.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typing import get_args

import fleetsim
from fleetsim.selectors import SelectorSettings

SHORT = ("stop.rounds=6", "evaluate.every_rounds=3")
IMAGES = (
    "task.model={kind: fedgra-cnn}",
    "task.local={epochs: 1, batch_size: 8, optimizer: {kind: sgd, learning_rate: 0.05}}",
)
SELECTORS = (
    "afl",
    "divfl",
    "fedcor",
    "fedgra",
    "oort",
    "power-of-choice",
    "pyramidfl",
    "rbcs-f",
    "round-robin",
    "tifl",
)

# Name of the case: scenario, overrides, whether models are trained.
CASES: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "synchronous": ("quickstart", SHORT, True),
    "synchronous-untrained": ("quickstart", ("stop.rounds=40",), False),
    "buffered": ("quickstart-fedbuff", SHORT, True),
    "semi-synchronous": (
        "quickstart-fedbuff",
        ("server.buffer_size=null", "server.window_s=3.3", "stop.rounds=20"),
        False,
    ),
    "fedasync": (
        "quickstart-fedbuff",
        ("server.buffer_size=1", "server.aggregator={kind: fedasync}", "stop.rounds=20"),
        True,
    ),
    "stragglers": ("stragglers", SHORT, True),
    "interruptions-lose": ("interruptions", ("stop.rounds=8",), False),
    "interruptions-pause": (
        "interruptions",
        ("server.interruption={kind: pause}", "stop.rounds=8"),
        False,
    ),
    "interruptions-trained": ("interruptions", ("stop.rounds=3", "task.local.epochs=4"), True),
    "live-batteries": ("battery-desert", ("stop.rounds=25",), False),
    "live-batteries-trained": ("battery-desert", ("stop.rounds=6",), True),
    "cpu-credits": ("aws-t2-fedgra", ("task.dataset={kind: digits}", "stop.rounds=8"), True),
    "shared-cell": ("crowded-cell", ("stop.rounds=6",), True),
    "network-trace": ("commuters-on-5g", ("stop.rounds=6",), False),
    "usage-trace": (
        "livelab-phones",
        ("task.dataset={kind: digits}", "task.model={kind: 2nn}", "stop.rounds=6"),
        False,
    ),
    "synthetic-fedprox": ("synthetic-fedprox", SHORT, True),
    "bandit-ucb": (
        "quickstart",
        (
            "fleet.size=6",
            "server={cohort: 2, selector: {kind: ucb}}",
            "task.holdout_fraction=0.2",
            "stop.rounds=30",
        ),
        True,
    ),
    "bandit-bp-ucb": (
        "quickstart",
        (
            "fleet.size=8",
            "server={cohort: 2, selector: {kind: bp-ucb}}",
            "task.holdout_fraction=0.2",
            "task.holdout_from=everybody",
            "stop.rounds=30",
        ),
        True,
    ),
    "compression": (
        "quickstart",
        ("server.compression={kind: top-k, fraction: 0.1}", *SHORT),
        True,
    ),
    "fedadam": (
        "quickstart",
        ("server.aggregator={kind: fedadam, learning_rate: 0.01}", *SHORT),
        True,
    ),
    "trainer-serial": ("quickstart", ("trainer.kind=serial", *SHORT), True),
    "trainer-stacked": ("quickstart", ("trainer.kind=stacked", *SHORT), True),
    "trainer-vectorised": ("quickstart", ("trainer.kind=vectorised", *SHORT), True),
    "trainer-channels-last": (
        "quickstart",
        (*IMAGES, "trainer.kind=channels-last", *SHORT),
        True,
    ),
    "selector-autofl": (
        "quickstart",
        ("server.selector={kind: autofl}", "evaluate.validation_fraction=0.1", *SHORT),
        True,
    ),
    "selector-gpfl": (
        "quickstart",
        ("server.selector={kind: gpfl}", "evaluate.validation_fraction=0.1", *SHORT),
        True,
    ),
    **{
        f"selector-{kind}": ("quickstart", (f"server.selector={{kind: {kind}}}", *SHORT), True)
        for kind in SELECTORS
    },
}


def other_selectors() -> dict[str, tuple[str, tuple[str, ...], bool]]:
    """Return a case for each kind of selector that has none yet and needs no key."""
    text = str(CASES)
    found: dict[str, tuple[str, tuple[str, ...], bool]] = {}
    for settings in get_args(get_args(SelectorSettings)[0]):
        kind = settings.model_fields["kind"].default
        if f"kind: {kind}}}" not in text and not any(
            field.is_required() for field in settings.model_fields.values()
        ):
            # Twenty clients, of which a bandit can list all sets.
            small = ("fleet.size=20", "server.cohort=3", "evaluate.validation_fraction=0.1")
            changes = (*small, f"server.selector={{kind: {kind}}}", *SHORT)
            found[f"selector-{kind}"] = ("quickstart", changes, True)
    return found


CASES |= other_selectors()


def digest(scenario: str, overrides: tuple[str, ...], *, train: bool) -> str:
    """Return the digest of all tables of one run."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = fleetsim.load(scenario, overrides)
        run = fleetsim.run(loaded, out=Path(folder) / "run", train=train)
        return str(run.manifest.digest)


def main(names: list[str]) -> int:
    """Print one line a case."""
    if names == ["--list"]:
        print("\n".join(CASES))
        return 0
    unknown = sorted(set(names) - set(CASES))
    if unknown:
        print(f"no such case: {', '.join(unknown)}; see scripts/digests.py --list", file=sys.stderr)
        return 2
    for name in names or CASES:
        scenario, overrides, train = CASES[name]
        print(f"{name:28} {digest(scenario, overrides, train=train)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
