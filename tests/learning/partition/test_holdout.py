from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import Job, SampleForm, Work, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.data.built_in import DigitsSettings
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import LogisticSettings
from fleetsim.learning.partition.client_samples import (
    hold_out,
    num_held,
    shuffle_holdouts,
    split,
    split_validation,
)
from fleetsim.scenario import load
from fleetsim.simulate import run

SMALL = ["fleet.size=20", "stop.rounds=2", "task.holdout_fraction=0.25", "task.local.epochs=1"]
POW_D = "server.selector={kind: power-of-choice, variant: pow-d}"
EVALUATE, TRAIN = Work(WorkKind.EVALUATE), Work(WorkKind.TRAIN, epochs=1)


@given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=6),
    fraction=st.floats(0.01, 0.5),
    seed=st.integers(0, 5),
)
def test_every_sample_is_either_trained_with_or_held_out(sizes, fraction, seed):
    rows = np.arange(sum(sizes)) * 3
    shares = np.split(rows, np.cumsum(sizes)[:-1])
    training, evaluation = hold_out(shares, fraction, seed=seed)

    for share, kept, held in zip(shares, training, evaluation, strict=True):
        assert sorted([*kept, *held]) == share.tolist()
        most = max(m for m in range(share.size) if m / share.size <= fraction)
        assert held.size == max(1, most)
        assert kept.size >= 1


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    fraction=st.floats(0, 0.999),
    seed=st.integers(0, 5),
)
def test_the_server_leaves_every_natural_client_a_sample_or_refuses(sizes, fraction, seed):
    owner = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    num_kept = int(fraction * owner.size)

    if num_kept > owner.size - len(sizes):
        with pytest.raises(ScenarioError, match=r"evaluate\.validation_fraction = .* \d+ natural"):
            split_validation(owner.size, fraction, owner=owner, seed=seed)
        return
    kept, assigned = split_validation(owner.size, fraction, owner=owner, seed=seed)

    assert kept.size == num_kept
    assert sorted([*kept, *assigned]) == list(range(owner.size))
    assert set(owner[assigned]) == set(range(len(sizes)))


def test_a_fraction_that_leaves_a_natural_client_nothing_is_refused_with_the_most_that_does_not():
    with pytest.raises(ScenarioError, match=r"0\.5: 2 of 5 .* 4 natural clients; .* to 0\.2$"):
        split_validation(5, 0.5, owner=np.array([0, 1, 2, 3, 3]), seed=1)
    with pytest.raises(ScenarioError, match=r"leave it out$"):
        split_validation(4, 0.5, owner=np.arange(4), seed=1)
    # Owners change nothing where each keeps a sample anyway.
    kept, without = (
        split_validation(200, 0.1, owner=owner, seed=3)[0] for owner in (np.arange(200) % 2, None)
    )
    assert kept.tolist() == without.tolist()


def test_which_ones_are_held_out_depends_on_the_client_alone():
    shares = [np.arange(20), np.arange(20, 40)]
    _, both = hold_out(shares, 0.2, seed=1)
    _, first = hold_out(shares[:1], 0.2, seed=1)

    assert both[0].tolist() == first[0].tolist()
    assert both[1].tolist() != (both[0] + 20).tolist()


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), seed=st.integers(0, 5))
def test_shuffled_holdouts_keep_their_sizes_and_samples(sizes, seed):
    rows = np.arange(sum(sizes)) * 3
    held_out = np.split(rows, np.cumsum(sizes)[:-1])
    assigned = shuffle_holdouts(held_out, seed=seed)

    assert [rows.size for rows in assigned] == sizes
    assert sorted(np.concatenate(assigned)) == rows.tolist()
    assert all((np.diff(rows) > 0).all() for rows in assigned)


def test_with_shuffled_holdouts_all_clients_evaluate_on_all_labels():
    # Ten clients of 200 samples of one label each: a client then has 20 of each label, whose number
    # is hypergeometric with variance 200 * .1 * .9 * 1800/1999 = 16.2; four standard errors are 16.
    held_out = np.split(np.arange(2000), 10)
    counts = [np.bincount(rows // 200, minlength=10) for rows in shuffle_holdouts(held_out, seed=3)]

    assert np.abs(np.array(counts) - 20).max() <= 16
    with pytest.raises(ScenarioError, match=r"task.holdout_from.*set task.holdout_fraction"):
        load("quickstart", ["task.holdout_from=everybody"])


def test_clients_evaluate_on_held_out_samples_and_train_with_the_rest():
    """Held-out samples have the label 1 and the others the label 0, and the model always says 1:
    a model that is evaluated on held-out samples is always right."""
    inputs = np.ones((10, 2), dtype=np.float32)
    labels = np.array([0] * 8 + [1] * 2)
    held: Any = {"evaluated": [np.array([8, 9])]}
    data = TrainerData(inputs, labels, [np.arange(8)], inputs, labels, **held)
    module = build_model(LogisticSettings(), SampleForm((2,), 2), seed=1)
    says_one = np.array([0, 0, 0, 0, -9, 9], dtype=np.float32)
    local = LocalSettings(epochs=1, batch_size=4, optimizer=SgdSettings(learning_rate=0.1))
    kernel = Kernel(module, data, local_settings=local, seed=1)
    assert flatten(module).size == says_one.size

    report = kernel.compute([Job(0, EVALUATE, says_one, (1,))])[0]
    part = kernel.compute([Job(0, Work(WorkKind.EVALUATE, num_samples=1), says_one, (1,))])[0]
    trained = kernel.compute([Job(0, TRAIN, says_one, (1,))])[0]

    assert (report.num_samples, report.accuracy) == (2, 1.0)
    assert (part.num_samples, part.accuracy) == (1, 1.0)
    assert trained.num_samples == 8
    assert trained.loss == pytest.approx(18.0, rel=0.2)  # log(1 + exp(18)) where it begins


def test_a_run_trains_with_what_its_clients_keep_and_probes_what_they_hold_out(tmp_path):
    scenario = load("quickstart", [*SMALL, POW_D])
    tasks = run(scenario, out=tmp_path / "run").tasks
    trained, probed = (
        tasks[(tasks.outcome == "delivered") & (tasks.purpose == kind)]
        for kind in ("train", "probe")
    )
    labels = load_dataset(DigitsSettings(), seed=1, num_clients=20).train_labels
    parts = split(scenario.task.partition, labels=labels, owner=None, num_clients=20, seed=1)
    sizes = np.array([len(part) for part in parts])
    held = np.maximum(1, sizes // 4)

    assert len(trained) > 0
    assert len(probed) > 0
    assert trained.num_samples.tolist() == (sizes - held)[trained.client].tolist()
    assert probed.num_samples.tolist() == held[probed.client].tolist()


def test_shares_are_rounded_down_from_the_number_as_it_is_written():
    # 0.29 * 100 is 28.999999999999996 in binary.
    assert num_held(np.array([100, 99, 200, 100]), 0.29).tolist() == [29, 28, 58, 29]
    with pytest.raises(ScenarioError, match=r"holdout_fraction = 0.2: client 1 has 1 sample"):
        num_held(np.array([5, 1]), 0.2)
