import math

import numpy as np
import pytest

from fleetsim.studies.statistics.verdict import holm


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        # 3 * 0.01; 2 * 0.02; 1 * 0.03, but not less than 0.04.
        ([0.03, 0.01, 0.02], [0.04, 0.03, 0.04]),
        ([0.6, 0.7], [1.0, 1.0]),
        # Families one by one.
        ([[0.9, 0.4], [0.5, 0.01]], [[0.9, 0.8], [0.5, 0.02]]),
        # A missing value stays missing, and does not count.
        ([math.nan, 0.02, 0.03], [math.nan, 0.04, 0.04]),
        ([], []),
    ],
)
def test_p_values_are_adjusted_by_hand(p, adjusted):
    assert holm(np.array(p)) == pytest.approx(np.array(adjusted), nan_ok=True)
