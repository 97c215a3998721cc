"""Results of training that are found again by content."""

import hashlib
import multiprocessing
import os
import signal
import time
from typing import Any

import numpy as np
import pytest
import torch

import fleetsim
from fleetsim.contracts import Evaluation, Job, JobResult, Work, WorkKind
from fleetsim.errors import DataError
from fleetsim.record.measures.selection_measures import first_other_round
from fleetsim.training import results_store
from fleetsim.training.results_store import ResultsStore, decoded, encoded

SMALL = {"fleet.size": 12, "server.cohort": 4, "stop.rounds": 4, "server.deadline_s": 60}
BASE = np.zeros(1_000, dtype=np.float32)
JOB = Job(0, Work(WorkKind.TRAIN, epochs=1), BASE, (1,))
JOBS = [JOB._replace(client=client) for client in range(20)]
MOST_BYTE = 340_000
"""Size of a folder: five entries, which count 65,536 bytes each, are above 7/8, three below 3/4."""


class Ends(fleetsim.Selector):
    """The first clients; from the third round on the last ones, if it is to switch."""

    def __init__(self, switches):
        self.switches = switches

    def select(self, view):
        chosen = sorted(view.candidates)
        return chosen[-4:] if self.switches and view.round >= 3 else chosen[:4]

    def observe(self, outcome):
        pass

    def restore(self, state):
        pass


@pytest.fixture
def run(tmp_path):
    """Run the quickstart; return its digest, and with a cache rounds found, entries computed."""

    def make(name, changes=None, *, cache="cache", workers=1, **options):
        done = fleetsim.run(
            "quickstart",
            SMALL | (changes or {}),
            out=tmp_path / name,
            workers=workers,
            results_cache=cache and tmp_path / cache,
            **options,
        )
        use = done.manifest.results_cache
        return (done.manifest.digest, *((use.rounds_found, use.entries_computed) if use else ()))

    return make


@pytest.fixture(autouse=True)
def _everything_is_worth_storing(monkeypatch):
    monkeypatch.setattr(results_store, "_GAIN", 0.0)
    monkeypatch.setattr(results_store, "_MOST_BYTE_PER_S", np.inf)


def trained(jobs):
    return [JobResult(1, loss=0.5, vector=BASE + job.client) for job in jobs]


def data_of(*results) -> Any:
    return encoded(results)


def origins(store, *jobs):
    return [one.origin for one in store.results([[job] for job in jobs], trained)]


def test_results_are_read_as_they_were_written_or_are_not_stored():
    arrays = {"c.1": np.arange(6.0).reshape(2, 3), "n": np.array(3), "none": np.empty((0, 2))}
    full: Any = JobResult(
        *(7, 0.1, 1e-300, float("nan")),
        vector=np.array([0.1, -0.0, np.nan], dtype=np.float32),
        epoch_losses=(0.5, float("inf")),
        state=arrays,
        sent={},
        metrics={"a": 0.25, "b": 3},
    )

    one: Any
    one, bare = decoded(data_of(full, JobResult(0)), [full.vector] * 2)

    assert bare == JobResult(0)
    assert repr(one) == repr(full)
    assert one.vector.tobytes() == full.vector.tobytes()
    assert all(each.flags.writeable for each in (one.vector, *one.state.values()))
    assert data_of(JobResult(1, state={"words": np.array(["a"])})) is None
    assert data_of(JobResult(1, loss=np.float32(0.1))) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("trainer", ["auto", "serial"])
def test_a_run_finds_the_results_of_another_and_has_the_same_bytes(run, monkeypatch, trainer):
    changes = {"trainer.kind": trainer}
    (digest,) = run("alone", changes, cache=None)

    assert run("first", changes)[:2] == (digest, 0)
    assert run("two", changes, workers=2) == (digest, 4, 0)
    monkeypatch.setattr("fleetsim.training.worker_pool.Pool.evaluate", None)
    assert run("again", changes) == (digest, 4, 0)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"fleet.channel.bandwidth_hz": 5.0e6}, 4),  # the same choices in another world
        ({"task.local.clock_fraction": 0.5}, 4),
        ({"task.local.optimizer.learning_rate": 0.2}, 0),
        ({"task.local.batch_size": 5}, 0),
        ({"task.local.last_batch": "drop"}, 0),
        ({"task.local.algorithm": {"kind": "scaffold"}}, 0),
        ({"trainer.kind": "serial"}, 0),
        ({"seed": 2, "fleet.seed": 1}, 0),
        ({"task.partition.alpha": 0.7}, 0),
    ],
)
def test_what_enters_the_numbers_enters_the_key(run, changes, found):
    run("first")

    digest, rounds_found, _ = run("other", changes)

    assert rounds_found == found
    assert digest == run("alone", changes, cache=None)[0]


