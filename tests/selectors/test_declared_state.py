"""State of selectors, declared by name."""

import numpy as np
import pytest

from fleetsim.selectors.declared_state import DeclaredState


class Inner(DeclaredState):
    state_fields = ("_turn",)
    state_prefix = "inner/"

    def __init__(self):
        self._turn = 2


class Outer(DeclaredState):
    state_parts = ("_inner",)
    state_fields = ("_loss", "_is_new", "rate")

    def __init__(self):
        self._inner = Inner()
        self._loss = np.array([0.5, np.nan])
        self._is_new = True
        self.rate = 0.25


def test_the_state_has_copies_by_the_declared_names_and_types():
    outer = Outer()
    state = outer.state()
    outer._loss[0] = 9.0

    assert state["loss"][0] == 0.5
    assert {name: array.dtype for name, array in state.items()} == {
        "inner/turn": np.int64,
        "loss": np.float64,
        "is_new": np.bool_,
        "rate": np.float64,
    }


def test_a_restored_selector_has_numbers_of_python_and_arrays_of_its_own():
    state = {"inner/turn": np.array(7), "loss": np.array([1.0, 2.0])}
    state |= {"is_new": np.array(False), "rate": np.array(0.5)}
    outer = Outer()
    outer.restore(state)
    outer._loss[0] = 9.0

    assert (outer._inner._turn, outer._is_new, outer.rate) == (7, False, 0.5)
    assert (type(outer._inner._turn), type(outer._is_new)) == (int, bool)
    assert state["loss"].tolist() == [1.0, 2.0]


def test_a_state_without_a_declared_name_is_refused():
    with pytest.raises(KeyError, match="inner/turn"):
        Outer().restore({})
