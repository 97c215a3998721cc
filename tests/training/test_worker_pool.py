import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import Pipe, active_children, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import Job, JobResult, Parameters, Work, WorkKind
from fleetsim.errors import ScenarioError, TrainingError
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.learning.models.settings import TwoNNSettings
from fleetsim.training import helper_processes, worker_pool
from fleetsim.training.trainers import DataTrainer
from fleetsim.training.worker_pool import Pool, assigned
from tests.learning import digits_training
from tests.learning.side_by_side import all_same

NUM_TEST = 1203
"""Three chunks of 500, the last of them short."""


def data() -> TrainerData:
    """Seven clients, and a longer test set."""
    every = digits_training.data_of()
    inputs, labels = every.train_inputs[:NUM_TEST], every.train_labels[:NUM_TEST]
    test: Any = {
        "test_inputs": inputs,
        "test_labels": labels,
        "validation_rows": np.arange(1400, 1420),
    }
    return replace(every, shares=every.shares[:7], **test)


def kernel_of(kind: type[Kernel]) -> tuple[Kernel, Parameters]:
    return digits_training.kernel_of(kind, TwoNNSettings(hidden=(16, 8)), data=data())


def jobs_of(base: Parameters) -> list[Job]:
    """Work of every kind, from two models."""
    later = base + np.float32(0.01)
    trained = [Job(client, Work(WorkKind.TRAIN, epochs=2), base, (1,)) for client in range(7)]
    return [
        *trained,
        Job(3, Work(WorkKind.TRAIN, epochs=1), later, (2,)),
        Job(4, Work(WorkKind.TRAIN, epochs=3), later, (3,), most_steps=8),
        Job(2, Work(WorkKind.TRAIN, epochs=3, tells_epoch_losses=True), later, (4,)),
        Job(0, Work(WorkKind.NONE), base, (1,)),
        Job(4, Work(WorkKind.EVALUATE, num_samples=9), later, (1,)),
        Job(1, Work(WorkKind.GRADIENT), base, (1,)),
    ]


@pytest.mark.parametrize("kind", [Kernel, StackedKernel])
@pytest.mark.parametrize("workers", [2, 4])
def test_the_number_of_processes_shows_in_no_bit(kind: type[Kernel], workers: int) -> None:
    (one, base), (other, _) = kernel_of(kind), kernel_of(kind)
    alone, together = Pool(one, 1), Pool(other, workers)

    for _ in range(2):
        jobs = jobs_of(base)
        results = alone.compute(jobs)
        assert all_same(results, together.compute(jobs))
        vector = results[0].vector
        assert vector is not None
        base = vector
    for part, num in (("test", NUM_TEST), ("validation", 20)):
        mine, theirs = alone.evaluate(base, part), together.evaluate(base, part)  # type: ignore[arg-type]
        assert [array.tobytes() for array in mine] == [array.tobytes() for array in theirs]
        assert len(mine[0]) == len(mine[1]) == num


