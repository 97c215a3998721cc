"""Results on disk, records of machines, and the page that is made from them."""

import dataclasses
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.page import claim, render
from benchmarks.results import Result, Store
from benchmarks.runs import ROOT
from benchmarks.summary import MACHINES, all_machines, merge, read, summarise, write
from fleetsim.errors import DataError
from tests.benchmarks.test_figures import OURS, PEER

SESSION = {
    "machine": {"processor": "A CPU", "cores": "2"},
    "versions": {"flower": {"flwr": "1.41.0", "torch": "2.13.0+cpu"}},
    "not_installed": {"blazefl": "it needs python3.14t"},
    "peaks": [{"mm_1": 100.0, "mm_2": 8.0, "onednn_2": 16.0}, {"mm_1": 90.0}],
    "dates": {"w1": "2026-11-01", "w2": "2026-11-03"},
}
FAILED = Result("w1", "flgo", 1, 3, error="exit code 1: RuntimeError: no luck")
W1 = [dataclasses.replace(OURS, accuracy=0.81), PEER, FAILED]
NHWC = dataclasses.replace(PEER, work="w2", contestant="flower-nhwc")
W2 = [
    dataclasses.replace(OURS, work="w2"),
    dataclasses.replace(PEER, work="w2", round_ended_at_s=(108.0, 114.0, 120.0, 126.0)),
    NHWC,
]


def page(results: list[Result]) -> str:
    return render([summarise(results, SESSION)])


@pytest.mark.parametrize(
    ("beginning", "line"),
    [
        # 2.0 s to fleetsim's 1.35 s; 2 GFLOP a round in 2 s, beside a sgemm peak of 100.
        ("| Flower", "| Flower | 2.0000 | 1.5 | 8.0 | 300 (900) | 1.50 | 1.0 (1 %) | 0.800 |"),
        # The summary has the ratio to every peer that ran.
        ("| W1 | 1.", "| W1 | 1.3500 | 1.5 | - | - | - | - | - |"),
        # The simulator's own cost.
        ("| W1 | 150", "| W1 | 150.00 | 11.1 % | 10 | 15000 |"),
        ("## A CPU", "## A CPU, 2 cores, 2026-11-01"),
        ("* flower", "* flower: flwr 1.41.0, torch 2.13.0+cpu"),
        ("* blazefl", "* blazefl: not measured, it needs python3.14t"),
        (
            "* torch.mm of 2048 x 2048 float32, 1 thread:",
            "* torch.mm of 2048 x 2048 float32, 1 thread: 95 [90, 100] GFLOP/s",
        ),
    ],
)
def test_a_line_of_the_page_by_hand(beginning, line):
    lines = [each for each in page(W1).splitlines() if each.startswith(beginning)]

    assert lines == [line]


def test_equal_work_is_checked_by_the_final_accuracy():
    far = [dataclasses.replace(OURS, accuracy=0.9), PEER]

    assert "within 0.02 of fleetsim's" in page(W1)
    assert "differs from fleetsim's by more than 0.02: Flower (-0.100)" in page(far)


def test_the_faster_setting_of_a_peer_counts_and_both_are_shown():
    lines = page(W2).splitlines()

    # 6.0 s in NCHW, 2.0 s in NHWC, beside 1.35 s.
    assert "| W2 | 1.3500 | 1.5 | - | - | - | - | - |" in lines
    assert any(line.startswith("| Flower | 6.0000 | 4.4 ") for line in lines)
    assert any(line.startswith("| Flower, NHWC | 2.0000 | 1.5 ") for line in lines)
    assert "Not measured here: the peers' setting NHWC." not in lines
    assert "Not measured here: the peers' setting NHWC." in page(W2[:2]).splitlines()


def test_the_claim_is_the_range_over_machines_works_and_the_best_peers():
    fast = dataclasses.replace(
        PEER, contestant="fedlab", round_ended_at_s=(108.0, 109.35, 110.7, 112.05)
    )
    machines = [summarise([*W1, fast], SESSION), summarise(W2[:2], SESSION)]

    # Flower 2.0 / 1.35 and 6.0 / 1.35; FedLab 1.35 / 1.35 is the best of the first machine.
    assert claim(machines) == (
        "a round takes Flower 1.5 to 4.4 times as long as fleetsim, and the best peer 1.0 to 4.4"
        " times"
    )


def test_the_page_and_the_readme_are_those_of_the_records():
    machines = all_machines(MACHINES)

    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == render(machines)
    assert claim(machines) in (ROOT / "README.md").read_text(encoding="utf-8").replace("\n", " ")


def full(results: list[Result], rounds: int) -> list[Result]:
    """The results as if their runs had the rounds of their work."""
    return [dataclasses.replace(result, rounds=rounds) for result in results]


def recorded(path: Path, results: list[Result], date: str) -> Path:
    session = SESSION | {"dates": dict.fromkeys(("w1", "w2"), date)}
    write(summarise(results, session), path)
    return path


def test_a_record_replaces_the_works_that_it_has_of_the_same_machine_and_keeps_others(tmp_path):
    first = recorded(tmp_path / "a.json", [*full(W1, 20), *full(W2, 6)], "2026-11-01")
    second = recorded(tmp_path / "b.json", full(W1, 20), "2026-11-09")
    folder = tmp_path / "machines"

    assert merge(first, folder) == merge(second, folder) == folder / "a-cpu-2-cores.json"
    works = read(folder / "a-cpu-2-cores.json").works
    assert {name: record.measured_on for name, record in works.items()} == {
        "w1": "2026-11-09",
        "w2": "2026-11-01",
    }


def test_a_record_of_short_runs_and_what_is_no_record_are_refused(tmp_path):
    short = recorded(tmp_path / "a.json", W1, "2026-11-01")
    wrong = tmp_path / "b.json"
    wrong.write_text("{}", encoding="utf-8")

    with pytest.raises(DataError, match=r"works\.w1: runs of 3 and 4 rounds, the work has 20"):
        merge(short, tmp_path)
    with pytest.raises(DataError, match=r"b\.json: facts: Field required; name a machine\.json"):
        merge(wrong, tmp_path)
    with pytest.raises(DataError, match="no such file"):
        merge(tmp_path / "c.json", tmp_path)


def test_merging_writes_the_page_of_all_machines(tmp_path, monkeypatch):
    record = recorded(tmp_path / "a.json", full(W1, 20), "2026-11-01")
    target, folder = tmp_path / "page.md", tmp_path / "machines"
    options = ["--merge", str(record), "--machines", str(folder), "--page", str(target)]
    monkeypatch.setattr("sys.argv", ["benchmarks", *options])
    command.main()

    assert target.read_text(encoding="utf-8") == render(all_machines(folder))


def test_a_result_is_read_back_as_it_was_written_and_found_by_what_was_run(tmp_path):
    store = Store(tmp_path)
    store.keep(OURS)
    store.keep(PEER)

    assert store.all() == [OURS, PEER]
    assert store.find("w1", "flower", 1, 4) == PEER
    assert store.find("w1", "flower", 2, 4) is None
    assert store.find("w1", "flower", 1, 20) is None


def test_a_run_that_failed_is_kept_until_it_is_made_again(tmp_path):
    store = Store(tmp_path)
    store.keep(Result("w1", "flower", 1, 4, error="no"))

    assert store.find("w1", "flower", 1, 4) is None
    assert [result.error for result in store.all()] == ["no"]
    store.keep(PEER)
    assert store.all() == [PEER]
