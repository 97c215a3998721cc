"""Examples in the docstrings of the benchmarks."""

import doctest

import pytest

from benchmarks import cells, figures, machine, processes, runs, works


@pytest.mark.parametrize(
    "module", [cells, figures, machine, processes, runs, works], ids=lambda m: m.__name__
)
def test_examples_in_docstrings_hold(module):
    result = doctest.testmod(module)

    assert result.attempted > 0
    assert result.failed == 0
