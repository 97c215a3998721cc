"""Algorithms of clients: by hand from their papers' equations, and what is asked of any."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fleetsim.contracts import (
    ClientTraining,
    ClientUpdate,
    JobResult,
    Outcome,
    Purpose,
    Report,
    ServerStart,
    ServerStep,
    Wire,
)
from fleetsim.counts import LastBatch
from fleetsim.errors import PluginError
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.user_training import UserTrainingKernel
from fleetsim.learning.local.algorithms.client_data import ClientData, run_algorithm
from fleetsim.learning.local.algorithms.published import Ditto, FedDyn, Scaffold
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import AugmentationSettings
from fleetsim.training.worker_pool import Pool
from tests.learning.side_by_side import SMALL, Array, Client, Fleet, assert_equal, local, same


class Quadratic(nn.Module):
    """One weight w and the loss (w - a)^2 / 2 of a sample a, to compute by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.weight - inputs

    def losses(self, scores: Tensor, labels: Tensor) -> Tensor:
        return scores.squeeze(1).square() / 2


LOCAL = LocalSettings(epochs=2, batch_size=1, optimizer=SgdSettings(learning_rate=0.1))


def number(value: float) -> Array:
    return np.array([value])


def task(
    algorithm: ClientTraining,
    *,
    start: float,
    sample: float,
    settings: LocalSettings = LOCAL,
    **more: Any,
) -> Any:  # JobResult
    """Two steps of rate .1 of a client with one sample."""
    model = Quadratic()
    inputs = torch.tensor([[sample]], dtype=torch.float64)
    kept: Any = {"state": {}, "received": {}, "most_steps": None, **more}
    kept |= {"losses": model.losses, "settings": settings, "epochs": 2}
    data = ClientData(client=3, inputs=inputs, labels=torch.tensor([0]), **kept)
    return run_algorithm(algorithm, model, number(start), data, np.random.default_rng(1))


def weight_of(result: JobResult) -> float:
    assert result.vector is not None
    return float(result.vector[0])


CONTROLS: Any = {"state": {"control": number(0.2)}, "received": {"control": number(0.5)}}
"""Of a client of SCAFFOLD and of its server."""


def start_of(num_clients: int, *buffers: bool) -> ServerStart:
    parameters: Array = np.zeros(len(buffers))
    return ServerStart(parameters, np.array(buffers), num_clients)


def report(client: int, **more: Any) -> Report:
    return Report(client, Purpose.TRAIN, Outcome.DELIVERED, 0.0, 1.0, 1, **more)


def test_a_scaffold_client_takes_corrected_steps_and_option_ii() -> None:
    """x = 1, a = 3, c = .5, c_i = .2: steps along (w - 3) + .3.

    y: 1 + .1 * 1.7 = 1.17; 1.17 + .1 * 1.53 = 1.323. c_i+ = .2 - .5 + (1 - 1.323) / (2 * .1).
    """
    result = task(Scaffold(), start=1.0, sample=3.0, **CONTROLS)

    assert weight_of(result) == pytest.approx(1.323, rel=1e-12)
    assert result.state == {"control": pytest.approx([-1.915], rel=1e-12)}
    assert result.sent == {"control": pytest.approx([-2.115], rel=1e-12)}
    # The loss of the last epoch, before its step: (1.17 - 3)^2 / 2.
    assert result.loss == pytest.approx(1.83**2 / 2, rel=1e-12)


def test_a_scaffold_client_that_is_stopped_divides_by_the_steps_it_took() -> None:
    """One step from 1 to 1.2 by plain SGD: c_i+ = (1 - 1.2) / .1, the gradient there."""
    received = {"control": number(0.0)}
    result = task(Scaffold(), start=1.0, sample=3.0, received=received, most_steps=1)

    assert weight_of(result) == pytest.approx(1.2, rel=1e-12)
    assert result.state == {"control": pytest.approx([-2.0], rel=1e-12)}


def test_a_scaffold_client_at_rate_0_keeps_its_control():
    still = LOCAL.optimizer.model_copy(update={"learning_rate": 0.0})
    settings = LOCAL.model_copy(update={"optimizer": still})
    result = task(Scaffold(), start=1.0, sample=3.0, **CONTROLS, settings=settings)

    assert weight_of(result) == 1.0
    assert result.state == {"control": [0.2]}


