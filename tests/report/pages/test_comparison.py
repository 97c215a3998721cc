import re
from pathlib import Path

import pandas as pd
import pytest

from fleetsim.errors import ScenarioError
from fleetsim.record.manifest import write_manifest
from fleetsim.record.saved_run import Run, open_run
from fleetsim.report.pages import comparison
from fleetsim.report.pages.measures import ScoreBudgets
from fleetsim.report.pages.scenario_differences import labels
from tests.report.made_runs import MadeUp, write_run
from tests.report.rows import round_row

RANDOM = {"kind": "random"}
OORT = {"kind": "oort", "alpha": 2.0, "pacer": {"step_s": 10}}

SLOW = [
    round_row(1, 0.3, waiting_s=4.0),
    round_row(2, 0.62, waiting_s=6.0),
    round_row(3, 0.61),
    round_row(4, 0.8),
]
FAST = [
    round_row(1, 0.65, energy_total_j=1234.5),
    round_row(2, 0.7, energy_total_j=1500.25, finished_at_s=20.5),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    home = tmp_path_factory.mktemp("runs")
    return [
        write_run(home / "a", MadeUp(selector=RANDOM), SLOW),
        write_run(home / "b", MadeUp(selector=OORT), FAST),
    ]


def test_table_by_hand(runs: list[Run]) -> None:
    table = comparison.frame(comparison.compare(runs, targets=[0.6, 0.8]))
    shown = table.drop(columns="folder").astype(object).where(table.notna(), None)

    assert shown.to_dict("list") == {
        "label": ["random", "oort"],
        "status": ["done", "done"],
        "seed": [1, 1],
        "evidence": ["one seed: no evidence"] * 2,
        "rounds": [4, 2],
        "virtual_s": [40.0, 20.5],
        "final_accuracy": [0.8, 0.7],
        "best_accuracy": [0.8, 0.7],
        "energy_j": [400.0, 1500.25],
        "energy_wasted_j": [100.0, 50.0],
        "wasted_fraction": [0.25, 50.0 / 1500.25],
        "waiting_mean_s": [5.0, None],
        # Of 12 planned rounds 15 % are 2. One client of 40 has a task in every round, which says
        # that 4 were selected.
        "accuracy_at_0.15": [0.62, 0.7],
        "accuracy_at_0.5": [None, None],
        "accuracy_at_1": [None, None],
        "accuracy_last_10": pytest.approx([0.5825, 0.675]),
        "accuracy_last_10_deviation": pytest.approx([0.2825, 0.025]),
        "waiting_compute_mean_s": [None, None],
        "selected_fraction": [0.1, 0.1],
        "seen_fraction": [0.025, 0.025],
        "rounds_to_seen_0.9": [None, None],
        "rounds_to_seen_1": [None, None],
        "time_to_0.6_s": [20.0, 10.0],
        "energy_to_0.6_j": [200.0, 1234.5],
        "rounds_to_0.6": [2, 1],
        "time_to_0.8_s": [40.0, None],
        "energy_to_0.8_j": [400.0, None],
        "rounds_to_0.8": [4, None],
    }


def test_text_table_by_hand(runs: list[Run]) -> None:
    note, totals, seconds, joules, rounds, _, _, components, outcomes = comparison.text_table(
        comparison.compare(runs, targets=[0.8, 0.6])
    ).split("\n\n")

    assert note.startswith("note: one seed: no evidence. ")
    assert "fleetsim study repeats them" in note
    assert [line.endswith("one seed: no evidence") for line in totals.splitlines()[1:]] == [
        True
    ] * 2
    assert seconds.splitlines() == [
        "Seconds to accuracy  60 %  80 %",
        "random               20.0  40.0",
        "oort                 10.0     -",
    ]
    assert joules.splitlines() == [
        "Joules to accuracy   60 %  80 %",
        "random                200   400",
        "oort                1,234     -",
    ]
    assert rounds.splitlines()[2] == "oort                   1     -"
    assert components.splitlines()[1:] == [
        "random                       400      400",
        "oort                       1,500    1,500",
    ]
    assert outcomes.splitlines()[0] == "Joules by energy outcome  used (J)  all (J)"


def test_the_comprehensive_score_by_hand(runs: list[Run]) -> None:
    result = comparison.compare(runs, budgets=ScoreBudgets(20.0, 400.0))
    rows = comparison.text_table(result).split("Comprehensive score ")[1].splitlines()

    # .8 at twice the time; .7 at 20.5 of 20 s and 1500.25 of 400 J.
    assert comparison.frame(result)["comprehensive_score"].tolist() == pytest.approx(
        [0.8 / 4, 0.7 * (20.0 / 20.5) ** 2 * (400.0 / 1500.25) ** 2]
    )
    assert rows[1].split() == ["random", "200.0", "%", "100.0", "%", "0.200"]
    assert "comprehensive_score" not in comparison.frame(comparison.compare(runs))


@pytest.mark.parametrize("target", [0.0, -0.1, 1.01, float("nan")])
def test_targets_outside_of_reach_are_refused(runs: list[Run], target: float) -> None:
    with pytest.raises(ScenarioError, match=r"^--target .*must be above 0 and at most 1"):
        comparison.compare(runs, targets=[0.5, target])


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_is_a_page_a_table_and_a_figure(runs: list[Run], tmp_path: Path) -> None:
    result = comparison.compare(runs, targets=[0.6, 0.8])
    path = comparison.write(result, tmp_path / "out" / "side", ["pdf", "svg"])
    names = {file.name for file in path.parent.iterdir()}
    read = pd.read_csv(path.with_suffix(".csv"))

    assert path.name == "comparison.html"
    assert names == {
        "comparison.html",
        "comparison.csv",
        "comparison-ledger.csv",
        *(
            f"comparison{of}.{end}"
            for of in ("", "-ledger", "-selection")
            for end in ("pdf", "svg")
        ),
    }
    html = path.read_text()
    assert "<p>The scenarios differ in server.selector.kind (random, oort).</p>" in html
    assert "<dt>selector</dt><dd>random</dd><dd>oort, alpha 2, pacer (step_s 10)</dd>" in html
    assert list(read["label"]) == ["random", "oort"]
    assert list(read["time_to_0.6_s"]) == [20.0, 10.0]
    assert "20.0,200.0,2,40.0,400.0,4" in path.with_suffix(".csv").read_text()
    # The best of each column is marked: seconds of oort, random; joules of random, random; rounds.
    best = re.findall(r'class="best">([^<]+)<', path.read_text())
    assert best == ["40.0", "10.0", "200", "400", "4", "1"]


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_page_loads_nothing_and_escapes_names(tmp_path: Path) -> None:
    evil = "<script>alert('1')</script>"
    runs = [
        write_run(tmp_path / "a<b>", MadeUp(selector={"kind": evil}, version=evil), SLOW),
        write_run(tmp_path / "b", MadeUp(selector=RANDOM), SLOW),
    ]
    html = comparison.write(comparison.compare(runs), tmp_path / "out").read_text()

    assert "<script" not in html
    assert "a<b>" not in html
    assert "&lt;script&gt;" in html
    assert all(href.startswith("#") for href in re.findall(r'href="([^"]*)"', html))
    assert all(src.startswith("data:image/svg+xml;") for src in re.findall(r'src="([^"]*)"', html))


@pytest.mark.usefixtures("undrawn")
def test_one_run_alone_is_a_table_of_one_row(runs: list[Run], tmp_path: Path) -> None:
    result = comparison.compare(runs[:1], targets=[0.6])
    html = comparison.write(result, tmp_path / "out").read_text()

    assert [entry.label for entry in result.entries] == ["made-up"]
    assert "<h1>made-up: one run</h1>" in html
    assert "no evidence" not in html + comparison.text_table(result)
    assert "evidence" not in comparison.frame(result)
    assert 'class="best"' not in html


def test_runs_without_accuracy_or_end_or_rounds_are_told_in_words(tmp_path: Path) -> None:
    blind = [round_row(1), round_row(2)]
    runs = [
        write_run(tmp_path / "a", MadeUp(is_trained=False), blind),
        write_run(tmp_path / "b", MadeUp(status="interrupted", stop_text="interrupted"), SLOW),
        write_run(tmp_path / "c", MadeUp(version="9.9"), []),
    ]
    text = comparison.text_table(comparison.compare(runs))

    assert "trainer=none has no accuracy: it was run without training" in text
    assert "(b) is not complete (interrupted): its numbers go up to round 4" in text
    assert "(c) has no rounds" in text
    assert "different versions of fleetsim: 0.1.0, 9.9" in text


def test_different_worlds_are_refused_with_what_differs(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", MadeUp(seed=1, selector=RANDOM), SLOW),
        write_run(tmp_path / "b", MadeUp(seed=2, size=50, selector=OORT), SLOW),
    ]

    with pytest.raises(ScenarioError) as caught:
        comparison.compare(runs)
    (line,) = caught.value.faults
    assert "seed (1, 2); fleet.size (40, 50)" in line
    assert "selector" not in line
    assert line.endswith("or give --different-worlds")


@pytest.mark.usefixtures("undrawn")
def test_different_worlds_on_purpose_are_said_first(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "a", MadeUp(seed=1), SLOW),
        write_run(tmp_path / "b", MadeUp(seed=2), FAST),
    ]
    result = comparison.compare(runs, different_worlds=True)
    html = comparison.write(result, tmp_path / "out").read_text()

    assert comparison.text_table(result).startswith(
        "DIFFERENT WORLDS: these runs differ in seed (1, 2)"
    )
    assert "<strong>Different worlds:</strong> these runs differ in seed (1, 2)" in html
    assert "All runs have the same" not in html
    assert 'class="best"' not in html
    assert [entry.label for entry in result.entries] == ["seed=1", "seed=2"]


