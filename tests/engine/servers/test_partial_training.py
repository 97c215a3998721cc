"""Clients that train a random part of their epochs or steps (FedProx), or a number of steps."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    Job,
    Outcome,
    Parameters,
    ProbeRequest,
    RoundView,
    SampleForm,
    TaskRow,
    Work,
    WorkKind,
)
from fleetsim.engine.servers.running_tasks import saved_tasks, state_of_running
from fleetsim.engine.servers.training_requests import in_part
from fleetsim.engine.tasks.task import Task, TrainingRequest
from fleetsim.errors import SimulationError
from fleetsim.fleet.devices.profile import load_device
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import LogisticSettings
from fleetsim.training.trainers import DataTrainer
from tests.engine.memory_recorder import MemoryRecorder
from tests.engine.servers.test_cohort import Particular
from tests.engine.tiny import NANO_FILE, FirstCome, KnownTrainer, Tiny, epochs_s

FIVE = Work(WorkKind.TRAIN, epochs=5)


def parts(usual: Work, chance: float, num: int = 4000) -> list[Work]:
    requests = [TrainingRequest(client, usual) for client in range(num)]
    return [one.work for one in in_part(requests, usual, chance=chance, address=(1, 2))]


def test_every_number_of_epochs_below_the_full_one_is_as_likely():
    epochs = np.array([work.epochs for work in parts(FIVE, 0.6)])
    counts = np.bincount(epochs, minlength=6)[1:]

    assert epochs.size == counts.sum()
    # .6 / 4 of them each, .4 all five.
    assert stats.chisquare(counts, 4000 * np.array([0.15, 0.15, 0.15, 0.15, 0.4])).pvalue > 1e-3


def test_steps_are_counted_where_the_scenario_counts_them():
    works = parts(Work(WorkKind.TRAIN, steps=3), 1.0, 100)

    assert {(work.epochs, work.steps) for work in works} == {(0, 1), (0, 2)}


def test_the_draw_is_the_clients_own_in_each_choice():
    requests = [TrainingRequest(client, FIVE) for client in range(100)]
    all_ = in_part(requests, FIVE, chance=0.5, address=(1, 2))
    some = in_part(requests[::-3], FIVE, chance=0.5, address=(1, 2))
    later = in_part(requests, FIVE, chance=0.5, address=(1, 3))

    assert some == all_[::-3]
    assert later != all_


def test_who_was_asked_for_another_amount_does_all_of_it():
    request = TrainingRequest(0, Work(WorkKind.TRAIN, epochs=3))

    assert in_part([request], FIVE, chance=1.0, address=(1, 2)) == [request]


def test_seconds_and_flop_are_those_of_the_part(tiny):
    tiny.run(epochs=2, partial_fraction=1.0)
    part, num_rows = tiny.recorder.tasks[0], len(tiny.recorder.tasks)
    tiny.run(partial_fraction=0.0)
    whole = tiny.recorder.tasks[num_rows]

    assert part.train_flop * 2 == whole.train_flop
    assert part.compute_s == pytest.approx(whole.compute_s / 2, rel=1e-9)


def test_one_epoch_has_no_part():
    with pytest.raises(ValidationError, match="partial_fraction needs at least 2 epochs or steps"):
        LocalSettings(
            epochs=1, batch_size=10, optimizer=SgdSettings(learning_rate=0.1), partial_fraction=0.5
        )


NANO = load_device(NANO_FILE)
BATCH_S = NANO.compute.dispatch_s + 1e6 * NANO.compute.parameter_s
SAMPLE_S = 3e9 / NANO.compute.conv_flop_per_s
IDLE_W = 2.1


@pytest.fixture
def by_steps(tiny: Tiny) -> Tiny:
    """The tiny fleet, whose scenario asks for five steps of 50; client 0 has 120 samples, 1 30."""
    tiny.epochs, tiny.steps = 0, 5
    tiny.size, tiny.samples = 2, [120, 30]
    return tiny


def rows_of(tiny: Tiny) -> list[TaskRow]:
    tiny.run(recorder=MemoryRecorder())
    return tiny.recorder.tasks


def test_every_client_takes_so_many_steps_whatever_its_samples(by_steps):
    # Client 0: batches of 50, 50, 20, 50, 50; client 1: five batches of its 30.
    large, small = rows_of(by_steps)

    assert large.compute_s == pytest.approx(5 * BATCH_S + 220 * SAMPLE_S, rel=1e-12)
    assert small.compute_s == pytest.approx(5 * BATCH_S + 150 * SAMPLE_S, rel=1e-12)
    assert (large.train_flop, small.train_flop) == (220 * 3e9, 150 * 3e9)
    assert (large.num_samples, small.num_samples) == (120, 30)
    watts = NANO.power.train_above_idle_w
    assert large.energy_compute_j == pytest.approx(watts * large.compute_s)
    # Idle power from the first bit down to the last one up.
    assert large.energy_idle_j == pytest.approx(IDLE_W * (large.compute_s + 2.0))


def test_trainers_are_asked_for_epochs_that_end_after_so_many_steps(by_steps):
    by_steps.trainer = KnownTrainer()
    rows_of(by_steps)
    given = by_steps.trainer.given

    asked = [(job.work.epochs, job.work.steps, job.most_steps) for job in given]
    assert asked == [(2, None, 5), (5, None, 5)]


def test_a_selector_may_ask_for_steps_of_each_or_epochs_instead(by_steps):
    by_steps.selector = Particular(steps=[2, 7])
    two, seven = rows_of(by_steps)
    by_steps.selector = Particular(epochs=[1, 1])
    one_epoch, _ = rows_of(by_steps)

    assert two.train_flop == 100 * 3e9
    assert seven.train_flop == 7 * 30 * 3e9
    assert one_epoch.train_flop == 120 * 3e9


def test_an_interrupted_client_hands_in_its_share_of_the_steps(by_steps):
    # Taken away half a step after the fourth of 50, 50, 20, 50, 50.
    taken_s = round(1.0 + 4 * BATCH_S + 170 * SAMPLE_S + (BATCH_S + 50 * SAMPLE_S) / 2)
    by_steps.trace(f"0,1,1,1,0 {taken_s},1,0,1,0", span_s=10_000)
    by_steps.trainer = KnownTrainer()
    by_steps.server = {
        "cohort": 1,
        "interruption": {"kind": "partial", "weight": "processed"},
        "eligibility": {"charging": True},
    }
    [row] = rows_of(by_steps)

    assert (row.outcome, row.completed_fraction) == (Outcome.DELIVERED, 4 / 5)
    assert by_steps.trainer.steps == [4]
    [report] = by_steps.selector.outcomes[0].reports
    assert (report.completed_fraction, report.weight_fraction) == (0.8, 0.8)


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
    module = build_model(LogisticSettings(), SampleForm((2,), 2), seed=1)
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


WORKS = st.builds(
    lambda amount, number, **more: Work(WorkKind.TRAIN, **{amount: number}, **more),
    st.sampled_from(["epochs", "steps"]),
    st.integers(1, 100),
    clock_fraction=st.floats(0.0, 1.0, exclude_min=True),
    tells_epoch_losses=st.booleans(),
)
REQUESTS = st.builds(
    TrainingRequest,
    client=st.integers(0, 10**6),
    work=WORKS,
    upload_fraction=st.floats(0.0, 1.0, exclude_min=True),
    weight=st.none() | st.floats(1e-9, 1e9),
    is_share=st.booleans(),
    continues=st.none(),
)
BASE = np.arange(3, dtype=np.float32)


def running(number: int, request: TrainingRequest) -> Task:
    job = Job(request.client, request.work, BASE, (0, 7))
    at_s = 1.5 * number
    return Task(number, 4, request, request.work, job, (0, 7), 2, 8, 8, at_s)


@given(st.lists(REQUESTS, max_size=4))
def test_flights_come_back_from_a_checkpoint_as_they_were(requests):
    several = [running(number, request) for number, request in enumerate(requests)]
    saved = saved_tasks(state_of_running(reversed(several)))

    assert [one.request for one in saved] == requests
    for one, number in zip(saved, range(len(requests)), strict=True):
        assert (one.number, one.dispatched_at_s) == (number, 1.5 * number)
        assert (one.round, one.selection, one.version) == (4, 7, 2)
        assert (one.base == BASE).all()


def test_every_field_of_a_request_has_a_column_of_its_name():
    state = state_of_running([running(0, TrainingRequest(0, Work(WorkKind.TRAIN, epochs=1)))])
    # Work that was counted is that of messages, which a server does not save.
    names = set(TrainingRequest._fields) - {"work", "continues"}
    names |= {field.name for field in fields(Work)} - {"kind", "num_samples", "counted"}

    assert names <= {key.removeprefix("running/") for key in state}
