"""Costs of a run in money and carbon."""

from pathlib import Path

import pandas as pd
import pytest

from fleetsim import bundled
from fleetsim.contracts import Outcome
from fleetsim.errors import DataError
from fleetsim.fleet.devices.profile import device_names
from fleetsim.record import prices
from fleetsim.record.prices import PriceFigure, Prices
from fleetsim.record.saved_run import Run
from fleetsim.report.pages import comparison, ledger_tables, run_page
from tests.report.made_runs import MadeUp, write_run
from tests.report.rows import round_row, task_row

KWH_J = 3.6e6


def figure(value: float) -> PriceFigure:
    return PriceFigure(value=value, source="made up")


ALL = Prices(
    title="made up",
    grid_gram_per_kwh=figure(500.0),
    usd_per_kwh=figure(0.25),
    usd_per_hour={"vm": figure(0.5), "nobody-has-one": figure(9.0)},
)
JOULES = {"energy_receive_j": 0.0, "energy_transmit_j": 0.0, "energy_idle_j": 0.0}
TASKS = [
    # Half an hour and 2 kWh on each device, then a quarter of an hour and 1 kWh for nothing.
    task_row(0, 0, "phone", finished_at_s=1800.0, energy_compute_j=2 * KWH_J, **JOULES),
    task_row(1, 1, "vm", finished_at_s=1800.0, energy_compute_j=2 * KWH_J, **JOULES),
    task_row(2, 1, "vm", outcome=Outcome.LATE, dispatched_at_s=1800.0, finished_at_s=2700.0,
             energy_compute_j=KWH_J, **JOULES),
]  # fmt: skip
SPENT_J = 5 * KWH_J + 3 * 5.0  # with three radio tails


def made_run(folder: Path, status: str = "done") -> Run:
    """Four clients, phones and machines in turn, for four hours."""
    made = MadeUp(size=4, devices={"phone": 1.0, "vm": 1.0}, status=status)
    last = round_row(1, 0.9, finished_at_s=4 * 3600.0, energy_total_j=SPENT_J)
    return write_run(folder, made, [last], TASKS)


def test_table_by_hand(tmp_path: Path) -> None:
    table = ledger_tables.bill_table(prices.bill(made_run(tmp_path / "run"), ALL))

    # A phone is not rented, it pays for its power; a rented machine does not.
    assert table.rows == [
        ("phone", "2", "0.500", "2.00", "0", "0", "0.500", "1,000"),
        ("vm", "2", "0.750", "3.00", "0.375", "4.00", "0", "1,500"),
        ("all", "4", "1.25", "5.00", "0.375", "4.00", "0.500", "2,500"),
        ("of it not used", "-", "0.250", "1.00", "0.125", "-", "0", "500"),
    ]


def test_every_bundled_price_is_of_a_device_and_has_a_source() -> None:
    for name in bundled.names("prices"):
        loaded = prices.load(name)

        assert set(loaded.usd_per_hour) <= set(device_names())
        assert all(source for _, _, source in ledger_tables.sources_table(loaded).rows)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title: nothing\n", r"prices\.yaml:?\d*: .*names no price; give grid_gram_per_kwh"),
        ("title: a\ngrid_gram_per_kwh: 400\n", r"prices\.yaml:2: grid_gram_per_kwh"),
        ("title: a\nusd_per_kwh: {value: -1, source: b}\n", r"usd_per_kwh\.value = -1: must be"),
        ("title: a\nusd_per_hours: {}\n", r"usd_per_hours.*usd_per_hour"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_key(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(text)

    with pytest.raises(DataError, match=reason):
        prices.load(str(tmp_path / "prices.yaml"))


@pytest.mark.parametrize("name", ["aws-us-east", "nowhere.yaml", "", ".", "x" * 5000])
def test_a_file_that_is_not_there_is_refused_with_the_names_of_others(name: str) -> None:
    with pytest.raises(DataError, match=r"no such bundled prices or path.*aws-us-east-1"):
        prices.load(name)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_pages_show_prices_when_they_are_given_and_escape_them(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run")
    evil = ALL.model_copy(update={"title": "<script>alert(1)</script>"})
    report = run_page.write_report(run, priced=evil).read_text()
    result = comparison.compare([run], priced=evil)
    folder = comparison.write(result, tmp_path / "out").parent

    for html in (report, (folder / "comparison.html").read_text()):
        assert "Money and carbon" in html
        assert "&lt;script&gt;" in html
        assert "<script" not in html
    (row,) = pd.read_csv(folder / "comparison.csv").to_dict("records")
    assert row["rent_busy_usd"] == pytest.approx(0.375)
    assert row["carbon_gram"] == pytest.approx(SPENT_J / KWH_J * 500.0)
    *_, last = comparison.text_table(result).splitlines()
    assert last.split() == ["made-up", "0.375", "4.00", "0.500", "2,500"]