@pytest.mark.slow
def test_fresh_interpreters_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As helpers start where nothing is forked."""
    monkeypatch.setattr(helper_processes, "_context", lambda: get_context("spawn"))
    kernel, base = kernel_of(StackedKernel)
    jobs = jobs_of(base)

    assert all_same(Pool(kernel, 2).compute(jobs), Pool(kernel, 1).compute(jobs))


class _Failing(Kernel):
    home = os.getpid()

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        if os.getpid() == self.home:
            return super().compute(jobs)
        raise ValueError("no luck")


def test_what_fails_in_another_process_is_told_and_the_pool_goes_on() -> None:
    kernel, base = kernel_of(_Failing)
    pool = Pool(kernel, 2)
    for _ in range(2):
        with pytest.raises(TrainingError, match="no luck"):
            pool.compute(jobs_of(base))

    assert len(pool.compute(jobs_of(base)[:1])) == 1


class _Dying(_Failing):
    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        if os.getpid() != self.home:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute(jobs)


def test_a_killed_process_is_an_error_and_not_a_wait() -> None:
    kernel, base = kernel_of(_Dying)
    with pytest.raises(TrainingError, match=r"exit code -9.*--workers"):
        Pool(kernel, 2).compute(jobs_of(base))


@pytest.mark.slow
def test_a_process_that_was_killed_between_two_calls_is_an_error_too() -> None:
    kernel, base = kernel_of(Kernel)
    pool = Pool(kernel, 2)
    pool.compute(jobs_of(base))
    pool._helpers.running[0].process.kill()
    pool._helpers.running[0].process.join()

    with pytest.raises(TrainingError, match="exit code -9"):
        pool.compute(jobs_of(base))
    assert len(pool.compute(jobs_of(base))) == len(jobs_of(base))


def test_processes_end_with_the_pool() -> None:
    before = set(active_children())
    kernel, base = kernel_of(Kernel)
    pool = Pool(kernel, 3)
    pool.compute(jobs_of(base))
    assert len(set(active_children()) - before) == 2
    del pool

    assert set(active_children()) <= before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_all_processes_is_for_the_one_that_began(number: signal.Signals) -> None:
    kernel, base = kernel_of(Kernel)
    jobs = jobs_of(base)
    pool = Pool(kernel, 2)
    pool.compute(jobs)
    helper = pool._helpers.running[0].process
    assert helper.pid is not None
    os.kill(helper.pid, number)

    assert all_same(pool.compute(jobs), Pool(kernel, 1).compute(jobs))
    assert pool._helpers.running[0].process is helper


def _program(is_killed: bool, pids: Connection) -> None:
    kernel, base = kernel_of(Kernel)
    pool = Pool(kernel, 2)
    pool.compute(jobs_of(base))
    pids.send([child.pid for child in active_children()])
    if is_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    pool.begin(jobs_of(base))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize(("is_killed", "exit_code"), [(True, -9), (False, 0)])
def test_processes_do_not_outlive_their_program(is_killed, exit_code, capfd):
    """A program that ends has the pool still there, and its helper at work.

    It would wait for ever for a process that waits for it.
    """
    ours, theirs = Pipe()
    program = get_context("fork").Process(target=_program, args=(is_killed, theirs))
    program.start()
    program.join(timeout=300)

    assert program.exitcode == exit_code
    assert capfd.readouterr().err == ""
    (pid,) = ours.recv()
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{pid} still runs")


class _Delayed(Kernel):
    """Its helper waits until this process has computed all other chunks."""

    home = os.getpid()
    num_here = 0
    others_done: Any = get_context("fork").Event()

    def compute(self, jobs: Sequence[Job]) -> list[JobResult]:
        if os.getpid() == self.home:
            self.num_here += 1
            if self.num_here == len(jobs_of(jobs[0].base)) - 1:
                self.others_done.set()
        elif not self.others_done.wait(120):
            raise ValueError("the other process waits for this one's chunks")
        return super().compute(jobs)


def test_who_is_free_computes_the_chunks_of_who_is_held_up() -> None:
    kernel, base = kernel_of(_Delayed)
    jobs = jobs_of(base)

    assert all_same(Pool(kernel, 2).compute(jobs), Pool(kernel_of(Kernel)[0], 1).compute(jobs))


@pytest.mark.parametrize("num_byte", [0, 1 << 26])
def test_large_jobs_are_sent_to_one_process_alone(monkeypatch, num_byte):
    kernel, base = kernel_of(Kernel)
    jobs = jobs_of(base)
    monkeypatch.setattr(worker_pool, "_MOST_SHARED_BYTE", num_byte)
    three_models = [*jobs, jobs[0]._replace(base=base.copy(), address=(9,))]
    pool = Pool(kernel, 3)
    pool.begin(three_models)

    assert pool._begun is not None
    assert bool(pool._begun.shared) == bool(num_byte)
    assert all_same(pool.compute(three_models), Pool(kernel, 1).compute(three_models))


@given(loads=st.lists(st.integers(0, 50), min_size=1, max_size=30), num_processes=st.integers(1, 6))
def test_chunks_are_assigned_once_each_and_evenly(loads: list[int], num_processes: int) -> None:
    """Heaviest first to the least loaded: no two shares differ by more than one chunk."""
    shares = assigned(loads, num_processes)
    totals = [sum(max(loads[c], 1) for c in hand) for hand in shares]

    assert sorted(c for hand in shares for c in hand) == list(range(len(loads)))
    assert len(shares) == min(num_processes, len(loads))
    assert max(totals) - min(totals) <= max(*loads, 1)


class _Elsewhere(Kernel):
    is_on_cpu = False


def test_processes_cannot_share_a_cuda_device() -> None:
    kernel, _ = kernel_of(_Elsewhere)
    with pytest.raises(ScenarioError, match="--workers: 2 processes cannot share"):
        DataTrainer(kernel, workers=2)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_begun_early_yields_the_same(workers: int) -> None:
    kernel, base = kernel_of(StackedKernel)
    jobs = jobs_of(base)
    expected = Pool(kernel, 1).compute(jobs)
    pool = Pool(kernel, workers)
    for _ in range(2):
        pool.begin(jobs)
        assert all_same(pool.compute(jobs), expected)


def test_what_was_begun_must_be_asked_for_next() -> None:
    kernel, base = kernel_of(StackedKernel)
    jobs = jobs_of(base)
    pool = Pool(kernel, 2)
    pool.begin(jobs)
    with pytest.raises(ValueError, match="have not been requested"):
        pool.evaluate(base, "test")
    with pytest.raises(ValueError, match="other jobs were begun"):
        pool.compute(jobs[1:])
    # The helpers' late answers to the begun jobs are not those to these.
    results, expected = pool.evaluate(base, "test"), Pool(kernel, 1).evaluate(base, "test")
    assert results[0].tobytes() == expected[0].tobytes()
