"""Clients that continue the training of a probe, as those of FedMarl.

Every client trains an epoch as a probe. The two with the highest loss continue to the end of the
same training, the others stop. Nothing of the epoch is repeated: no seconds and no bytes.
"""

from typing import Any

import numpy as np
import pytest

from fleetsim import rng
from fleetsim.contracts import Cohort, Job, Parameters, ProbeRequest, RoundView, Work, WorkKind
from fleetsim.errors import SimulationError
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import LogisticSettings
from fleetsim.training.trainers import DataTrainer
from tests.engine.tiny import FirstCome, KnownTrainer, epochs_s

EPOCHS = 4


class Halving(FirstCome):
    """Lets all candidates train `tried` epochs; those with the highest losses continue."""

    needs_losses = True

    def __init__(self, tried: int = 1, model: Any = None, **asked: Any) -> None:
        super().__init__()
        self.tried, self.model, self.asked = tried, model, asked

    def probe(self, view: RoundView) -> list[ProbeRequest]:
        work = Work(WorkKind.TRAIN, epochs=self.tried)
        return [
            ProbeRequest(client, work, uploads_vector=False, parameters=self.model)
            for client in (view.candidates.tolist() if view.stage == 0 else [])
        ]

    def select(self, view: RoundView) -> Any:
        self.views.append(view)
        answered = [report for report in view.reports if report.loss is not None]
        worst = sorted(answered, key=lambda report: (-(report.loss or 0.0), report.client))
        chosen = [report.client for report in worst if report.client in view.candidates]
        clients = np.array(chosen[: view.wanted], dtype=np.int64)
        return Cohort(clients, continues=np.ones(clients.size, dtype=np.bool_), **self.asked)


@pytest.fixture
def halving(tiny):
    """Four clients, two of which continue to the end of four epochs."""
    tiny.epochs, tiny.trainer, tiny.selector = EPOCHS, KnownTrainer(), Halving()
    return tiny


def test_who_goes_on_computes_what_is_left_and_downloads_nothing(halving):
    halving.run()
    probes, trained = halving.recorder.tasks[:4], halving.recorder.tasks[4:]

    assert [row.compute_s for row in probes] == pytest.approx([epochs_s(1)] * 4, rel=1e-12)
    assert [row.upload_byte for row in probes] == [8] * 4
    assert [row.compute_s for row in trained] == pytest.approx([epochs_s(3)] * 2, rel=1e-12)
    assert [row.train_flop for row in trained] == pytest.approx([3 * probes[0].train_flop] * 2)
    assert [(row.download_byte, row.upload_byte) for row in trained] == [(0, 1_000_000)] * 2
    assert [row.num_samples for row in trained] == [100, 100]


def test_epochs_are_those_of_the_whole_training_and_none_may_be_left(halving):
    halving.run(selector=Halving(epochs=np.array([1, 3])))
    one, three = halving.recorder.tasks[4:]

    assert (one.compute_s, one.train_flop) == (0.0, 0.0)
    assert three.compute_s == pytest.approx(epochs_s(2), rel=1e-12)
    assert [job.work.epochs for job in halving.trainer.given[4:]] == [1, 3]
    assert one.num_samples == 100
    assert halving.selector.outcomes[0].parameters.tolist() == [1.5] * 3


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (Halving(2, epochs=[2, 1]), "include the 2 of the probe that client 1 continues"),
        (Halving(steps=[5, 5]), "that count in epochs, not in steps"),
    ],
)
def test_nobody_goes_on_with_fewer_epochs_than_the_probe_had_or_in_steps(
    halving, selector, message
):
    with pytest.raises(SimulationError, match=message):
        halving.run(selector=selector)


class OfLastRound(Halving):
    """Probes in the first round only, and lets the clients continue in the second."""

    def probe(self, view: RoundView) -> list[ProbeRequest]:
        return super().probe(view) if view.round == 1 else []

    def select(self, view: RoundView) -> Any:
        clients = view.candidates[: view.wanted]
        return Cohort(clients, continues=np.full(clients.size, view.round == 2))


@pytest.mark.parametrize(
    ("selector", "minimum_reports"),
    [(OfLastRound(), 1), (OfLastRound(), 3), (Halving(model=np.ones(3, dtype=np.float32)), 1)],
)
def test_nobody_goes_on_from_a_probe_of_another_round_or_model(halving, selector, minimum_reports):
    """Also where the model is unchanged, because too few answered: a resumed run knows no probe."""
    halving.server = {"cohort": 2, "minimum_reports": minimum_reports}
    with pytest.raises(SimulationError, match="client 0 has not"):
        halving.run(selector=selector, stop={"rounds": 2})


def test_who_is_taken_away_hands_in_the_probes_epoch_with_the_whole_steps_that_followed(halving):
    """Epochs of two steps of 30.3 s: the probe ends at 61.6 s, 107 s is one and a half further."""
    halving.trace("0,1,0,1,0 107,0,0,1,0 117,1,0,1,0", span_s=10_000)
    halving.run(server={"cohort": 2, "interruption": {"kind": "partial", "weight": "processed"}})
    reports = halving.selector.outcomes[0].reports

    # Three of eight steps: two of the probe, and one.
    assert [report.completed_fraction for report in reports] == [3 / 8] * 2
    assert [report.weight_fraction for report in reports] == [3 / 8] * 2
    assert halving.trainer.steps[4:] == [3, 3]


def real_trainer() -> tuple[DataTrainer, Parameters]:
    """Four clients of 20 samples, logistic regression with momentum and a proximal term."""
    sgd = SgdSettings(learning_rate=0.1, momentum=0.9)
    local = LocalSettings(epochs=EPOCHS, batch_size=7, optimizer=sgd, proximal_mu=0.1)
    inputs = rng.stream(2, "test/samples").normal(size=(80, 2)).astype(np.float32)
    labels = (inputs[:, 0] > 0).astype(np.int64)
    module = build_model(LogisticSettings(), input_shape=(2,), num_classes=2, seed=1)
    data = TrainerData(inputs, labels, np.split(np.arange(80), 4), inputs, labels)
    return DataTrainer(Kernel(module, data, local_settings=local, seed=1)), flatten(module)


def test_the_first_epoch_of_who_goes_on_is_the_one_that_was_tried(tiny):
    """Bit for bit, and all later results too: momentum and proximal term continue."""
    tiny.epochs, tiny.samples = EPOCHS, [20] * 4
    tiny.trainer, tiny.parameters = real_trainer()
    tiny.run(selector=Halving(asks_epoch_losses=True))
    tried = {report.client: report.loss for report in tiny.selector.views[0].reports}
    straight, _ = real_trainer()

    for report in tiny.selector.outcomes[0].reports:
        assert len(report.epoch_losses) == EPOCHS
        assert report.epoch_losses[0] == tried[report.client]
        work = Work(WorkKind.TRAIN, epochs=EPOCHS)
        ticket = straight.submit(Job(report.client, work, tiny.parameters, (1, 1, 0)))
        (whole,) = straight.results([ticket])
        assert whole.vector is not None
        assert report.vector.tobytes() == whole.vector.tobytes()
