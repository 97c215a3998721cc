"""FedProx's stragglers: clients that train a random part of their epochs or steps."""

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import stats

from fleetsim.contracts import Work, WorkKind
from fleetsim.engine.servers.training_requests import in_part
from fleetsim.engine.tasks.task import TrainingRequest
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings

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
