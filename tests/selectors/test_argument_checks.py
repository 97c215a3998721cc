import numpy as np
import pytest

from fleetsim.selectors.argument_checks import require_all, require_lengths


def test_the_first_value_that_breaks_the_rule_is_named():
    values = np.array([[1.0, 2.0], [-3.0, -4.0]])

    with pytest.raises(ValueError, match=r"^costs must be positive, got -3\.0$"):
        require_all("costs must be positive", values, values > 0)


def test_a_scalar_is_no_array_of_one_client():
    require_lengths(2, first=np.zeros(2), second=np.zeros((2, 5)))
    with pytest.raises(ValueError, match=r"second must have one entry for each of 1 .*\(\)"):
        require_lengths(1, first=np.zeros(1), second=np.array(4.0))
