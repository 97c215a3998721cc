import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.contracts import Parameters
from fleetsim.learning.aggregation.uploads import (
    CompressedUplink,
    CompressionSettings,
    Quantise8BitSettings,
    TopKSettings,
    UncompressedSettings,
)
from tests.learning.aggregation.reports import vector

STOCHASTIC = Quantise8BitSettings()
NEAREST = Quantise8BitSettings(rounding="nearest")


def decoded(values: Sequence[float], settings: CompressionSettings, draw: int = 0) -> Parameters:
    return settings.decoded(vector(*values), rng.stream(1, "test", draw), 1.0)


@pytest.mark.parametrize(
    ("settings", "num_byte"),
    [
        (UncompressedSettings(), 796_840),
        (TopKSettings(fraction=0.01), 15_936),
        (TopKSettings(fraction=0.5), 796_840),
        (TopKSettings(fraction=1e-9), 8),
        (STOCHASTIC, 202_330),
        (NEAREST, 202_330),
        (Quantise8BitSettings(bucket_size=1_000_000), 199_218),
    ],
)
def test_bytes_of_an_update_of_the_2nn(settings: CompressionSettings, num_byte: int) -> None:
    """199,210 weights: 4 byte each; 8 byte for each of 1,992 kept, 99,605 kept, the one kept;
    1 byte each with 8 byte for each of 390 ranges (389 * 512 = 199,168), or for one."""
    assert settings.num_byte(199_210) == num_byte


BY_HAND = [
    # A quarter of eight: -7 and 5.
    (TopKSettings(fraction=0.25), [1, -7, 3, 0, 5, -2, 4, 0.5], [0, -7, 0, 0, 5, 0, 0, 0]),
    # Half of six: 9, and of four twos (whatever their sign) the first two.
    (TopKSettings(fraction=0.5), [2, -2, 9, 2, -2, 1], [2, -2, 9, 0, 0, 0]),
    # From 0 to 255 the steps are whole numbers; halves go up.
    (NEAREST, [0, 255, 0.4, 0.5, 99.6, 254.7], [0, 255, 0, 1, 100, 255]),
    # Steps of 1 in the first bucket, of 10 in the second; the third holds one entry.
    (
        Quantise8BitSettings(rounding="nearest", bucket_size=3),
        [0, 1.3, 255, 0, 14, 2550, -0.123],
        [0, 1, 255, 0, 10, 2550, -0.123],
    ),
]


@pytest.mark.parametrize(("settings", "sent", "arrived"), BY_HAND)
def test_what_the_server_decodes_by_hand(settings, sent, arrived):
    assert decoded(sent, settings).tolist() == pytest.approx(arrived)


values = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=60)


@given(values, st.floats(0.01, 0.5))
def test_top_k_loses_at_most_its_share_of_the_square_norm(entries, fraction):
    """|x - top_k(x)|^2 <= (1 - k/P) |x|^2 (Stich et al. 2018, lemma A.1)."""
    settings = TopKSettings(fraction=fraction)
    delta = np.array(entries, dtype=np.float64)
    lost = delta - decoded(entries, settings)
    share = 1 - settings.num_byte(delta.size) / 8 / delta.size

    assert np.square(lost).sum() <= share * np.square(delta).sum() * (1 + 1e-12)


@given(values, st.integers(2, 20), st.integers(0, 9))
def test_8_bit_errs_by_less_than_a_step_and_by_half_a_step_to_the_nearest(
    entries, bucket_size, draw
):
    """And never leaves the range of its bucket; all to the rounding of float32."""
    delta = np.array(entries, dtype=np.float32)
    for rounding, steps in (("stochastic", 1.0), ("nearest", 0.5)):
        settings = NEAREST.model_copy(update={"rounding": rounding, "bucket_size": bucket_size})
        arrived = decoded(entries, settings, draw)
        for start in range(0, delta.size, bucket_size):
            bucket = delta[start : start + bucket_size].astype(np.float64)
            got = arrived[start : start + bucket_size].astype(np.float64)
            slack = 1e-6 * np.abs(bucket).max()

            assert np.abs(got - bucket).max() <= steps * np.ptp(bucket) / 255 + slack
            assert bucket.min() - slack <= got.min()
            assert got.max() <= bucket.max() + slack


def test_stochastic_rounding_is_right_on_average() -> None:
    """An entry at height h + p between steps is h + 1 with probability p, so the mean of n draws
    has standard error sqrt(p (1 - p) / n) steps; 5 of them hold for all with 1 - 3e-6."""
    num_draws = 4000
    entries = [0.0, 0.1, 7.5, 100.9, 255.0]
    share = np.array([0.0, 0.1, 0.5, 0.9, 0.0])
    drawn = np.array([decoded(entries, STOCHASTIC, draw) for draw in range(num_draws)])
    error = drawn.mean(axis=0) - entries

    bound = 5 * np.sqrt(share * (1 - share) / num_draws) + 1e-5
    assert (np.abs(error) <= bound).all()
    assert set(drawn[:, 2].tolist()) == {7.0, 8.0}


BASE = vector(1, 1, 1, 1)
HALF = TopKSettings(fraction=0.5)
FEEDBACK = TopKSettings(fraction=0.5, error_feedback=True)