def test_the_worlds_hash_decides_whatever_the_scenario_reads(runs, tmp_path):
    other = write_run(tmp_path / "b", MadeUp(selector=OORT), FAST)
    write_manifest(other.folder, other.manifest.model_copy(update={"world_hash": "0" * 64}))

    with pytest.raises(ScenarioError, match="hashes of their worlds, though seed, task and fleet"):
        comparison.compare([runs[0], open_run(other.folder)])


ROUNDS = {"mode": "synchronous", "over_commit": 1.2}
BUFFER = {"mode": "buffered", "buffer_size": 5, "aggregator": {"kind": "fedbuff"}}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        # Other selectors by their kind, variants of one by what differs.
        ([{"selector": RANDOM}, {"selector": OORT}], ["random", "oort"]),
        ([{"selector": RANDOM}, {"selector": OORT}, {"selector": OORT | {"pacer": {"step_s": 20}}}],
         ["random", "oort, step_s=10", "oort, step_s=20"]),
        # Other settings by key and value.
        ([{"deadline_s": 30.0}, {"deadline_s": 60.0, "cohort": 9}],
         ["cohort=6, deadline_s=30.0", "cohort=9, deadline_s=60.0"]),
        # Other modes of the server by their mode, and what differs between servers of one mode.
        ([{"more_of_server": ROUNDS}, {"more_of_server": BUFFER}], ["synchronous", "buffered"]),
        ([{"more_of_server": ROUNDS}, {"more_of_server": BUFFER, "selector": OORT}],
         ["random, synchronous", "oort, buffered"]),
        ([{"more_of_server": ROUNDS}, {"more_of_server": BUFFER},
          {"more_of_server": BUFFER | {"buffer_size": 9}}],
         ["synchronous", "buffered, buffer_size=5", "buffered, buffer_size=9"]),
        # Equal scenarios by their folders.
        ([{"selector": OORT}, {"selector": OORT}, {"selector": RANDOM}],
         ["oort (run-0)", "oort (run-1)", "random"]),
    ],
)  # fmt: skip
def test_runs_are_called_by_what_differs(tmp_path, made, expected):
    runs = [write_run(tmp_path / f"run-{n}", MadeUp(**each), []) for n, each in enumerate(made)]

    assert labels(runs) == expected


ZEN, XEON = {"torch": "2.13.0", "processor": "Zen"}, {"torch": "2.13.0", "processor": "Xeon"}


def test_runs_of_different_numerical_platforms_are_compared_and_said_to_be(tmp_path: Path) -> None:
    platforms = {"a": [ZEN], "b": [XEON], "c": [ZEN], "mixed": [ZEN, XEON], "before": []}
    runs = {
        name: write_run(tmp_path / name, MadeUp(platforms=used), SLOW)
        for name, used in platforms.items()
    }

    def notes_of(*names: str) -> str:
        return comparison.text_table(comparison.compare([runs[name] for name in names]))

    assert "note: the runs ran on different numerical platforms" in notes_of("a", "b")
    assert "processor (Zen, Xeon)" in notes_of("a", "b")
    assert "torch (" not in notes_of("a", "b")
    assert "platform" not in notes_of("a", "c")
    text = notes_of("mixed", "before")
    assert "(mixed) was resumed on another numerical platform (" in text
    assert "it is not known on which numerical platform these ran:" in text
    assert "different numerical platforms" not in text
