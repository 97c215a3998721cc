"""Digests of short runs of bundled scenarios in the portable mode, one line each.

Run it on any x86-64 processor with AVX2 and compare with `portable_digests.json`:

    FLEETSIM_NUMERICS=portable python -m tests.scenarios.portable_digests
"""

import json
import sys
import tempfile
from pathlib import Path

import fleetsim

FILE = Path(__file__).with_suffix(".json")
CNN = (
    "task.model={kind: fedgra-cnn}",
    "task.local={epochs: 1, batch_size: 8, optimizer: {kind: sgd, learning_rate: 0.05}}",
)
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "quickstart": ("quickstart", ("stop.rounds=3",)),
    "quickstart-cnn": ("quickstart", (*CNN, "server.cohort=4", "stop.rounds=2")),
    "quickstart-fedbuff": ("quickstart-fedbuff", ("stop.rounds=3",)),
    "digits-scaffold": ("digits-scaffold", ("stop.rounds=2",)),
}
"""Trained by the kernels stacked, channels-last, stacked and serial."""


def main() -> None:
    """Print the platform of the last run, and the digest of each."""
    digests = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (scenario, overrides) in CASES.items():
            loaded = fleetsim.load(scenario, overrides)
            run = fleetsim.run(loaded, out=Path(folder) / name, workers=1)
            digests[name] = run.manifest.digest
            print(name, run.manifest.trainer, digests[name], file=sys.stderr, flush=True)
    (platform,) = run.manifest.platforms
    print(json.dumps({"features": platform.features, "digests": digests}, indent=2))


if __name__ == "__main__":
    main()
