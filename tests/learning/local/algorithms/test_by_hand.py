"""SCAFFOLD, FedDyn and Ditto against their papers' equations, computed by hand."""

from typing import Any

import numpy as np
import pytest

from fleetsim.contracts import Outcome, Purpose, Report, ServerStart, ServerStep, Wire
from fleetsim.learning.local.algorithms.ditto import Ditto
from fleetsim.learning.local.algorithms.feddyn import FedDyn
from fleetsim.learning.local.algorithms.scaffold import Scaffold
from tests.learning.local.algorithms.quadratic import LOCAL, Array, number, task, weight_of

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
