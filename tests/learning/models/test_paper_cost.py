from typing import Any

import pytest
import yaml

import fleetsim
from fleetsim.contracts import StepMemory
from fleetsim.errors import ScenarioError
from fleetsim.learning.models.paper_cost import CostSettings
from tests.scenario.small import BASE

PAPER: dict[str, Any] = {
    "kind": "cost",
    "flop_per_sample": {"conv": 3e6, "gemm": 1e6},
    "layers": {"conv": 4, "gemm": 2},
    "parameters": 1000,
}
MEMORY = {"kind": "share", "free_fraction": [0.5, 0.9]}
BLANK = {"kind": "blank", "input_shape": [8]}


def loaded(**changes: Any) -> fleetsim.Scenario:
    model = PAPER | changes.pop("model", {})
    base = yaml.safe_load(BASE)
    keys: dict[Any, Any] = {"task.dataset": BLANK, "task.model": model, **changes}
    return fleetsim.load(base, keys)


def test_cost_and_memory_are_as_stated() -> None:
    settings = CostSettings.model_validate(PAPER | {"sample_byte": 70, "unfolded_byte": 30})
    cost = settings.cost(num_copies=3)

    assert dict(cost.forward_flop) == {"conv": 3e6, "gemm": 1e6}
    assert dict(cost.layer_counts) == {"conv": 4, "gemm": 2}
    assert (cost.num_layers, cost.num_parameters, cost.payload_byte) == (6, 1000, 4000)
    assert cost.memory == StepMemory(state_byte=12_000, sample_byte=70, unfolded_byte=30)
    assert settings.cost(num_copies=None).memory is None


def ran(tmp_path, name: str, **changes: Any) -> fleetsim.Run:
    train, out = changes.pop("train", False), tmp_path / name
    return fleetsim.run(loaded(**changes), train=train, workers=1, progress=False, out=out)


def test_bytes_on_the_wire_and_flop_are_those_of_the_paper(tmp_path) -> None:
    plain = ran(tmp_path, "plain").tasks
    stated = ran(tmp_path, "stated", model={"download_byte": 900, "upload_byte": 50}).tasks
    quantised = ran(tmp_path, "small", **{"server.compression": {"kind": "quantise-8bit"}}).tasks

    delivered = plain["outcome"] == "delivered"
    assert delivered.any()
    assert set(plain["download_byte"]) == {4000}
    assert set(plain["upload_byte"][delivered]) == {4000}
    assert set(stated["download_byte"]) == {900}
    assert set(stated["upload_byte"][stated["outcome"] == "delivered"]) == {50}
    # A byte for each of 1,000 weights, and the ends of two buckets of 512.
    assert set(quantised["upload_byte"][quantised["outcome"] == "delivered"]) == {1016}
    per_sample = plain["train_flop"][delivered] / plain["num_samples"][delivered]
    # Forward and twice as much backward.
    assert per_sample.to_numpy() == pytest.approx(3 * 4e6)


def test_a_model_of_any_size_takes_no_memory_of_the_host(tmp_path) -> None:
    run = ran(tmp_path, "huge", model={"parameters": 10**12, "upload_byte": 10, "download_byte": 9})

    assert run.manifest.trainer == "none"


def test_training_a_model_on_paper_is_refused_in_one_line(tmp_path) -> None:
    data = {"kind": "digits"}
    with pytest.raises(ScenarioError, match="'cost' has no weights to train; use --no-train"):
        ran(tmp_path, "no", train=True, **{"task.dataset": data})

    assert not (tmp_path / "no").exists()


SMALL = {"kind": "quantise-8bit"}
FAULTS: list[Any] = [
    ({"flop_per_sample": {}}, {}, "has no FLOP; give those of a class"),
    ({"layers": {"conv": 4}}, {}, "the class gemm has FLOP and no layers"),
    ({"layers": {"conv": 4, "gemm": 2, "rnn": 1}}, {}, "the class rnn has layers and no FLOP"),
    ({"parameters": 0}, {}, "task.model.parameters = 0"),
    ({"upload_byte": 5}, {"server.compression": SMALL}, "task.model.upload_byte = 5: is the size"),
    ({}, {"fleet.memory": MEMORY}, "task.model.sample_byte: missing, and fleet.memory checks"),
]


@pytest.mark.parametrize(("model", "changes", "message"), FAULTS)
def test_what_contradicts_itself_is_refused_in_one_line(model, changes, message):
    with pytest.raises(ScenarioError) as fault:
        loaded(model=model, **changes)

    (line,) = fault.value.faults
    assert message in line


def test_memory_is_checked_where_it_is_known(tmp_path) -> None:
    ran(tmp_path, "fits", model={"sample_byte": 1000}, **{"fleet.memory": MEMORY})

    with pytest.raises(ScenarioError, match=r"fleet.memory: an SGD step takes .* MiB or more"):
        ran(tmp_path, "no", model={"sample_byte": 10**12}, **{"fleet.memory": MEMORY})