def test_arms_share_the_rounds_before_their_choices_differ(run, tmp_path):
    run("one", selector=Ends(switches=False))
    (alone,) = run("alone", selector=Ends(switches=True), cache=None)

    assert run("other", selector=Ends(switches=True))[:2] == (alone, 2)
    one, other = (fleetsim.open_run(tmp_path / name) for name in ("one", "other"))
    tasks, num_rounds = one.recorded_tasks, len(one.rounds)
    assert first_other_round(tasks, other.recorded_tasks, num_rounds) == 3
    assert first_other_round(tasks, tasks, num_rounds) is None


def test_code_of_the_users_own_is_computed_in_every_run(run, tmp_path):
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    notes: list[str] = []

    done = run("own", {"stop.rounds": 1}, model=network, on_note=notes.append)

    assert len(done) == 1  # not in the manifest
    assert notes[-1].startswith("results cache: not used, for code of your own")
    assert not list(tmp_path.glob("cache/*.entry"))


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
    store = ResultsStore(tmp_path, "context")
    origins(store, JOB)

    assert origins(store, JOB._replace(**changed), JOB) == ["computed", "found"]
    assert origins(ResultsStore(tmp_path, "other"), JOB) == ["computed"]
    batches = [JOBS[:2], JOBS[:2], JOBS[1::-1], JOBS[:1]]
    assert [one.origin for one in store.results(batches, trained)] == [
        *("computed", "found", "computed", "found")
    ]


