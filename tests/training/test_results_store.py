"""Results of training that are found again by content."""

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import fleetsim
from fleetsim.contracts import Evaluation, Job, JobResult, Work, WorkKind
from fleetsim.errors import DataError
from fleetsim.training import results_store
from fleetsim.training.results_store import ResultsStore, decoded, encoded

SMALL = {"fleet.size": 12, "server.cohort": 4, "stop.rounds": 4}
BASE = np.zeros(1_000, dtype=np.float32)
TRAIN = Work(WorkKind.TRAIN, epochs=1)


class SwitchAtRound3(fleetsim.Selector):
    """The first clients; from round 3 on the last ones."""

    def select(self, view):
        chosen = sorted(view.candidates)
        return chosen[-view.wanted :] if view.round >= 3 else chosen[: view.wanted]


class First(fleetsim.Selector):
    def select(self, view):
        return sorted(view.candidates)[: view.wanted]


@pytest.fixture
def run(tmp_path):
    """Run the quickstart with a cache; return its digest, and rounds found, entries computed."""

    def make(name, changes=None, *, cache="cache", workers=1, **options):
        done = fleetsim.run(
            "quickstart",
            SMALL | (changes or {}),
            out=tmp_path / name,
            workers=workers,
            results_cache=None if cache is None else tmp_path / cache,
            **options,
        )
        use = done.manifest.results_cache
        return (done.manifest.digest, *((use.rounds_found, use.entries_computed) if use else ()))

    return make


@pytest.fixture(autouse=True)
def _everything_is_worth_storing(request, monkeypatch):
    if "is_measured" not in request.fixturenames:
        monkeypatch.setattr(results_store, "_GAIN", 0.0)


@pytest.fixture
def is_measured():
    """Let the gain decide what is worth storing."""


def job(client=0, **changes):
    return Job(client, TRAIN, BASE, (1,))._replace(**changes)


def store_in(folder, **options):
    folder.mkdir(exist_ok=True)
    return ResultsStore(folder, "context", **options)


def trained(jobs):
    return [JobResult(1, loss=0.5, vector=BASE + each.client) for each in jobs]


def origins(store, *jobs):
    return [one.origin for one in store.results([[each] for each in jobs], trained)]


def test_results_are_read_as_they_were_written():
    full = JobResult(
        *(7, 0.1, 1e-300, float("nan")),
        vector=np.array([0.1, -0.0, np.nan], dtype=np.float32),
        epoch_losses=(0.5, float("inf")),
        state={"c.1": np.arange(6.0).reshape(2, 3), "count": np.array(3), "none": np.empty((0, 2))},
        sent={},
        metrics={"a": 0.25, "b": 3},
    )
    bare = JobResult(num_samples=0)

    one, two = decoded(encoded([full, bare]), [full.vector, full.vector])

    assert two == bare
    assert repr(one._replace(vector=None, state=None)) == repr(
        full._replace(vector=None, state=None)
    )
    for mine, theirs in (
        (one.vector, full.vector),
        *((one.state[n], full.state[n]) for n in full.state),
    ):
        assert (mine.tobytes(), mine.dtype, mine.shape) == (
            theirs.tobytes(),
            theirs.dtype,
            theirs.shape,
        )
        assert mine.flags.writeable


@pytest.mark.parametrize(
    "result",
    [JobResult(1, state={"words": np.array(["a"])}), JobResult(1, loss=np.float32(0.1))],
)
def test_what_would_not_be_read_as_it_is_is_not_stored(result):
    assert encoded([result]) is None


@pytest.mark.parametrize("trainer", ["auto", "serial"])
def test_a_run_finds_the_training_of_another_and_has_the_same_bytes(run, trainer):
    changes = {"trainer.kind": trainer}
    (digest,) = run("alone", changes, cache=None)

    assert run("first", changes)[:2] == (digest, 0)
    assert run("again", changes) == run("two", changes, workers=2) == (digest, 4, 0)