def received(
    uplink: CompressedUplink, client: int, round_: int, change: Sequence[float]
) -> list[float]:
    """The change that the server sees."""
    model = uplink.receive(client, BASE, BASE + vector(*change), (0, round_))
    return [float(entry) for entry in model - BASE]


def test_what_was_not_sent_is_added_to_the_clients_next_update_with_error_feedback() -> None:
    """Client 0 keeps (3, 0, 0, 2); its next update (3, 1, 5, 0) becomes (6, 1, 5, 2), of which it
    keeps (0, 1, 0, 2); client 1 has nothing to do with it."""
    uplink, forgets = CompressedUplink(FEEDBACK, seed=1), CompressedUplink(HALF, seed=1)

    assert received(uplink, 0, 1, [3, -8, 4, 2]) == [0, -8, 4, 0]
    assert received(uplink, 1, 2, [1, 2, 0, 0]) == [1, 2, 0, 0]
    assert received(uplink, 0, 3, [3, 1, 5, 0]) == [6, 0, 5, 0]
    assert received(uplink, 0, 4, [0, 0, 0, 0]) == [0, 1, 0, 2]
    assert received(forgets, 0, 1, [3, -8, 4, 2]) == [0, -8, 4, 0]
    assert received(forgets, 0, 2, [3, 0, 0, 2]) == [3, 0, 0, 2]
    assert forgets.state() == {}


whole = st.integers(-1000, 1000).map(float)


@given(st.lists(st.lists(whole, min_size=4, max_size=4), min_size=1, max_size=6))
def test_with_error_feedback_nothing_is_lost_for_good(changes: list[list[float]]) -> None:
    """Sent and unsent changes add up to all changes; exact in whole numbers."""
    uplink = CompressedUplink(FEEDBACK, seed=1)
    arrived = np.sum(
        [received(uplink, 0, round_, change) for round_, change in enumerate(changes)], axis=0
    )

    assert (arrived + uplink.state()["unsent"][0]).tolist() == np.sum(changes, axis=0).tolist()


@pytest.mark.parametrize("settings", [HALF, FEEDBACK, STOCHASTIC, UncompressedSettings()])
def test_a_diverged_model_arrives_as_it_is_and_leaves_nothing_behind(settings):
    uplink = CompressedUplink(settings, seed=1)
    model = vector(1, math.nan, math.inf, 0)

    assert uplink.receive(0, BASE, model, (0, 1)).tobytes() == model.tobytes()
    assert uplink.state() == {}
    # Uncompressed every model is: as float32, 1e8 + (0.3 - 1e8) is not 0.3.
    plain = CompressedUplink(UncompressedSettings(), seed=1)
    assert plain.receive(0, vector(1e8), vector(0.3), (0, 1)).tobytes() == vector(0.3).tobytes()


def test_rounding_depends_on_client_and_task_alone() -> None:
    base, model = rng.stream(2, "models").standard_normal((2, 100)).astype(np.float32)

    def arrives(uplink: CompressedUplink, client: int, round_: int) -> bytes:
        return uplink.receive(client, base, model, (0, round_)).tobytes()

    alone = arrives(CompressedUplink(STOCHASTIC, seed=7), 3, 5)
    busy = CompressedUplink(STOCHASTIC, seed=7)
    others = [
        arrives(busy, 2, 5),
        arrives(busy, 3, 4),
        arrives(CompressedUplink(STOCHASTIC, seed=8), 3, 5),
    ]

    assert alone not in others
    assert arrives(busy, 3, 5) == alone


def test_a_restored_uplink_goes_on_as_if_nothing_had_happened() -> None:
    draw = rng.stream(4, "changes")
    changes = draw.standard_normal((6, 4)).tolist()
    uplink = CompressedUplink(FEEDBACK, seed=1)
    for round_, change in enumerate(changes[:4]):
        received(uplink, round_ % 3, round_, change)
    resumed = CompressedUplink(FEEDBACK, seed=1)
    resumed.restore(uplink.state())

    for round_, change in enumerate(changes):
        task = round_ % 3, round_, change
        assert received(resumed, *task) == received(uplink, *task)


def test_a_share_of_an_update_is_so_many_entries_as_they_are_drawn_evenly_for_each_task() -> None:
    """Half of 4 entries, 400 tasks: each entry 200 times, give or take 4 standard deviations of
    sqrt(400 / 4) = 10."""
    change = [3.0, -8.0, 4.0, 2.0]
    uplink, held = (
        CompressedUplink(UncompressedSettings(), seed=1),
        CompressedUplink(FEEDBACK, seed=1),
    )
    for share, num_sent in ((0.1, 1), (0.25, 1), (0.5, 2), (0.75, 3)):
        arrived = (uplink.receive(0, BASE, BASE + vector(*change), (0, 1), share) - BASE).tolist()
        assert sum(entry != 0.0 for entry in arrived) == num_sent
        assert all(entry in (0.0, sent) for entry, sent in zip(arrived, change, strict=True))
    times = sum(uplink.receive(0, BASE, 2 * BASE, (0, task), 0.5) - BASE for task in range(400))
    # What a share leaves out is held back with error feedback.
    held.receive(0, BASE, BASE + vector(*change), (0, 1), 0.5)

    assert np.abs(times - 200).max() < 40
    assert np.ptp(times) > 0
    assert held.state()["unsent"].tolist() == [[3, 0, 4, 2]]
