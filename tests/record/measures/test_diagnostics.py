"""Numbers that a selector told, as rows of a frame; damaged texts are refused by name."""

import pytest

from fleetsim.errors import DataError
from fleetsim.record.measures.diagnostics import diagnostics
from fleetsim.record.saved_run import open_run
from tests.report.made_runs import MadeUp, write_run
from tests.report.rows import round_frame, round_row


def frame_of(*texts):
    rows = [round_row(n, selector_diagnostics=text) for n, text in enumerate(texts, start=1)]
    return round_frame(*rows)


def test_numbers_are_rows_by_round_name_and_step():
    found = diagnostics(
        frame_of('{"loss": 0.1, "ascent": [1.0, 2]}', None, '{"loss": -3e-5}'), run="r"
    )

    assert list(found.columns) == ["round", "name", "step", "value"]
    assert [tuple(row) for row in found.itertuples(index=False)] == [
        (1, "ascent", 0, 1.0),
        (1, "ascent", 1, 2.0),
        (1, "loss", 0, 0.1),
        (3, "loss", 0, -3e-5),
    ]


@pytest.mark.parametrize("status", ["done", "running", "failed"])
def test_a_saved_run_has_the_numbers_whether_it_is_complete_or_not(status, tmp_path):
    rows = [round_row(1), round_row(2, selector_diagnostics='{"loss": 0.25}')]
    write_run(tmp_path / "run", MadeUp(status=status), rows)

    assert open_run(tmp_path / "run").diagnostics().to_numpy().tolist() == [[2, "loss", 0, 0.25]]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1.0]",
        '{"loss": "1"}',
        '{"loss": true}',
        '{"loss": [[1.0]]}',
        '{"loss": NaN}',
        '{"loss": 1e999}',
        100_000 * "[",
    ],
)
def test_a_text_of_anything_else_is_refused_with_its_place_and_the_way_out(text):
    message = (
        r"^runs/a: rounds table, selector_diagnostics of round 2: .*; restore the file, or run"
    )
    with pytest.raises(DataError, match=message):
        diagnostics(frame_of(None, text), run="runs/a")