def test_scaffolds_server_moves_its_control_by_the_changes_over_the_whole_fleet() -> None:
    """c = .5 + (-2.115 + 1) / 4, and the model is the aggregator's."""
    reports = [report(k, sent={"control": number(v)}) for k, v in ((0, -2.115), (3, 1.0))]
    step = ServerStep(start_of(4, False), number(1.0), number(9.0), reports)
    model, server = Scaffold().server_step({"control": number(0.5)}, step)

    assert model.tolist() == [9.0]
    assert server["control"] == pytest.approx([0.22125], rel=1e-12)


def test_scaffolds_controls_are_of_trained_parameters_and_travel_both_ways() -> None:
    scaffold = Scaffold()

    assert scaffold.start_server(start_of(4, False, True, False))["control"].tolist() == [0, 0]
    assert scaffold.wire(1000) == Wire(download_byte=4000, upload_byte=4000)


def test_a_feddyn_client_minimises_its_regularised_objective() -> None:
    """w = 1, a = 3, g = .4, alpha = .5: steps along (t - 3) - .4 + .5 (t - 1).

    t: 1 + .24 = 1.24; 1.24 + .1 * 2.04 = 1.444. g+ = .4 - .5 * .444.
    """
    result = task(FedDyn(0.5), start=1.0, sample=3.0, state={"gradient": number(0.4)})

    assert weight_of(result) == pytest.approx(1.444, rel=1e-12)
    assert result.state == {"gradient": pytest.approx([0.178], rel=1e-12)}
    assert result.sent is None


def test_feddyns_server_corrects_the_mean_by_its_h() -> None:
    """h+ = .3 - .5 / 4 (.444 - .1) = .257; mean 1.172, so the model is 1.172 - .257 / .5 = .658.

    The second number is a buffer: its mean stays.
    """
    base = np.array([1.0, 7.0])
    reports = [report(k, vector=np.array([v, 8.0]), base=base) for k, v in ((0, 1.444), (2, 0.9))]
    step = ServerStep(start_of(4, False, True), base, np.array([1.172, 8.0]), reports)
    model, server = FedDyn(0.5).server_step({"h": number(0.3)}, step)

    assert server["h"] == pytest.approx([0.257], rel=1e-12)
    assert model == pytest.approx([0.658, 8.0], rel=1e-12)


@pytest.mark.parametrize(("before", "personal"), [(2.0, 2.0925), (None, 1.37)])
def test_a_ditto_client_trains_both_models(before: float | None, personal: float) -> None:
    """w = 1, a = 3: w 1.2, 1.38. lambda = .5: v from 2: 2.05, 2.0925; from w: 1.2, 1.37."""
    state = {} if before is None else {"personal": number(before)}
    result = task(Ditto(0.5), start=1.0, sample=3.0, state=state)

    assert weight_of(result) == pytest.approx(1.38, rel=1e-12)
    assert result.state == {"personal": pytest.approx([personal], rel=1e-12)}
    loss = (result.metrics or {})["personal_loss"]
    assert loss == pytest.approx((personal - 3) ** 2 / 2, rel=1e-12)
    assert result.loss == pytest.approx(1.8**2 / 2, rel=1e-12)  # of the global model


@pytest.mark.parametrize(
    ("name", "last"), [("2nn", "drop"), ("batch norm", "merge"), ("gpt", "keep")]
)
def test_the_first_task_of_feddyn_equals_the_built_in_fedprox(name: str, last: LastBatch) -> None:
    """Its gradient is 0 then."""
    clients = [Client(11, 2, tells=True), Client(7, 3, most_steps=3), Client(5, 1)]
    fleet, chosen = Fleet(SMALL[name](), clients), local(momentum=0.5, last_batch=last)
    results = fleet.train(UserTrainingKernel, chosen, algorithm=FedDyn(0.5))

    results = [result._replace(state=None) for result in results]
    assert_equal(
        fleet, results, fleet.train(Kernel, chosen.model_copy(update={"proximal_mu": 0.5}))
    )


def test_the_documented_example_has_15_lines_and_equals_the_built_in_fedprox() -> None:
    page = Path(__file__).parents[3] / "docs" / "models" / "own-training.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    namespace: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), namespace)
    fleet = Fleet(SMALL["2nn"](), [Client(11, 2), Client(7, 1)])

    results = fleet.train(UserTrainingKernel, local(), algorithm=namespace["FedProx"]())

    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    assert max(fleet.errors(results, fleet.train(Kernel, local(mu=0.5)))) <= 1e-12
    assert results[1].loss == pytest.approx(results[1].loss_rms)


