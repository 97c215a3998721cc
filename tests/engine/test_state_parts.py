"""Parts of a state."""

import numpy as np

from fleetsim.engine.state_parts import joined, part_of


def test_parts_are_joined_under_their_names_and_found_again():
    one, two, three = np.array(1), np.array(2), np.array(3)
    state = joined({"model": {"a": one, "inner/b": two}, "model-2": {"a": three}, "none": {}})

    assert state == {"model/a": one, "model/inner/b": two, "model-2/a": three}
    assert part_of(state, "model") == {"a": one, "inner/b": two}
    assert part_of(part_of(state, "model"), "inner") == {"b": two}
    assert part_of(state, "none") == part_of(state, "other") == {}
