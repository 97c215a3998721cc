from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn
from torch.nn.functional import cross_entropy

from fleetsim import rng
from fleetsim.contracts import JobResult
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.vmap.vmap_sgd import VectorisedKernel
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local import optimizer_settings as optimizers
from fleetsim.learning.local import optimizer_settings as schedules
from fleetsim.learning.local.optimizers import square_root
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.scenario import load
from tests.learning.local.tanh_network import NUM_SAMPLES, data, network, passes, stream
from tests.learning.side_by_side import SMALL, Array, Client, Fleet, assert_equal, vector_of
from tests.scenario.small import BASE

RATE = 0.05
SMOOTH: dict[str, Any] = {"learning_rate": RATE, "epsilon": 1e-3}
KINDS: dict[str, optimizers.OptimizerSettings] = {
    "plain": optimizers.SgdSettings(learning_rate=RATE),
    "momentum": optimizers.SgdSettings(learning_rate=RATE, momentum=0.7, weight_decay=0.01),
    "dampened": optimizers.SgdSettings(
        learning_rate=RATE, momentum=0.8, dampening=0.3, weight_decay=0.02
    ),
    "nesterov": optimizers.SgdSettings(
        learning_rate=RATE, momentum=0.8, nesterov=True, weight_decay=0.02
    ),
    "adam": optimizers.AdamSettings(**SMOOTH, beta1=0.8, beta2=0.95, weight_decay=0.02),
    "adamw": optimizers.AdamWSettings(**SMOOTH, beta1=0.8, beta2=0.95, weight_decay=0.3),
    "adagrad": optimizers.AdagradSettings(**SMOOTH, initial_sum=0.1, weight_decay=0.02),
    "rmsprop by default": optimizers.RmsPropSettings(learning_rate=RATE),
    "rmsprop": optimizers.RmsPropSettings(
        **SMOOTH, alpha=0.9, centered=True, momentum=0.7, weight_decay=0.02
    ),
}
BY_TORCH: dict[Any, Callable[..., torch.optim.Optimizer]] = {
    optimizers.SgdSettings: torch.optim.SGD,
    optimizers.AdamSettings: torch.optim.Adam,
    optimizers.AdamWSettings: torch.optim.AdamW,
    optimizers.AdagradSettings: torch.optim.Adagrad,
    optimizers.RmsPropSettings: torch.optim.RMSprop,
}
NAMES = {"learning_rate": "lr", "epsilon": "eps", "initial_sum": "initial_accumulator_value"}
"""Names that torch has for our keys."""


