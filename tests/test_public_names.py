from __future__ import annotations

import pytest

import fleetsim


def test_the_public_names_are_sorted_and_all_there():
    assert fleetsim.__all__ == sorted(fleetsim.__all__, key=str)
    for name in fleetsim.__all__:
        assert getattr(fleetsim, name) is not None


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fleetsim.nonsense
