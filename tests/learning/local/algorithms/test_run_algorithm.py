import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import ClientUpdate
from fleetsim.errors import PluginError
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.own_training import OwnTrainingKernel
from fleetsim.learning.local.algorithms.feddyn import FedDyn
from fleetsim.learning.local.step_settings import AugmentationSettings
from fleetsim.training.worker_pool import Pool
from tests.learning.local.algorithms.quadratic import LOCAL, number, task
from tests.learning.side_by_side import SMALL, Client, Fleet, assert_equal, local, same


@pytest.mark.parametrize("name", ["2nn", "batch norm", "gpt"])
def test_the_first_task_of_feddyn_equals_the_built_in_fedprox(name: str) -> None:
    """Its gradient is 0 then."""
    clients = [Client(11, 2, tells=True), Client(7, 3, most_steps=3), Client(5, 1)]
    fleet, chosen = Fleet(SMALL[name](), clients), local(momentum=0.5)
    results = fleet.train(OwnTrainingKernel, chosen, algorithm=FedDyn(0.5))

    results = [result._replace(state=None) for result in results]
    assert_equal(fleet, results, fleet.train(Kernel, local(momentum=0.5, mu=0.5)))


def test_the_documented_example_has_15_lines_and_equals_the_built_in_fedprox() -> None:
    page = Path(__file__).parents[4] / "docs" / "models" / "own-training.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    namespace: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), namespace)
    fleet = Fleet(SMALL["2nn"](), [Client(11, 2), Client(7, 1)])

    results = fleet.train(OwnTrainingKernel, local(), algorithm=namespace["FedProx"]())

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
        Pool(fleet.kernel(OwnTrainingKernel, local(), algorithm=Sums()), workers).compute(jobs)
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
    (None, r"train_client must return a ClientUpdate \(from fleetsim.contracts\), got NoneType"),
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
    pool = Pool(fleet.kernel(OwnTrainingKernel, local(), algorithm=Fails()), workers)

    with pytest.raises(PluginError, match=r"Fails.train_client of client \d fails: Zero") as error:
        pool.compute(fleet.jobs())
    assert "\n" not in str(error.value)
    assert "test_run_algorithm.py, line" in str(error.value)


def test_mixed_samples_have_no_single_labels() -> None:
    class Batches:
        def train_client(self, model: Any, data: Any, generator: Any, settings: Any) -> Any:
            list(data.batches(generator))

    mixed = LOCAL.model_copy(update={"augmentation": AugmentationSettings(mixup_alpha=0.2)})

    with pytest.raises(PluginError, match="two sets of labels; use steps"):
        task(Batches(), start=1.0, sample=3.0, settings=mixed)