def torch_optimizer(settings: Any, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    keys = {NAMES.get(key, key): value for key, value in settings}
    for key in ("kind", "decay", "warm_up_rounds", "within_task"):
        del keys[key]
    if "beta1" in keys:
        keys["betas"] = (keys.pop("beta1"), keys.pop("beta2"))
    return BY_TORCH[type(settings)](parameters, **keys)


SCHEDULES: dict[str, schedules.StepScheduleSettings] = {
    "constant": schedules.ConstantRateSettings(),
    "warm-up": schedules.WarmUpSettings(warm_up_steps=4),
    "steps": schedules.AfterStepsSettings(after_steps=(2, 7), factor=0.5),
    "exponential": schedules.ExponentialSettings(factor=0.9, every_steps=2, warm_up_steps=3),
    "cosine": schedules.CosineSettings(floor_fraction=0.1, warm_up_steps=2),
}


def local(optimizer: optimizers.OptimizerSettings, **more: Any) -> LocalSettings:
    return LocalSettings(epochs=2, batch_size=5, optimizer=optimizer, **more)


def ours(chosen: LocalSettings, most_steps: int) -> JobResult:
    module, base = network()
    how = passes(2, most_steps=most_steps, tells_epoch_losses=True)
    return local_sgd.train(module, base, *data(), chosen, how)


def by_torch(chosen: LocalSettings, most_steps: int) -> tuple[Array, list[list[float]]]:
    """Weights by torch's own optimizer, clipping and smoothing on the same batches, with rates set
    by hand; and for each epoch what the samples lost before the step of their batch."""
    (module, _), (inputs, labels) = network(), data()
    optimizer = torch_optimizer(chosen.optimizer, module.parameters())
    sent = [parameter.detach().clone() for parameter in module.parameters()]
    words = stream().bit_generator.random_raw(2 * NUM_SAMPLES)
    rows = np.argsort(words.reshape(2, NUM_SAMPLES), axis=1)
    size = chosen.batch_size
    batches = [part for order in rows for part in np.split(order, range(size, NUM_SAMPLES, size))]
    epochs: list[list[float]] = []
    for number, batch in enumerate(batches[:most_steps], 1):
        smoothed: Any = {"reduction": "none", "label_smoothing": chosen.label_smoothing}
        each = cross_entropy(module(inputs[batch]), labels[batch], **smoothed)
        if (number - 1) % (len(batches) // 2) == 0:
            epochs.append([])
        epochs[-1] += each.tolist()
        pairs = zip(module.parameters(), sent, strict=True)
        distance = torch.stack([((now - then) ** 2).sum() for now, then in pairs]).sum()
        optimizer.zero_grad()
        torch.autograd.backward(each.mean() + chosen.proximal_mu / 2 * distance)
        if chosen.max_gradient_norm is not None:
            nn.utils.clip_grad_norm_(module.parameters(), chosen.max_gradient_norm)
        factor = chosen.optimizer.within_task.factor_at(number, len(batches))
        for group in optimizer.param_groups:
            group["lr"] = RATE * factor
        optimizer.step()
    return flatten(module), epochs


def assert_as_torch(chosen: LocalSettings, most_steps: int) -> None:
    result, (expected, epochs) = ours(chosen, most_steps), by_torch(chosen, most_steps)

    np.testing.assert_allclose(vector_of(result), expected, rtol=1e-12, atol=1e-14)
    assert result.num_samples == NUM_SAMPLES
    assert result.epoch_losses == pytest.approx(list(map(np.mean, epochs)), rel=1e-12)
    assert result.loss == pytest.approx(np.mean(epochs[-1]), rel=1e-12)
    assert result.loss_rms == pytest.approx(np.sqrt(np.mean(np.square(epochs[-1]))), rel=1e-12)


@pytest.mark.parametrize("most_steps", [1, 2, 5, 6, 7, 10])
@pytest.mark.parametrize("name", KINDS)
def test_each_step_is_that_of_torch_optimizer_optimizer_in_float64(name, most_steps):
    """Five steps an epoch, of 5, 5, 5, 5 and 3 samples."""
    assert_as_torch(local(KINDS[name]), most_steps)


@pytest.mark.parametrize("name", KINDS)
def test_steps_within_the_backward_pass_have_the_same_bits_and_hold_no_gradient(name):
    chosen = local(KINDS[name], proximal_mu=0.3)
    module, base = network()
    together = local_sgd.train(module, base, *data(), chosen, passes(2))
    within = local_sgd.train(module, base, *data(), chosen, passes(2, in_backward=True))

    assert vector_of(within).tobytes() == vector_of(together).tobytes() != base.tobytes()
    assert within.loss == together.loss
    assert [weight.grad for weight in module.parameters()] == [None] * 4


def test_a_limited_norm_needs_all_gradients_at_once():
    (module, base), chosen = network(), local(KINDS["plain"], max_gradient_norm=1.0)
    with pytest.raises(ValueError, match="call step"):
        local_sgd.train(module, base, *data(), chosen, passes(in_backward=True))


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_weight_on_which_the_loss_does_not_depend_is_an_error(in_backward):
    module, _ = network()
    module.register_parameter("unused", nn.Parameter(torch.zeros(2, dtype=torch.float64)))
    base: Array = flatten(module)
    with pytest.raises(RuntimeError, match=r"does not depend on 1|not have been used"):
        local_sgd.train(
            module, base, *data(), local(KINDS["plain"]), passes(in_backward=in_backward)
        )


@pytest.mark.parametrize("kind", BY_TORCH)
def test_defaults_are_those_of_torch(kind: type[Any]) -> None:
    module, _ = network()
    result = torch_optimizer(kind(learning_rate=RATE), module.parameters())

    assert result.defaults == BY_TORCH[kind](module.parameters(), lr=RATE).defaults


@pytest.mark.parametrize("name", ["momentum", "nesterov", "adamw", "rmsprop"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_clipping_smoothing_schedule_and_proximal_term_are_those_of_torch(name, schedule):
    """The limit of 0.7 is between the norms of the gradients, so some are clipped and some not."""
    settings = KINDS[name].model_copy(update={"within_task": SCHEDULES[schedule]})
    chosen = local(settings, max_gradient_norm=0.7, label_smoothing=0.2, proximal_mu=0.5)
    assert_as_torch(chosen, 9)

    free = ours(chosen.model_copy(update={"max_gradient_norm": None}), 9)
    assert not np.allclose(vector_of(free), vector_of(ours(chosen, 9)), rtol=1e-6)


def test_the_gradient_of_a_probe_has_smoothed_labels_too() -> None:
    """At w = 0 the gradient by the logits is p - y: 1/2 - .9 and 1/2 - .1 at a share of .2."""
    module = nn.Linear(1, 2, bias=False).double()
    nn.init.zeros_(module.weight)
    sample = torch.tensor([[4.0]], dtype=torch.float64), torch.tensor([0])
    result = local_sgd.gradient(module, flatten(module), *sample, label_smoothing=0.2)

    np.testing.assert_allclose(vector_of(result), [-1.6, 1.6], rtol=1e-12)


FACTORS: list[tuple[schedules.StepScheduleSettings, dict[int, float]]] = [
    (schedules.WarmUpSettings(warm_up_steps=4), {1: 0.25, 2: 0.5, 4: 1.0, 5: 1.0}),
    (schedules.AfterStepsSettings(after_steps=(2, 5), factor=0.5),
        {1: 1.0, 2: 1.0, 3: 0.5, 5: 0.5, 6: 0.25, 99: 0.25}),
    (schedules.ExponentialSettings(factor=0.5, every_steps=2), {1: 1.0, 2: 1.0, 3: 0.5, 5: 0.25}),
    (schedules.ExponentialSettings(factor=0.5, warm_up_steps=2), {1: 0.5, 2: 0.5, 3: 0.25}),
    # Steps beyond the eight of the scenario's training have the factor of its last.
    (schedules.CosineSettings(floor_fraction=0.2), {1: 1.0, 3: 0.6 + 0.4 * 0.5**0.5, 5: 0.6,
        7: 0.6 - 0.4 * 0.5**0.5, 50: schedules.CosineSettings(floor_fraction=0.2).factor_at(8, 8)}),
]  # fmt: skip


@pytest.mark.parametrize(("schedule", "factors"), FACTORS)
def test_schedules_have_the_factors_of_their_definitions(schedule, factors):
    assert {step: schedule.factor_at(step, 8) for step in factors} == pytest.approx(factors)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"nesterov": True}, "nesterov changes momentum, which is 0"),
        ({"dampening": 0.1}, "dampening changes momentum, which is 0"),
        ({"nesterov": True, "momentum": 0.9, "dampening": 0.1}, "leave one"),
        ({"kind": "adam", "beta1": 1.0}, "less than 1"),
        ({"kind": "rmsprop", "within_task": {"kind": "warm-up"}}, "warm_up_steps"),
        ({"within_task": {"kind": "steps", "after_steps": [3, 2], "factor": 1}}, "ascending"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(optimizers.OptimizerSettings).validate_python(
            {"kind": "sgd", "learning_rate": 0.1, **raw}
        )


def test_an_optimizer_without_a_kind_is_sgd(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(BASE.replace("kind: sgd, ", ""), encoding="utf-8")

    assert load(path).task.local.optimizer == optimizers.SgdSettings(learning_rate=0.1)
    assert load(path, ["task.local.optimizer.kind=adam"]).task.local.optimizer.kind == "adam"


@pytest.mark.parametrize("network_name", ["2nn", "batch norm", "gpt", "frozen"])
@pytest.mark.parametrize("name", ["dampened", "nesterov", "adam", "adamw", "adagrad", "rmsprop"])
def test_stacks_take_the_steps_of_one_client_after_the_other(network_name: str, name: str) -> None:
    """Clients of unequal sizes and lengths, so that at a step each has a rate of its own."""
    settings = KINDS[name].model_copy(update={"within_task": SCHEDULES["cosine"]})
    chosen = local(settings, max_gradient_norm=0.7, label_smoothing=0.2, proximal_mu=0.5)
    clients = [Client(11, 2), Client(7, 3, base=1), Client(16, 1, tells=True), Client(9, 2, 0, 3)]
    fleet = Fleet(SMALL[network_name](), clients)

    assert_equal(fleet, fleet.train(VectorisedKernel, chosen), fleet.train(Kernel, chosen))


def test_a_root_is_correctly_rounded() -> None:
    values = rng.stream(1, "test/roots").random(100_000).astype(np.float32)
    exact = np.sqrt(values.astype(np.float64)).astype(np.float32)

    assert square_root(torch.from_numpy(values)).numpy().tobytes() == exact.tobytes()
    scalar = square_root(torch.tensor(9.0))
    assert scalar.shape == ()
    assert scalar == 3.0
