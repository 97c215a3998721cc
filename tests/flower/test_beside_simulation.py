"""The benchmark's view of strategies; it needs flwr, as `scripts/check-flower` installs it."""

import pytest

from benchmarks import flower_apps

pytest.importorskip("flwr", reason="flwr is not installed; scripts/check-flower installs it")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("app", flower_apps.APPS)
def test_rounds_and_accuracy_are_seen_in_flowers_own_code(app):
    folder = str(flower_apps.ROOT / app)

    # It raises if Flower's last accuracy is not the one in the rounds table.
    seen = flower_apps.ours(folder, clients=10, seed=1, rounds=2, scenario="quickstart")

    assert len(seen["round_s"]) == 2
    assert min(seen["round_s"]) > 0