def test_a_job_carries_what_a_client_keeps_and_receives() -> None:
    """One call keeps the sum of what came; two processes compute the same as one."""

    class Sums:
        def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
            total = data.state.get("total", np.zeros(2)) + data.received["more"]
            metrics = {"draw": float(generator.random()), "rate": settings.optimizer.learning_rate}
            return ClientUpdate(1.5, state={"total": total}, sent=data.received, metrics=metrics)

    fleet = Fleet(SMALL["2nn"](), [Client(4), Client(6)])
    more = {"more": np.array([1.0, 2.0])}
    kept = {"total": np.array([10.0, 20.0])}
    plain = [job._replace(learning_rate=0.25, received=more) for job in fleet.jobs()]
    jobs = [plain[0]._replace(state={}), plain[1]._replace(state=kept)]
    one, two = (
        Pool(fleet.kernel(UserTrainingKernel, local(), algorithm=Sums()), workers).compute(jobs)
        for workers in (1, 2)
    )

    for results in (one, two):
        totals = [result.state["total"].tolist() for result in results if result.state]
        assert totals == [[1.0, 2.0], [11.0, 22.0]]
    assert [(r.loss_rms, r.metrics and r.metrics["rate"]) for r in one] == [(1.5, 0.25)] * 2
    assert len({result.metrics["draw"] for result in one if result.metrics}) == 2
    for result, again in zip(one, two, strict=True):
        assert same(result._replace(state=None, sent=None), again._replace(state=None, sent=None))


WRONG: list[Any] = [
    (None, r"train_client must return a ClientUpdate \(from fleetsim.contracts\), got None"),
    ({"loss": "low"}, "with a number as loss, got str"),
    ({"metrics": {"x": "y"}}, "with a number as x, got str"),
    ({"state": {"c": [1.0]}}, "whose state is a dict of numpy arrays of numbers"),
    ({"sent": {"c": np.array(["a"])}}, "whose sent is a dict of numpy arrays"),
    ({"sent": [number(1.0)]}, "whose sent .* got list"),
    ({"metrics": [1.0]}, "whose metrics are numbers by name, got list"),
    ({"metrics": {1: 1.0}}, "whose metrics are numbers by name"),
    ({"loss_rms": "low"}, "with a number as loss_rms, got str"),
    ({"epoch_losses": "ab"}, "whose epoch_losses are a tuple of numbers"),
    ({"epoch_losses": ("a",)}, "with a number as epoch_losses, got str"),
]


@pytest.mark.parametrize(("answer", "message"), WRONG)
def test_a_wrong_answer_is_one_line(answer, message):
    keys: Any = {"loss": 0.1, **(answer or {})}
    update = answer and ClientUpdate(**keys)

    with pytest.raises(PluginError, match=message) as error:
        task(SimpleNamespace(train_client=lambda *_: update), start=1.0, sample=3.0)
    assert "\n" not in str(error.value)


def test_numbers_of_numpy_become_those_that_json_has() -> None:
    numbers: Any = {"metrics": {"x": np.float32(0.5), "n": 2}, "epoch_losses": (np.float32(1),)}
    update = ClientUpdate(0.1, **numbers)
    result = task(SimpleNamespace(train_client=lambda *_: update), start=1.0, sample=3.0)

    assert json.dumps([result.metrics, result.epoch_losses]) == '[{"x": 0.5, "n": 2}, [1.0]]'


@pytest.mark.parametrize("workers", [1, 2])
def test_a_training_that_fails_is_one_line_with_its_place(workers: int) -> None:
    class Fails:
        def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
            raise ZeroDivisionError("by zero")

    fleet = Fleet(SMALL["2nn"](), [Client(4), Client(6)])
    pool = Pool(fleet.kernel(UserTrainingKernel, local(), algorithm=Fails()), workers)

    with pytest.raises(PluginError, match=r"Fails.train_client of client \d fails: Zero") as error:
        pool.compute(fleet.jobs())
    assert "\n" not in str(error.value)
    assert "test_algorithms.py, line" in str(error.value)


def test_mixed_samples_have_no_single_labels() -> None:
    class Batches:
        def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
            list(data.batches(generator))

    mixed = LOCAL.model_copy(update={"augmentation": AugmentationSettings(mixup_alpha=0.2)})

    with pytest.raises(PluginError, match="two sets of labels; use steps"):
        task(Batches(), start=1.0, sample=3.0, settings=mixed)