def flipped(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def piped(path):
    path.unlink()
    os.mkfifo(path)


def planted(data):
    """Return a function that writes an entry with a right checksum, as a stranger could."""
    return lambda path: path.write_bytes(hashlib.sha256(data).digest() + data)


@pytest.mark.parametrize(
    ("damage", "origin"),
    [
        (flipped, "damaged"),
        (lambda path: os.truncate(path, 20), "damaged"),
        (planted(b""), "damaged"),
        (planted(data_of(JobResult(1, vector=BASE[:9]))), "damaged"),
        (planted(data_of(JobResult("a"))), "damaged"),  # type: ignore[arg-type]
        (planted(data_of(JobResult(1), JobResult(1))), "damaged"),
        (planted(data_of(JobResult(1)).replace(b'\\"sent', b'\\"tent')), "damaged"),
        (lambda path: os.truncate(path, 2**40), "computed"),
        (lambda path: (path.unlink(), path.mkdir()), "computed"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "computed"),
        (piped, "computed"),
    ],
)
def test_a_damaged_or_planted_entry_is_computed_again(tmp_path, damage, origin):
    store: Any = ResultsStore(tmp_path, "context")
    origins(store, JOB)
    (path,) = tmp_path.glob("*.entry")
    damage(path)

    (obtained,) = store.results([[JOB]], trained)

    assert obtained.origin == origin
    assert obtained.results[0].vector.tobytes() == BASE.tobytes()
    assert path.is_dir() or origins(store, JOB) == ["found"]


def test_a_folder_keeps_its_size_and_loses_what_was_used_longest_ago(tmp_path):
    (tmp_path / "mine.txt").write_text("a file of the user's")
    for number, used_at_s in enumerate((300, 200, 400, 500)):
        before = set(tmp_path.glob("*.entry"))
        origins(ResultsStore(tmp_path, "context"), JOBS[number])
        (new,) = set(tmp_path.glob("*.entry")) - before
        os.utime(new, (used_at_s, used_at_s))

    origins(ResultsStore(tmp_path, "context", most_byte=MOST_BYTE), JOBS[4])

    assert len(list(tmp_path.glob("*.entry"))) == 3
    left = origins(ResultsStore(tmp_path, "context"), *JOBS[:5])
    assert left == ["computed", "computed", "found", "found", "found"]
    assert (tmp_path / "mine.txt").exists()


def test_a_run_that_does_not_fit_keeps_its_first_rounds(tmp_path):
    origins(ResultsStore(tmp_path, "context", most_byte=MOST_BYTE), *JOBS)

    assert origins(ResultsStore(tmp_path, "context"), *JOBS[:6]) == ["found"] * 5 + ["computed"]


@pytest.mark.parametrize(("seconds", "is_kept"), [(0.0, False), (2.4, False), (2.6, True)])
def test_what_is_stored_more_slowly_than_computed_is_computed(
    tmp_path, monkeypatch, seconds, is_kept
):
    """To store takes half a second, of which five times are 2.5."""
    store, write, now_s = ResultsStore(tmp_path, "context"), ResultsStore._write, [0.0]

    def passes(of_s, result):
        now_s[0] += of_s
        return result

    monkeypatch.setattr(results_store, "_GAIN", 5.0)
    monkeypatch.setattr("fleetsim.training.results_store.time.perf_counter", lambda: now_s[0])
    monkeypatch.setattr(ResultsStore, "_write", lambda *each: passes(0.5, write(*each)))
    # Evaluations, which take no time, do not decide on trainings.
    probes = [job._replace(work=Work(WorkKind.EVALUATE)) for job in JOBS[:8]]
    assert origins(store, *probes, probes[0]) == ["computed"] * 9

    store.results([[job] for job in JOBS[:9]], lambda jobs: passes(seconds, trained(jobs)))

    assert origins(store, JOBS[0], JOBS[8]) == (["found"] if is_kept else ["computed"]) * 2


@pytest.mark.parametrize(("num_stalled", "is_kept"), [(4, True), (5, False)])
def test_most_of_eight_measurements_decide_on_all_eight(
    tmp_path, monkeypatch, num_stalled, is_kept
):
    """A job takes ten times as long as to store it, or half as long where the disk stalls."""
    store, write, now_s = ResultsStore(tmp_path, "context"), ResultsStore._write, [0.0]

    def writes_slowly(own, path, results):
        now_s[0] += 2.0 if results[0].vector[0] < num_stalled else 0.1
        return write(own, path, results)

    def compute(jobs):
        now_s[0] += 1.0
        return trained(jobs)

    monkeypatch.setattr(results_store, "_GAIN", 5.0)
    monkeypatch.setattr("fleetsim.training.results_store.time.perf_counter", lambda: now_s[0])
    monkeypatch.setattr(ResultsStore, "_write", writes_slowly)
    store.results([[job] for job in JOBS[:8]], compute)

    assert origins(store, *JOBS[:8]) == (["found"] if is_kept else ["computed"]) * 8


@pytest.mark.parametrize(("seconds", "is_kept"), [(0.9, False), (1.1, True)])
def test_a_second_of_computing_is_worth_so_many_bytes(tmp_path, monkeypatch, seconds, is_kept):
    """An entry counts 64 KiB at least; the clock moves in computations alone."""
    now_s = [0.0]

    def compute(jobs):
        now_s[0] += seconds
        return trained(jobs)

    monkeypatch.setattr(results_store, "_MOST_BYTE_PER_S", 2**16)
    monkeypatch.setattr("fleetsim.training.results_store.time.perf_counter", lambda: now_s[0])
    store = ResultsStore(tmp_path, "context")
    store.results([[job] for job in JOBS[:9]], compute)

    assert origins(store, JOBS[0], JOBS[8]) == (["found"] if is_kept else ["computed"]) * 2


def test_a_full_disk_and_one_without_locks_cost_entries_alone(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results_store, "created_beside", refuse)
    monkeypatch.setattr("fleetsim.training.results_store.fcntl.lockf", refuse)
    store = ResultsStore(tmp_path, "context")

    assert origins(store, JOB, JOB) == ["computed", "computed"]
    assert store.evaluation(BASE, "test", lambda: Evaluation(0.5, 1.0)) == Evaluation(0.5, 1.0)
    with pytest.raises(DataError, match=r"cannot be made: .*another --results-cache"):
        ResultsStore(tmp_path / "lock" / "cache", "")


def obtain_six(folder, moment):
    """Obtain six results, and note each that is computed here; the first process hangs at one."""

    def compute(jobs):
        (folder / f"{jobs[0].client}-{os.getpid()}.computed").touch()
        try:
            (folder / "victim").symlink_to(str(os.getpid()))
        except FileExistsError:
            time.sleep(0.1)
        else:
            if moment == "computing":
                time.sleep(600)
            pytest.MonkeyPatch().setattr("pathlib.Path.replace", lambda *_: time.sleep(600))
        return trained(jobs)

    store: Any = ResultsStore(folder, "context")
    results = store.results([[job] for job in JOBS[:6]], compute)
    assert [one.results[0].vector[0] for one in results] == list(range(6))


@pytest.mark.parametrize("moment", ["computing", "writing"])
def test_processes_share_the_work_and_a_killed_one_holds_up_nobody(tmp_path, moment):
    start = multiprocessing.get_context("fork").Process
    processes: list[Any] = [start(target=obtain_six, args=(tmp_path, moment)) for _ in range(3)]
    for process in processes:
        process.start()
    while len(list(tmp_path.glob("*.computed"))) < 6:
        time.sleep(0.01)
    victim = int((tmp_path / "victim").readlink().name)
    os.kill(victim, signal.SIGKILL)
    for process in processes:
        process.join(30)

    assert sorted(process.exitcode for process in processes) == [-signal.SIGKILL, 0, 0]
    computed = [path.stem.split("-") for path in tmp_path.glob("*.computed")]
    # Each once, and that of the killed one again.
    assert sorted(client for client, pid in computed if pid != str(victim)) == list("012345")
    assert len(computed) == 7
