import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import ScenarioError
from fleetsim.learning.data.tokens import check_memory, spread, windows


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 12))
def test_windows_are_all_runs_of_the_tokens_that_begin_at_the_stride(num, length, stride):
    tokens = np.arange(100, 100 + num)

    expected = [
        tokens[start : start + length].tolist()
        for start in range(0, num, stride)
        if start + length <= num
    ]

    assert windows(tokens, length=length, stride=stride).tolist() == expected


@given(st.integers(0, 200), st.integers(1, 200))
def test_spread_rows_are_as_many_as_wanted_and_evenly_apart(num: int, requested: int) -> None:
    rows = spread(num, requested)
    gaps = np.diff(rows)

    assert len(rows) == min(num, requested)
    assert spread(num, None).tolist() == list(range(num))
    assert not gaps.size or (gaps.min() >= 1 and np.ptp(gaps) <= 1)
    assert not rows.size or (rows[0] == 0 and rows[-1] < num)


def test_more_windows_than_a_machine_should_hold_are_refused() -> None:
    check_memory("key", 1_000_000, 500)
    with pytest.raises(ScenarioError, match=r"^key: 1000001 samples of 500 tokens take 4.0 GB"):
        check_memory("key", 1_000_001, 500)