def test_evaluations_are_stored_too(run, monkeypatch):
    (digest, _, _) = run("first")
    monkeypatch.setattr("fleetsim.training.worker_pool.Pool.evaluate", None)

    assert run("again") == (digest, 4, 0)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"fleet.channel.bandwidth_hz": 5.0e6, "server.deadline_s": 60}, 4),  # the same choices
        ({"task.local.clock_fraction": 0.5, "server.deadline_s": 60}, 4),
        ({"task.local.optimizer.learning_rate": 0.2, "server.deadline_s": 60}, 0),
        ({"task.local.batch_size": 5, "server.deadline_s": 60}, 0),
        ({"task.local.last_batch": "drop", "server.deadline_s": 60}, 0),
        ({"task.local.algorithm": {"kind": "scaffold"}, "server.deadline_s": 60}, 0),
        ({"trainer.kind": "serial", "server.deadline_s": 60}, 0),
        ({"seed": 2, "fleet.seed": 1, "server.deadline_s": 60}, 0),
        ({"task.partition.alpha": 0.7, "server.deadline_s": 60}, 0),
    ],
)
def test_what_enters_the_numbers_enters_the_key(run, changes, found):
    run("first", {"server.deadline_s": 60, "task.local.clock_fraction": 1.0})

    digest, rounds_found, _ = run("other", changes)

    assert rounds_found == found
    assert digest == run("alone", changes, cache=None)[0]


def test_arms_share_the_rounds_before_their_choices_differ(run, tmp_path):
    run("one", selector=First(), cache="c", changes={"server.over_commit": 1.0})
    (alone,) = run(
        "alone", selector=SwitchAtRound3(), cache=None, changes={"server.over_commit": 1.0}
    )

    digest, found, _ = run(
        "other", selector=SwitchAtRound3(), cache="c", changes={"server.over_commit": 1.0}
    )

    one, other = (fleetsim.open_run(tmp_path / name) for name in ("one", "other"))
    assert (digest, found) == (alone, 2)
    assert one.first_other_round(other) == 3
    assert one.first_other_round(one) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"client": 1},
        {"work": Work(WorkKind.TRAIN, epochs=2)},
        {"work": Work(WorkKind.TRAIN, epochs=1, tells_epoch_losses=True)},
        {"base": BASE + 1},
        {"base": BASE.astype(np.float64)},
        {"base": BASE.reshape(2, -1)},
        {"address": (2,)},
        {"learning_rate": 0.1},
        {"most_steps": 1},
        {"state": {}},
        {"state": {"c": BASE}},
        {"received": {"c": BASE}},
    ],
)
def test_every_argument_of_a_job_enters_its_key(tmp_path, changed):
    store = store_in(tmp_path)
    store.results([[job()]], trained)

    assert origins(store, job(**changed)) == ["computed"]
    assert origins(store, job()) == ["found"]


def test_a_batch_is_found_as_a_whole_and_another_context_finds_nothing(tmp_path):
    store = store_in(tmp_path)
    store.results([[job(1), job(2)]], trained)

    assert origins(store, job(1), job(2)) == ["computed", "computed"]
    assert store.results([[job(1), job(2)]], trained)[0].origin == "found"
    assert origins(ResultsStore(tmp_path, "other"), job(1)) == ["computed"]


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def sealed(path, data):
    """Write an entry with a right checksum, as a stranger could."""
    path.write_bytes(hashlib.sha256(data).digest() + data)


@pytest.mark.parametrize(
    ("damage", "origin"),
    [
        (flipped, "damaged"),
        (lambda path: os.truncate(path, 20), "damaged"),
        (lambda path: sealed(path, b""), "damaged"),
        (lambda path: sealed(path, b"\xff" * 40), "damaged"),
        (lambda path: sealed(path, encoded([JobResult(1, vector=BASE[:9])])), "damaged"),
        (lambda path: sealed(path, encoded([JobResult("a")])), "damaged"),
        (lambda path: sealed(path, encoded([JobResult(1), JobResult(1)])), "damaged"),
        (
            lambda path: sealed(path, encoded([JobResult(1)]).replace(b'\\"sent', b'\\"tent')),
            "damaged",
        ),
        (lambda path: (path.unlink(), path.mkdir()), "computed"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "computed"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "computed"),
    ],
)
def test_a_damaged_or_planted_entry_is_computed_again(tmp_path, damage, origin):
    store = store_in(tmp_path)
    store.results([[job()]], trained)
    (path,) = tmp_path.glob("*.entry")
    damage(path)

    (obtained,) = store.results([[job()]], trained)

    assert obtained.origin == origin
    assert obtained.results[0].vector.tobytes() == BASE.tobytes()
    assert path.is_dir() or origins(store, job()) == ["found"]


