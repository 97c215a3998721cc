from pathlib import Path

import pytest
from pydantic import ValidationError

import fleetsim
from fleetsim.contracts import Work, WorkKind
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.conv.channels_last import ChannelsLastKernel
from fleetsim.kernels.stacked.stacked_sgd import StackedKernel
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.local import optimizer_settings as decays
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.models.settings import LeNet5Settings, LogisticSettings
from fleetsim.training.worker_pool import Pool
from tests.learning.side_by_side import Client, Fleet, assert_equal, built, local

CASES: list[tuple[decays.DecaySettings, list[int], list[float]]] = [
    (decays.NoDecaySettings(), [0, 1, 2, 10**6], [1, 1, 1, 1]),
    # A step comes after its round.
    (
        decays.StepDecaySettings(after_rounds=(2, 5), factor=0.5),
        [0, 2, 3, 5, 6, 99],
        [1, 1, 2, 2, 4, 4],
    ),
    (decays.ExponentialDecaySettings(factor=0.5), [0, 1, 2, 3], [1, 1, 2, 4]),
    (decays.ExponentialDecaySettings(factor=0.5, every_rounds=3), [1, 3, 4, 6, 7], [1, 1, 2, 2, 4]),
    # Half a cosine from 1 to its floor.
    (
        decays.CosineDecaySettings(over_rounds=4, floor_fraction=0.2),
        [0, 1, 3, 5, 99],
        [1, 1, 5 / 3, 5, 5],
    ),
]


@pytest.mark.parametrize(("decay", "rounds", "divisors"), CASES, ids=lambda case: str(case)[:20])
def test_a_decay_divides_the_rate_from_its_rounds_on(decay, rounds, divisors):
    sgd = SgdSettings(learning_rate=0.8, decay=decay)
    result = [0.8 / sgd.learning_rate_at(round_) for round_ in rounds]

    assert result == pytest.approx(divisors, rel=1e-12)


def test_a_warm_up_over_rounds_multiplies_the_decay() -> None:
    sgd = SgdSettings(
        learning_rate=0.8, warm_up_rounds=4, decay=decays.CosineDecaySettings(over_rounds=2)
    )

    assert [sgd.learning_rate_at(r) for r in (0, 1, 2, 3)] == pytest.approx([0.2, 0.2, 0.2, 0.0])


@pytest.mark.parametrize("after_rounds", [[], [5, 2], [5, 5], [0]])
def test_rounds_of_a_decay_ascend(after_rounds: list[int]) -> None:
    with pytest.raises(ValidationError, match="after_rounds"):
        decays.StepDecaySettings.model_validate({"after_rounds": after_rounds, "factor": 0.5})


@pytest.mark.parametrize("kind", [Kernel, StackedKernel, VectorisedKernel, ChannelsLastKernel])
def test_jobs_of_one_call_train_each_at_its_own_rate(kind: type[Kernel]) -> None:
    """As in a run whose settings state the rate; only jobs of one rate share a stack."""
    model = LeNet5Settings() if kind is ChannelsLastKernel else LogisticSettings()
    shape = (1, 12, 12)
    fleet = Fleet(built(model, shape), [Client(size, 2) for size in (9, 15, 6, 7)], shape=shape)
    rates = [None, 0.05, 0.1, 0.05]
    jobs = [job._replace(learning_rate=rate) for job, rate in zip(fleet.jobs(), rates, strict=True)]
    kernel = fleet.kernel(kind, local(momentum=0.5))
    result = Pool(kernel, 1).compute(jobs)

    at = {rate: fleet.train(Kernel, local(5, rate, momentum=0.5)) for rate in (0.05, 0.1)}
    assert_equal(fleet, result, [at[rate or 0.1][client] for client, rate in enumerate(rates)])
    if kind in (StackedKernel, VectorisedKernel):
        chunks = kernel.chunks([*jobs, jobs[0]._replace(work=Work(WorkKind.EVALUATE))])
        assert sorted(map(sorted, chunks)) == [[0, 2], [1, 3], [4]]


def test_a_run_trains_every_round_at_its_rate(tmp_path: Path) -> None:
    """After two rounds the rate falls to nothing: the model of round 2 stays for ever."""
    decay = "task.local.optimizer.decay={kind: steps, after_rounds: [2], factor: 1.0e-30}"
    sets = ["stop.rounds=4", "fleet.size=12", "server.cohort=4", decay]
    done = fleetsim.run(fleetsim.load("quickstart", sets), out=tmp_path / "run", workers=1)

    loss = done.rounds["loss"].tolist()
    assert loss[0] > loss[1] == loss[2] == loss[3]
