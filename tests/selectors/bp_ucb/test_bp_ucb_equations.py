import numpy as np
import pytest

from fleetsim.contracts import FloatArray, IntArray
from fleetsim.selectors.bandits.equations import client_index, rewarded
from fleetsim.selectors.tie_breaking import best


def started(*opinions: float) -> tuple[FloatArray, IntArray]:
    """Means and plays after slot 1, whose model all clients have an opinion of."""
    return np.array(opinions), np.ones(len(opinions), dtype=np.int64)


def test_two_slots_by_hand():
    # N = 4, K = 2, mu = .5. Opinions after slot 1: .6, .5, .4, .7; beliefs .5, .9, .1, .5.
    # Slot 2: sqrt(ln 2) = .832555, half of it is .416277; b/4 = .125, .225, .025, .125;
    # indices 1.141277, 1.141277, .841277, 1.241277: 3, and 0 before 1 by the key.
    # Their opinions of the new model are .8 and .3: means (.6+.8)/2 = .7 and (.7+.3)/2 = .5.
    # Slot 3: ln 3 = 1.098612, .5 sqrt(1.098612/2) = .370576 for 0 and 3, .524074 for the others;
    # indices 1.195576, 1.249074, .949074, .995576: 1 and 0.
    means, plays = started(0.6, 0.5, 0.4, 0.7)
    beliefs, keys = np.array([0.5, 0.9, 0.1, 0.5]), np.arange(4.0)
    second = client_index(means, plays, beliefs, 2, 0.5)
    chosen = best(second.round(9), 2, keys)
    means, plays = rewarded(means, plays, chosen, np.array([0.3, 0.8]))
    third = client_index(means, plays, beliefs, 3, 0.5)

    assert second == pytest.approx([1.141277, 1.141277, 0.841277, 1.241277], abs=1e-6)
    assert chosen.tolist() == [3, 0]
    assert means == pytest.approx([0.7, 0.5, 0.4, 0.5])
    assert plays.tolist() == [2, 1, 1, 2]
    assert third == pytest.approx([1.195576, 1.249074, 0.949074, 0.995576], abs=1e-6)