def test_a_folder_keeps_its_size_and_loses_what_was_used_longest_ago(tmp_path):
    # An entry has some 4.2 kB, so that five are above 7/8 of 22 kB, and three below 3/4.
    (tmp_path / "mine.txt").write_text("a file of the user's")
    old = store_in(tmp_path, most_byte=22_000)
    for client, used_at_s in enumerate((300, 200, 400, 500)):
        before = set(tmp_path.glob("*.entry"))
        origins(old, job(client))
        (new,) = set(tmp_path.glob("*.entry")) - before
        os.utime(new, (used_at_s, used_at_s))

    origins(store_in(tmp_path, most_byte=22_000), job(4))

    left = store_in(tmp_path, most_byte=10**9)
    assert sum(path.stat().st_size for path in tmp_path.glob("*.entry")) <= 22_000 * 3 / 4
    assert origins(left, *map(job, range(5))) == ["computed", "computed", "found", "found", "found"]
    assert (tmp_path / "mine.txt").exists()


def test_a_run_that_does_not_fit_keeps_its_first_rounds(tmp_path):
    store = store_in(tmp_path, most_byte=22_000)
    origins(store, *map(job, range(20)))

    assert origins(store_in(tmp_path), *map(job, range(6))) == ["found"] * 5 + ["computed"]


@pytest.mark.parametrize(("seconds", "is_kept"), [(0.0, False), (0.05, True)])
def test_what_is_stored_more_slowly_than_computed_is_computed(
    tmp_path, monkeypatch, is_measured, seconds, is_kept
):
    store, write = store_in(tmp_path), ResultsStore._write
    # To store takes 5 ms, of which five times are 25.
    monkeypatch.setattr(ResultsStore, "_write", lambda *each: (time.sleep(0.005), write(*each)))

    def compute(jobs):
        time.sleep(seconds)
        return trained(jobs)

    store.results([[job(client)] for client in range(12)], compute)

    assert origins(store, job(0)) == (["found"] if is_kept else ["computed"])


def test_a_full_disk_and_one_without_locks_cost_entries_alone(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results_store, "created_beside", refuse)
    monkeypatch.setattr(results_store.fcntl, "lockf", refuse)
    store = store_in(tmp_path)

    assert origins(store, job(), job()) == ["computed", "computed"]
    assert store.evaluation(BASE, "test", lambda: Evaluation(0.5, 1.0)) == Evaluation(0.5, 1.0)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(DataError, match=r"file/cache: cannot be made: .*another --results-cache"):
        ResultsStore(tmp_path / "file" / "cache", "")


def compute_slowly(folder, log):
    """Obtain six results, and write a line for each that is computed here."""
    results_store._GAIN = 0.0

    def compute(jobs):
        with log.open("a") as file:
            file.write(f"{os.getpid()} {jobs[0].client}\n")
        time.sleep(0.2)
        return trained(jobs)

    results = ResultsStore(folder, "context").results([[job(n)] for n in range(6)], compute)
    assert [one.results[0].vector[0] for one in results] == list(range(6))


def test_processes_share_the_work_and_a_killed_one_holds_up_nobody(tmp_path):
    processes = [
        multiprocessing.get_context("fork").Process(
            target=compute_slowly, args=(tmp_path, tmp_path / "log")
        )
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    log = tmp_path / "log"
    while not (log.exists() and log.read_text().endswith("\n")):
        time.sleep(0.01)
    first = (tmp_path / "log").read_text().split()[0]
    os.kill(int(first), signal.SIGKILL)
    for process in processes:
        process.join(30)

    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    by_killed = [client for pid, client in lines if pid == first]
    by_others = [client for pid, client in lines if pid != first]
    assert sorted(process.exitcode for process in processes) == [-signal.SIGKILL, 0, 0]
    # Each once, and again what the killed one began last, unless that was stored before.
    assert len(set(by_others)) == len(by_others)
    assert sorted({*by_others, *by_killed}) == list("012345")
    assert {*by_killed[:-1]}.isdisjoint(by_others)


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_whole_entries(run, tmp_path):
    (digest,) = run("alone", cache=None)
    script = (
        "import sys, fleetsim\nfrom fleetsim.training import results_store\n"
        "results_store._GAIN = 0.0\nprint('ready', flush=True)\n"
        f"fleetsim.run('quickstart', {SMALL!r}, out=sys.argv[1], workers=1,"
        " results_cache=sys.argv[2])"
    )
    for number in range(6):
        arguments = [sys.executable, "-c", script, tmp_path / f"r{number}", tmp_path / "cache"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(0.5 + 0.3 * number)
            process.kill()
        use = run(f"after {number}")
        assert use[0] == digest
        for path in list((tmp_path / "cache").glob("*.entry"))[::2]:
            path.unlink()


def test_code_of_the_users_own_is_computed_in_every_run(run, tmp_path):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    assert len(run("own", {"stop.rounds": 1}, model=network)) == 1  # no word of a cache
    assert not list(tmp_path.glob("cache/*.entry"))
