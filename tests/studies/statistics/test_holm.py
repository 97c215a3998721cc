import math

import numpy as np
import pytest

from fleetsim.studies.statistics import holm


def test_three_p_values_by_hand():
    # 3 * 0.01; 2 * 0.02; 1 * 0.03, but not less than 0.04.
    assert holm(np.array([0.03, 0.01, 0.02])) == pytest.approx([0.04, 0.03, 0.04])


def test_families_are_adjusted_one_by_one_and_up_to_one():
    adjusted = holm(np.array([[0.9, 0.4], [0.5, 0.01]]))

    assert adjusted == pytest.approx(np.array([[0.9, 0.8], [0.5, 0.02]]))
    assert holm(np.array([0.6, 0.7])) == pytest.approx([1.0, 1.0])


def test_a_missing_p_value_stays_missing_and_does_not_count():
    assert holm(np.array([math.nan, 0.02, 0.03])) == pytest.approx(
        [math.nan, 0.04, 0.04], nan_ok=True
    )
    assert holm(np.array([])).size == 0
