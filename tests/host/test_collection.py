import gc

import pytest

from fleetsim.host.collection import paused


class Knot:
    """Object in a cycle, which the collector would examine."""

    def __init__(self) -> None:
        self.itself = self


def test_objects_of_the_block_are_not_examined_later_and_collection_goes_on_after_a_fault():
    seen = []

    def fault() -> None:
        with paused():
            seen.extend([gc.isenabled(), Knot()])
            raise ImportError

    with pytest.raises(ImportError):
        fault()
    was_on, knot = seen
    is_on, examined = gc.isenabled(), any(thing is knot for thing in gc.get_objects())
    gc.unfreeze()  # for the tests that follow

    assert (was_on, is_on, examined) == (False, True, False)
    assert any(thing is knot for thing in gc.get_objects())
