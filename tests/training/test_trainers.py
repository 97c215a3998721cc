from dataclasses import replace

import numpy as np
import pytest
import torch

from fleetsim.contracts import Evaluation, Job, JobResult, Parameters, Trainer, Work, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel
from fleetsim.training.trainers import NullTrainer
from tests.learning.digits_training import SIZES, TRAIN, data_of, run, trainer_of
from tests.learning.side_by_side import SMALL, Client, Fleet, local, same, vector_of


def test_the_mean_of_one_step_of_all_clients_is_one_step_on_all_data() -> None:
    """FedSGD: with full batches FedAvg of one local step is a central step (McMahan 2017)."""
    sizes = (40, 60, 3)
    fleet = Fleet(SMALL["logistic"](), [Client(size) for size in sizes])
    chosen = local(1000, 0.5)
    parts = [vector_of(part) for part in fleet.train(Kernel, chosen)]
    fleet.data = replace(fleet.data, shares=[np.concatenate(fleet.data.shares)])
    (central,) = fleet.kernel(Kernel, chosen).compute(fleet.jobs()[:1])

    mean = np.average(parts, axis=0, weights=sizes)
    np.testing.assert_allclose(mean, vector_of(central), rtol=1e-12)
    assert np.abs(mean - fleet.base(0)).max() > 1e-2


@pytest.mark.parametrize(("address", "seed"), [((2,), 7), ((1, 0), 7), ((1,), 8)])
def test_another_address_or_seed_draws_other_batches(address: tuple[int, ...], seed: int) -> None:
    trainer, base = trainer_of()
    other, _ = trainer_of(seed=seed)

    assert not same(run(trainer, 0, base), run(other, 0, base, address=address))


def test_clients_with_equal_data_draw_different_batches() -> None:
    trainer, base = trainer_of(data=data_of([np.arange(40), np.arange(40)]))

    assert not same(run(trainer, 0, base), run(trainer, 1, base))


@pytest.mark.parametrize(("asked", "used"), [(None, 60), (25, 25), (60, 60), (500, 60)])
@pytest.mark.parametrize("kind", [WorkKind.EVALUATE, WorkKind.GRADIENT])
def test_a_sample_draw_is_capped_at_what_the_client_has(kind, asked, used):
    trainer, base = trainer_of()
    result = run(trainer, 1, base, work=Work(kind, num_samples=asked))

    assert result.num_samples == used
    assert result.loss is not None
    assert result.loss > 0
    assert (result.vector is None) == (kind is WorkKind.EVALUATE)


def test_samples_are_drawn_without_replacement_and_by_address() -> None:
    trainer, base = trainer_of()
    all_of_them = run(trainer, 1, base, work=Work(WorkKind.EVALUATE))
    drawn_all = run(trainer, 1, base, work=Work(WorkKind.EVALUATE, num_samples=60))
    some = Work(WorkKind.EVALUATE, num_samples=30)

    assert drawn_all.loss == pytest.approx(all_of_them.loss, rel=1e-6)
    assert run(trainer, 1, base, (1,), some).loss == run(trainer, 1, base, (1,), some).loss
    assert run(trainer, 1, base, (1,), some).loss != run(trainer, 1, base, (2,), some).loss


def trainers() -> list[tuple[Trainer, Parameters]]:
    serial, base = trainer_of()
    return [(serial, base), (NullTrainer(np.array(SIZES)), base)]


@pytest.mark.parametrize(("trainer", "base"), trainers(), ids=["serial", "null"])
def test_a_ticket_is_good_for_one_call(trainer: Trainer, base: Parameters) -> None:
    used = trainer.submit(Job(0, TRAIN, base, (1,)))
    trainer.results([used])
    cancelled = trainer.submit(Job(0, TRAIN, base, (2,)))
    trainer.cancel(cancelled)

    for ticket in (used, cancelled, 10**6):
        with pytest.raises(ValueError, match=f"ticket {ticket}: never issued"):
            trainer.results([ticket])
        with pytest.raises(ValueError, match=f"ticket {ticket}: never issued"):
            trainer.cancel(ticket)


def test_null_training_knows_numbers_of_samples_and_nothing_else() -> None:
    trainer = NullTrainer(np.array([40, 60, 3]))
    base = np.zeros(1, dtype=np.float32)

    assert run(trainer, 1, base) == JobResult(num_samples=60)
    assert run(trainer, 1, base, work=Work(WorkKind.GRADIENT, num_samples=8)).num_samples == 8
    assert run(trainer, 2, base, work=Work(WorkKind.EVALUATE, num_samples=8)).num_samples == 3
    assert run(trainer, 2, base, work=Work(WorkKind.NONE)).num_samples == 0
    assert trainer.evaluate(base) == Evaluation(accuracy=None, loss=None)


def test_one_torch_thread_computes_whatever_the_machine_has() -> None:
    torch.set_num_threads(2)
    trainer_of()

    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("device", "message"),
    [("cuda", "torch sees no cuda device"), ("tpu", "'tpu' is neither cpu nor")],
)
def test_a_device_that_is_not_there_is_the_commands_fault(monkeypatch, device, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ScenarioError, match=f"--torch-device: {message}"):
        trainer_of(torch_device=device)
