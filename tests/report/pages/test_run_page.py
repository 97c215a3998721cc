import base64
import dataclasses
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose, RoundRow, TaskRow
from fleetsim.errors import ScenarioError
from fleetsim.record.saved_run import Run, open_run
from fleetsim.report.figures import selection
from fleetsim.report.figures.style import in_both_schemes
from fleetsim.report.pages import ledger_tables, run_figures, run_page, summary
from tests.report.drawn import words
from tests.report.made_runs import MadeUp, make_run, reworded, write_run
from tests.report.parsed_page import ParsedPage
from tests.report.rows import round_frame, round_row, task_frame, task_row

EVIL = "\"'><script>alert(1)</script>&amp;{{ 7*7 }}"
FIGURES = {
    *("accuracy-time", "accuracy-energy", "accuracy-rounds", "seconds-by-device"),
    *("joules-by-device", "waste", "coverage", "selection-ratio", "selections", "stragglers"),
    *("ledger", "energy-inequality", "task-durations"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "oort"
    return make_run(folder, MadeUp(selector={"kind": "oort"}, num_probes=2))


@pytest.fixture(scope="module")
def parsed(run: Run) -> ParsedPage:
    return ParsedPage(run_page.write_report(run, formats=["svg"]))


@pytest.mark.slow
def test_the_page_loads_nothing_and_runs_nothing(parsed: ParsedPage) -> None:
    tags = {tag for tag, _ in parsed.elements}
    handlers = [
        name for _, attributes in parsed.elements for name in attributes if name.startswith("on")
    ]

    assert not tags & {"script", "link", "iframe", "object", "embed", "form", "base"}
    assert all(src.startswith("data:image/svg+xml;base64,") for src in parsed.attributes("src"))
    assert all(href.startswith("#") for href in parsed.attributes("href"))
    assert handlers == []
    (style,) = parsed.texts["style"]
    assert "url(" not in style
    assert "@import" not in style


def test_the_page_in_the_run_folder_shows_every_saved_figure(run: Run, parsed: ParsedPage) -> None:
    files = {path.name: path.read_bytes() for path in (run.folder / "figures").iterdir()}
    shown = {base64.b64decode(src.partition(",")[2]) for src in parsed.attributes("src")}

    assert (run.folder / "report.html").is_file()
    assert files.keys() == {f"{stem}.svg" for stem in FIGURES}
    assert shown == set(map(in_both_schemes, files.values()))
    assert all(parsed.attributes("alt"))


def test_the_page_shows_the_run_and_its_ledger_and_no_costs_without_prices(run, parsed):
    html = (run.folder / "report.html").read_text()
    anchors = [attributes["id"] for attributes in parsed.all("h2")]

    assert "selector oort, seed 1, stopped: 12 rounds done" in parsed.words
    assert run.manifest.digest is not None
    for text in (run.manifest.digest, run.manifest.world_hash, "deadline_s: 45.0"):
        assert text in parsed.words
    assert "not complete" not in parsed.words
    # The setup is visible, without a fold around it.
    for label, fact in (
        ("clients", "40 (10 pixel-6, 10 realme-q3s, 10 jetson-nano-cpu, 10 t2.small)"),
        ("versions", "fleetsim 0.1.0, python 3.11.0"),
    ):
        assert f"<dt>{label}</dt><dd>{fact}</dd>" in html.partition("<details")[0]
    hrefs = [attributes["href"] for attributes in parsed.all("a")]
    assert hrefs[-len(anchors) :] == [f"#{a}" for a in anchors]
    assert set(hrefs) == set(hrefs[-len(anchors) :])
    assert len(set(anchors)) == len(anchors) >= 8
    for row in ledger_tables.table(run.ledger()).rows:
        assert all(f">{cell}<" in html for cell in row if cell)
    assert "Money and carbon" not in html


@pytest.mark.slow
@pytest.mark.usefixtures("parsed", "undrawn")
def test_the_same_run_gives_the_same_page(run: Run, tmp_path: Path) -> None:
    shutil.copytree(run.folder, tmp_path / "copy")
    pages = (
        run.folder / "report.html",
        run_page.write_report(open_run(tmp_path / "copy"), formats=["svg"]),
    )
    first, again = (re.sub(r'base64,[^"]*"', "", page.read_text()) for page in pages)

    assert first == again


def test_summary_is_a_few_aligned_lines(tmp_path: Path) -> None:
    rounds = [round_row(1, 0.75, waiting_s=1.0), round_row(2, 0.25, waiting_s=3.0), round_row(3)]
    run = write_run(tmp_path / "run", MadeUp(), rounds)

    assert summary.terminal_lines(run) == [
        f"folder    {tmp_path / 'run'}",
        "rounds    3 in 30.0 s of virtual time, stopped: 3 rounds done",
        "accuracy  25.0 % final, 75.0 % best",
        "to 75 %   10.0 s, 100 J, 1 rounds",
        "energy    300 J, 25.0 % of it wasted",
        "tasks     9 of 12 train tasks delivered, 2.00 s mean waiting",
        f"digest    {run.manifest.digest}",
    ]


def test_what_batteries_paid_is_in_percent_of_full_ones(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", MadeUp(num_rounds=1))
    clients = run.clients.head(4).assign(battery_capacity_j=[1000.0, 1000.0, 500.0, np.nan])
    for column in clients.filter(regex="^energy_"):
        clients[column] = 0.0
    clients["energy_compute_j"] = [10.0, 0.0, 20.0, 99.0]
    clients["energy_idle_j"] = [0.0, 5.0, 5.0, 0.0]
    run.__dict__["clients"] = clients  # as if it had been read

    # 1, 0.5 and 5 %; the last is on mains.
    device = clients["device"].iloc[2]
    words = (
        "the run took 2.17 % of a full battery on average over 3 clients, 5.00 % at worst"
        f" ({device} #2)"
    )
    assert f"Batteries: {words}." in run_page._notes(run)
    assert f"battery   {words}" in summary.terminal_lines(run)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_report_has_the_targets_that_are_asked_for_too(tmp_path: Path) -> None:
    rounds = [round_row(1, 0.25), round_row(2, 0.75)]
    run = write_run(tmp_path / "run", MadeUp(), rounds)
    html = run_page.write_report(run, targets=[0.62, 0.1]).read_text()

    rows = html.split('id="time-and-energy-to-accuracy"')[1].split("</table>")[0]
    rows = rows.replace("\xa0", " ")
    assert re.findall(r'<th scope="row">([\d%, ]+)</th><td>([^<]*)</td>', rows) == [
        *(("10 %", "1"), ("50 %, 60 %, 62 %, 70 %, 75 %", "2"), ("80 %", "-"))
    ]
    with pytest.raises(ScenarioError, match=r"--target 1.5: must be above 0 and at most 1"):
        run_page.write_report(run, targets=[1.5])


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_whatever_comes_from_a_run_is_escaped(tmp_path: Path) -> None:
    made = MadeUp(
        name=EVIL,
        selector={"kind": EVIL},
        devices={EVIL: 3.0},
        stop_text=EVIL,
        version=EVIL,
        status="failed",
        num_rounds=2,
    )
    path = run_page.write_report(make_run(tmp_path / "run", made))
    parsed = ParsedPage(path)

    assert "<script" not in path.read_text()
    assert not {"script"} & {tag for tag, _ in parsed.elements}
    # Title, heading, selector, stop text (subtitle, banner), device, scenario, version.
    assert parsed.words.count(EVIL) >= 7


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_a_run_without_training_says_so_and_has_no_curves(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", MadeUp(is_trained=False, num_rounds=3))

    assert "made without training" in ParsedPage(run_page.write_report(run)).words
    assert not list(run.folder.glob("figures/accuracy*"))
    assert summary.terminal_lines(run)[2].startswith("accuracy  none: the run was made without")


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("status", "stop_text", "words"),
    [
        ("running", None, "still running, or it was killed"),
        ("interrupted", "interrupted", "go on with --resume"),
        ("failed", "at virtual time 3.5 s: joules are lost", "joules are lost"),
    ],
)
def test_a_run_that_is_not_complete_says_so(tmp_path, status, stop_text, words):
    made = MadeUp(status=status, stop_text=stop_text, num_rounds=3)
    run = make_run(tmp_path / "run", made)
    parsed = ParsedPage(run_page.write_report(run))

    assert f"This run is not complete ({status})." in parsed.words
    assert words in parsed.words
    assert len(parsed.attributes("src")) == len(FIGURES)
    assert summary.terminal_lines(run)[1].startswith("rounds    3 in ")


def test_a_figure_of_a_single_fact_is_a_sentence(tmp_path: Path) -> None:
    made = MadeUp(size=1, devices={"phone": 3.0}, cohort=1, num_rounds=3)
    run = make_run(tmp_path / "run", made)
    drawn = [each for _, figures in run_figures.sections(run, []) for each in figures]
    once = run_figures.accuracy_figures(round_frame(round_row(1), round_row(2, 0.62)), [])

    assert [(stem, shown) for stem, shown, *_ in drawn if isinstance(shown, str)] == [
        ("waste", "No energy was wasted."),
        ("task-durations", "Each of 3 train tasks took 7.00 s."),
        ("selection-ratio", "Every round selected 100.0 % of the fleet."),
        ("selections", "Each of the 1 clients: 3 train tasks, 3 delivered."),
    ]
    assert [each[1] for each in once] == ["The model was evaluated once, after round 2: 62.0 %."]
    assert "Every round selected 100.0 %" in words(run.figure("selection-ratio"))


ROUNDS = [
    round_row(1, 0.25, energy_wasted_j=0.0),
    round_row(2, 0.75, waiting_s=4.0, energy_wasted_j=100.0),
]
LOST = [task_row(0, 0, energy_compute_j=82.0), task_row(1, 0, outcome=Outcome.LATE, round=2,
        energy_compute_j=82.0)]  # fmt: skip


@pytest.mark.parametrize(
    ("stop", "rounds", "tasks", "opening", "last"),
    [
        ("rounds: 12", ROUNDS, LOST, "75 % was first reached after 20.0 s, 200 J and 2 rounds",
         ("50.0 % of the energy was wasted, most of it in tasks that were late; look next at",
          "Task outcomes")),
        ("accuracy: 0.8", [round_row(1, 0.5, waiting_s=4.0)], None,
         "the target of 80 % was not reached, and the best accuracy is 50.0 %",
         ("On average the first client of a round waits 4.00 s for the last, 40.0 % of the round;"
          " look next at", "Task durations")),
        ("rounds: 12", [round_row(1, energy_wasted_j=0.0)], None, "there is no accuracy",
         ("Wasted energy and waiting are small; look next at", "Time and energy by device")),
    ],
)  # fmt: skip
def test_a_page_begins_with_what_it_shows_and_its_largest_loss(
    tmp_path: Path,
    stop: str,
    rounds: list[RoundRow],
    tasks: list[TaskRow] | None,
    opening: str,
    last: tuple[str, str],
) -> None:
    run = write_run(tmp_path / "run", MadeUp(), rounds, tasks)
    run = reworded(run, "rounds: 12", stop)
    first, energy, loss = run_page.overview(run, run.tasks, run.ledger())

    assert first[0].endswith(f"virtual time and energy: {opening}; see")
    assert energy[0].endswith(" is compute; see")
    assert loss == last


TASKS = task_frame(
    task_row(0, 0),
    task_row(1, 0, outcome=Outcome.LATE, finished_at_s=30.0, energy_compute_j=12.0),
    task_row(2, 1, "board", finished_at_s=20.0),
    task_row(3, 1, "board", purpose=Purpose.PROBE, outcome=Outcome.LATE, energy_compute_j=12.0),
)  # 20, 30, 20 and 30 J


def test_outcomes_table_by_hand() -> None:
    assert summary.outcomes_table(TASKS).rows == [
        ("delivered", "2", "15.0 s", "0", "40.0 J", "40.0 %"),
        ("late", "1", "30.0 s", "1", "60.0 J", "60.0 %"),
    ]


def test_devices_table_by_hand() -> None:
    clients = selection.counts_from_tasks(TASKS)

    assert summary.devices_table(TASKS, clients).rows == [
        ("board", "1", "1", "100.0 %", "20.0 s", "20.0 J", "50.0 J", "30.0 J"),
        ("phone", "1", "2", "50.0 %", "10.0 s", "20.0 J", "50.0 J", "30.0 J"),
    ]


def test_the_page_says_beside_the_numbers_whom_no_heat_slows(run: Run) -> None:
    cool = dataclasses.replace(
        run, manifest=run.manifest.model_copy(update={"not_slowed_by_heat": ("raspberry-pi-4",)})
    )

    assert list(run_page._notes(run)) == []
    assert list(run_page._notes(cool)) == [
        "Heat slows none of raspberry-pi-4: no thermal model of them is known."
    ]
