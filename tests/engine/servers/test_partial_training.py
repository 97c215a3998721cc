"""Clients that train a random part of their epochs or steps (FedProx), or a number of steps."""

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from fleetsim.contracts import Outcome, TaskRow, Work, WorkKind
from fleetsim.engine.servers.training_requests import in_part
from fleetsim.engine.tasks.task import TrainingRequest
from fleetsim.fleet.devices.profile import load_device
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from tests.engine.memory_recorder import MemoryRecorder
from tests.engine.servers.test_cohort import Particular
from tests.engine.tiny import NANO_FILE, KnownTrainer, Tiny

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
