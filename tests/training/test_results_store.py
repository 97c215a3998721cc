"""Results of training that are found again by content."""

import numpy as np
import pytest
import torch

import fleetsim
from fleetsim.contracts import JobResult
from fleetsim.training.results_store import ResultsStore, decoded, encoded

SMALL = {"fleet.size": 12, "server.cohort": 4, "stop.rounds": 4}


@pytest.fixture
def run(tmp_path):
    """Run the quickstart with a cache of its own; return its digest and what it says of it."""

    def make(name, changes=None, *, cache="cache", workers=1):
        notes = []
        folder = None if cache is None else tmp_path / cache
        done = fleetsim.run(
            "quickstart",
            SMALL | (changes or {}),
            out=tmp_path / name,
            workers=workers,
            results_cache=folder,
            on_note=notes.append,
        )
        said = [note.partition("training of ")[2] for note in notes if "results cache" in note]
        return done.manifest.digest, *said

    return make


@pytest.fixture(autouse=True)
def _everything_is_worth_storing(monkeypatch):
    monkeypatch.setattr("fleetsim.training.results_store._READ_S", -1e9)


def test_results_are_read_as_they_were_written():
    full = JobResult(
        *(7, 0.1, 1e-300, None),
        vector=np.array([0.1, -0.0, np.nan], dtype=np.float32),
        epoch_losses=(0.5, float("inf")),
        state={"c.1": np.arange(6.0).reshape(2, 3)},
        sent={},
        metrics={"a": 0.25},
    )
    bare = JobResult(num_samples=0)

    one, two = decoded(encoded([full, bare]))

    assert two == bare
    for name, expected in full._asdict().items():
        if name == "vector":
            assert getattr(one, name).tobytes() == expected.tobytes()
        elif name == "state":
            assert np.array_equal(one.state["c.1"], expected["c.1"])
        else:
            assert getattr(one, name) == expected


def test_arrays_that_cannot_be_written_are_not_stored():
    assert encoded([JobResult(1, state={"words": np.array(["a"])})]) is None


def test_a_run_finds_the_training_of_another_and_has_the_same_bytes(run):
    alone = run("alone", cache=None)
    first, again = run("first"), run("again")
    two = run("two", workers=2)

    assert first == (*alone, "0 of 4 rounds was found")
    assert again == two == (*alone, "4 of 4 rounds was found")


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"fleet.channel.bandwidth_hz": 5.0e6}, 4),  # another world, the same choices
        ({"task.local.optimizer.learning_rate": 0.2}, 0),
        ({"task.local.batch_size": 5}, 0),
        ({"trainer.kind": "serial"}, 0),
        ({"seed": 2}, 0),
        ({"task.partition.alpha": 0.7}, 0),
    ],
)
def test_what_enters_the_numbers_enters_the_key(run, changes, found):
    run("first")

    digest, text = run("other", changes)

    assert text == f"{found} of 4 rounds was found"
    assert digest == run("alone", changes, cache=None)[0]


def test_a_damaged_entry_is_computed_again(run, tmp_path):
    (digest, _) = run("first")
    for path in (tmp_path / "cache").glob("*/*.entry"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    again, text = run("again")

    assert (again, text.partition(";")[0]) == (digest, "0 of 4 rounds was found")
    assert "damaged entries" in text
    assert run("healed") == (digest, "4 of 4 rounds was found")


def test_the_entries_used_longest_ago_are_deleted(tmp_path):
    # An entry of 1,000 float32 has some 4.2 kB: the fifth is above 20 kB, and 16 kB are left.
    store = ResultsStore(tmp_path, b"", most_byte=20_000)
    vectors = [np.full(1_000, index, dtype=np.float32) for index in range(5)]
    work = fleetsim.contracts.Work(fleetsim.contracts.WorkKind.TRAIN, epochs=1)
    jobs = [fleetsim.contracts.Job(index, work, vectors[0], (1,)) for index in range(5)]
    for job, vector in zip(jobs, vectors, strict=True):
        store.keep([job], [JobResult(1, vector=vector)], seconds=1.0)
        paths = sorted(tmp_path.glob("*/*.entry"), key=lambda path: path.stat().st_mtime_ns)

    left = [store.found([job]) is not None for job in jobs]

    assert sum(path.stat().st_size for path in paths) <= 16_000
    assert left == [False, False, True, True, True]


def test_what_a_kill_leaves_is_no_entry(run, tmp_path):
    (digest, _) = run("first")
    for path in list((tmp_path / "cache").glob("*/*.entry")):
        path.rename(path.with_name(f".{path.name}.0123456789abcdef.tmp"))

    assert run("again") == (digest, "0 of 4 rounds was found")


def test_code_of_the_users_own_is_computed_in_every_run(run, tmp_path):
    done = fleetsim.run(
        "quickstart",
        SMALL | {"stop.rounds": 1},
        out=tmp_path / "own",
        model=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)),
        results_cache=tmp_path / "cache",
    )

    assert done.manifest.status == "done"
    assert not list(tmp_path.glob("cache/*/*.entry"))
