import math
import sys
from pathlib import Path

import pytest

from fleetsim.errors import ScenarioError
from fleetsim.learning.aggregation.privacy import ORDERS, CentralPrivacySettings, RdpAccountant

pytest.importorskip(
    "dp_accounting.rdp", reason="dp-accounting is not installed: pip install 'fleetsim[privacy]'"
)
REPOSITORY = Path(__file__).resolve().parents[3]


def settings(*, noise: float = 1.0, sampling: str = "poisson") -> CentralPrivacySettings:
    values = {"clip_norm": 1.0, "noise_multiplier": noise, "delta": 1e-5, "sampling": sampling}
    return CentralPrivacySettings.model_validate(values)


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)

    with pytest.raises(ScenarioError, match=r"server\.privacy needs.*fleetsim\[privacy\]"):
        RdpAccountant(settings())


def spent(of: CentralPrivacySettings, rounds: int, selected: int, eligible: int) -> RdpAccountant:
    accountant = RdpAccountant(of)
    for _ in range(rounds):
        accountant.spend(selected, eligible)
    return accountant


@pytest.mark.parametrize(("noise", "rounds"), [(1.0, 1), (2.0, 10), (20.0, 3)])
def test_epsilon_without_sampling_is_the_closed_form(noise: float, rounds: int) -> None:
    """Divergence of order a of a Gaussian: a / (2 z^2) (Mironov 2017, proposition 7), summed over
    rounds; conversion of Canonne, Kamath, Steinke 2020, proposition 12."""
    delta = 1e-5
    closed = min(
        rounds * a / (2 * noise**2) + math.log1p(-1 / a) - math.log(delta * a) / (a - 1)
        for a in ORDERS
    )

    result = spent(settings(noise=noise, sampling="none"), rounds, 3, 50).epsilon
    assert result == pytest.approx(closed, rel=1e-9)


def divergence(a: int, noise: float, chance: float) -> float:
    """Whole orders of the sampled Gaussian (Mironov, Talwar, Zhang 2019, section 3.3): the sum of
    C(a, k) (1 - q)^(a - k) q^k exp(k (k - 1) / (2 z^2))."""
    logs = [
        math.lgamma(a + 1) - math.lgamma(k + 1) - math.lgamma(a - k + 1)
        + (a - k) * math.log1p(-chance) + k * math.log(chance) + k * (k - 1) / (2 * noise**2)
        for k in range(a + 1)
    ]  # fmt: skip
    top = max(logs)
    return (top + math.log(math.fsum(math.exp(one - top) for one in logs))) / (a - 1)


def epsilons(noise: float, chance: float, rounds: int) -> tuple[float, float]:
    """By the conversion D_a + log(1 / delta) / (a - 1), and by that of Canonne et al. as above."""
    of = {a: rounds * divergence(a, noise, chance) for a in ORDERS}
    older = min(d - math.log(1e-5) / (a - 1) for a, d in of.items())
    newer = min(d + math.log1p(-1 / a) - math.log(1e-5 * a) / (a - 1) for a, d in of.items())
    return older, newer


@pytest.mark.parametrize(
    ("noise", "epochs", "published"), [(1.12, 60, 2.92), (0.6, 30, 9.74), (1.2, 10, 1.20)]
)
def test_epsilon_with_sampling_is_the_closed_form_and_that_of_the_page(noise, epochs, published):
    """The table of tensorflow/privacy@047e1ee, tutorials/README.md: batches of 256 of 60,000
    samples, delta 1e-5, by the older conversion; whole orders alone give at most .5 % more."""
    page = (REPOSITORY / "docs" / "models" / "privacy.md").read_text("utf-8")
    chance = 256 / 60_000
    older, newer = epsilons(noise, chance, epochs * 60_000 // 256)

    assert older == pytest.approx(published, rel=5e-3)
    assert f"| {noise} | {epochs} | {published:.2f} | {older:.2f} | {newer:.2f} |" in page
    result = spent(settings(noise=noise), 20, 256, 60_000).epsilon
    assert result == pytest.approx(epsilons(noise, chance, 20)[1], rel=1e-9)


def test_epsilon_grows_with_rounds_and_chances_and_is_restored() -> None:
    few, more = spent(settings(), 2, 5, 50), spent(settings(), 3, 5, 50)
    everybody = spent(settings(), 2, 50, 50)
    again = RdpAccountant(settings())
    again.restore(few.state())

    assert RdpAccountant(settings()).epsilon == 0.0
    assert 0.0 < few.epsilon < more.epsilon < everybody.epsilon
    assert everybody.epsilon == spent(settings(sampling="none"), 2, 5, 50).epsilon
    assert again.epsilon == few.epsilon
