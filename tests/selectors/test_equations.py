"""Equations: with a source and keys for ties."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.contracts import Cohort, Evaluation, Purpose
from fleetsim.selectors.autofl.selector import AutoFLSettings
from fleetsim.selectors.divfl.selector import DivFlSettings
from fleetsim.selectors.fedcs.selector import FedCSSettings
from fleetsim.selectors.fedgra.selector import FedGRASettings
from fleetsim.selectors.gpfl.selector import GPFLSettings
from fleetsim.selectors.power_of_choice.selector import PowerOfChoiceSettings
from fleetsim.selectors.rbcs_f.selector import RBCSFSettings
from fleetsim.selectors.survey.selector import SurveySettings
from fleetsim.selectors.tie_breaking import best, tie_keys
from tests.selectors.rounds import met, probed, report_of, resources_of

PACKAGE = "fleetsim.selectors."
ONES = np.ones(3)
CHOICES = {
    "fedgra.equations.choose": {"grade": ONES, "fairness": ONES, "is_forced": ONES < 0, "num": 3},
    "survey.equations.choose_others": {"took_part": ONES < 0, "num": 3},
    "tifl.equations.choose": {"tier_of": np.zeros(3, dtype=np.int64), "tier": 0, "num": 3},
    "divfl.equations.greedy": {"dissimilarity": np.ones((3, 3)), "num": 3},
    "fedcs.equations.pack": {"download_s": ONES, "update_s": ONES, "upload_s": ONES,
        "deadline_s": 99.0},
    "rbcs_f.equations.choose": {"queues": ONES, "exchange_s": ONES, "num": 3},
    "favor.equations.choose": {"values": ONES, "num": 3, "num_random": 0, "draws": ONES},
    "fedcor.equations.choose": {"covariance": np.eye(3), "alpha": ONES, "weights": ONES / 3,
        "candidates": np.arange(3), "wanted": 3},
    "oort.equations.exploration_pool": {"weights": ONES, "num": 3, "window": 1.0},
    "tie_breaking.best": {"scores": ONES, "num": 3},
}  # fmt: skip
"""Three clients that only the keys tell apart."""


@pytest.mark.parametrize("choice", CHOICES)
def test_ids_count_from_zero_and_equals_go_by_their_keys(choice):
    module, name = choice.rsplit(".", 1)
    choose = getattr(import_module(PACKAGE + module), name)

    assert choose(**CHOICES[choice], keys=np.array([0.5, 0.9, 0.1])).tolist() == [2, 0, 1]
    assert choose(**CHOICES[choice], keys=np.array([0.1, 0.5, 0.9])).tolist() == [0, 1, 2]


FEW_LEVELS = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf])


@given(scores=st.lists(FEW_LEVELS, max_size=30), num=st.integers(0, 35), key_seed=st.integers(0, 5))
def test_best_is_the_head_of_the_full_sort(scores, num, key_seed):
    keys = rng.stream(key_seed, "keys").random(len(scores))
    slow = sorted(range(len(scores)), key=lambda i: (-scores[i], keys[i]))[:num]

    assert best(np.array(scores, dtype=np.float64), num, keys).tolist() == slow


def test_the_order_among_two_does_not_depend_on_who_else_is_there():
    keys = tie_keys("random", 6, rng.stream(1, "ties"))
    all_six = np.arange(6)[best(np.ones(6), 6, keys)].tolist()
    three = np.array([1, 3, 4])
    only_three = three[best(np.ones(3), 3, keys[three])].tolist()

    assert only_three == [client for client in all_six if client in (1, 3, 4)]


def test_unknown_scores_rank_last_and_a_negative_number_or_missing_keys_are_refused():
    assert best(np.array([np.nan, -5.0, 1.0]), 3, np.zeros(3)).tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="got -1"):
        best(np.ones(2), -1, np.ones(2))
    with pytest.raises(ValueError, match="tie keys"):
        best(np.ones(2), 1, np.ones(3))


@pytest.mark.parametrize(
    "settings",
    [
        AutoFLSettings(exploration=0.0),
        DivFlSettings(),
        FedCSSettings(asked_fraction=1.0),
        FedGRASettings(every_rounds=1),
        GPFLSettings(),
        PowerOfChoiceSettings(d=30),
        RBCSFSettings(guaranteed_fraction=0.1),
        SurveySettings(),
    ],
    ids=lambda settings: settings.kind,
)
def test_equal_clients_go_by_lowest_id_only_if_asked(settings):
    def answer(request, stage):
        report = report_of(request.client, loss=1.0, purpose=Purpose.PROBE)
        return report._replace(vector=np.ones(3, dtype=np.float32), resources=resources_of())

    def chosen(ties, round_):
        known = {"planned_rounds": 9, "validation": Evaluation(0.5, 1.0)}
        fleet, selector = met(
            settings.model_copy(update={"ties": ties}), (10,) * 30, cohort=3, **known
        )
        _, view = probed(selector, fleet, answer, round_=round_)
        choice = selector.select(view)
        return tuple((choice.clients if isinstance(choice, Cohort) else choice).tolist())

    assert {chosen("lowest_id", round_) for round_ in range(1, 6)} == {(0, 1, 2)}
    assert len({chosen("random", round_) for round_ in range(1, 6)}) == 5
