import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pydantic import TypeAdapter

from fleetsim import bundled
from fleetsim.contracts import FleetView, State
from fleetsim.errors import DataError, DivergenceError, FaultsError, ScenarioError
from fleetsim.scenario import load
from fleetsim.selectors import SelectorSettings
from fleetsim.selectors.learned_weights import (
    ANY_CLIENTS,
    WeightFile,
    read_weights,
    weights_for,
    weights_sha256,
)
from tests.contracts.test_selector_contract import Server
from tests.selectors.rounds import fleet_of


def fleet(clients_hash: str | None) -> FleetView:
    return fleet_of((5, 5), clients_hash=clients_hash)


def saved(path: Path, **weights: float) -> str:
    """Write weights by the hash of their clients; return the path as text."""
    file = WeightFile("favor", {key: {"bias": np.array([value])} for key, value in weights.items()})
    path.write_bytes(file.encoded())
    return str(path)


KEYS = st.text("abcdefgh/", min_size=1, max_size=6).filter(lambda key: key.strip("/") == key)
STATES = st.dictionaries(
    KEYS,
    arrays.arrays(
        st.sampled_from([np.float32, np.float64, np.int64, np.bool_, np.uint8]),
        arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
    ),
    min_size=1,
    max_size=3,
)


@pytest.mark.slow
@settings(max_examples=25)  # each of up to nine arrays; generating them takes the time
@given(st.dictionaries(st.text("0123456789abcdef", min_size=1, max_size=4), STATES, min_size=1))
def test_what_is_written_is_read(weights):
    file = WeightFile("fedmarl", weights, {"seed": "3", "command": 'train ü "x"'})

    read = WeightFile.decoded(file.encoded())

    assert (read.kind, read.facts) == ("fedmarl", file.facts)
    assert read.weights.keys() == weights.keys()
    for clients, state in weights.items():
        assert read.weights[clients].keys() == state.keys()
        for name, array in state.items():
            other = read.weights[clients][name]
            assert (other.dtype, other.shape) == (array.dtype, array.shape)
            assert other.tobytes() == array.tobytes()


def test_equal_contents_have_the_same_bytes():
    one: dict[str, State] = {"a": {"x": np.ones(2), "y": np.zeros(1)}, "b": {"x": np.ones(2)}}
    other: dict[str, State] = {"b": {"x": np.ones(2)}, "a": {"y": np.zeros(1), "x": np.ones(2)}}

    first = WeightFile("favor", one, {"p": "1", "q": "2"}).encoded()
    assert first == WeightFile("favor", other, {"q": "2", "p": "1"}).encoded()


def header_of(about: object) -> bytes:
    text = json.dumps({"__metadata__": {"fleetsim": about}}).encode()
    return struct.pack("<Q", len(text)) + text


FORMAT = "fleetsim selector weights 1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no weights at all",
        b"\xff" * 200,
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        header_of("no json"),
        header_of(json.dumps([1, 2])),
        header_of(json.dumps({"kind": "favor"})),
        header_of(json.dumps({"kind": "favor", "format": "of another time", "facts": "{}"})),
        header_of(json.dumps({"kind": "favor", "format": FORMAT, "facts": "[]"})),
    ],
)
def test_other_files_are_refused_in_one_line(data, tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)

    with pytest.raises(DataError, match=r"weights\.safetensors") as refusal:
        read_weights(str(path))
    assert "\n" not in str(refusal.value)


def test_weights_are_for_their_kind_and_for_their_clients_or_any(tmp_path):
    name = saved(tmp_path / "weights.safetensors", aa=1.0, bb=2.0)
    suits_all = saved(tmp_path / "any.safetensors", **{ANY_CLIENTS: 3.0})

    assert weights_for(name, "favor", fleet("bb"))["bias"].tolist() == [2.0]
    assert weights_for(suits_all, "favor", fleet("cc"))["bias"].tolist() == [3.0]
    # The check of a scenario without its fleet.
    assert weights_for(name, "favor", fleet(None))["bias"].tolist() == [1.0]
    with pytest.raises(ScenarioError, match="learned on other clients"):
        weights_for(name, "favor", fleet("cc"))
    with pytest.raises(ScenarioError, match="has weights of 'favor', not of 'fedmarl'"):
        weights_for(name, "fedmarl", fleet("aa"))
    with pytest.raises(DataError, match=r"server\.selector\.weights: no such bundled weights"):
        read_weights("nothing-like-this")


def test_the_hash_is_that_of_the_content(tmp_path):
    one, same, other = (
        weights_sha256(saved(tmp_path / f"{number}.safetensors", aa=value))
        for number, value in enumerate([1.0, 1.0, 2.0])
    )

    assert one == same != other


def test_bundled_weights_are_found_by_name():
    for name in bundled.names("weights"):
        assert read_weights(name).weights


def of_floats(change):
    return lambda state: {k: change(a) if a.dtype.kind == "f" else a for k, a in state.items()}


CHANGES = {
    "without one": lambda state: {key: state[key] for key in list(state)[1:]},
    "not finite": of_floats(lambda array: np.full_like(array, np.nan)),
    "halves": of_floats(lambda array: array.astype(np.float16)),
    "flat": lambda state: {key: array.reshape(-1)[:-1] for key, array in state.items()},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kind", ["favor", "fedgcs"])
def test_weights_of_another_form_are_refused_with_the_array(kind, change, tmp_path):
    file = read_weights(f"{kind}-quick")
    changes = [
        *(f"server.selector.kind={kind}", "server.over_commit=1.0"),
        *("evaluate.validation_fraction=0.1", "fleet.seed=1"),
    ]
    if kind == "favor":
        sizes = ("action=client", "components=10", "hidden=128")
        changes += [f"server.selector.{size}" for size in sizes]
    clients = load("quickstart", changes).clients_hash
    path = tmp_path / "weights.safetensors"
    edited = WeightFile(kind, {clients: change(dict(file.weights[clients]))}, file.facts)
    path.write_bytes(edited.encoded())

    with pytest.raises(FaultsError) as caught:
        load("quickstart", [*changes, f"server.selector.weights={path}"])

    assert "weights.safetensors: " in str(caught.value)
    assert f"train with `fleetsim selector train {kind}`" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["fedgcs", "favor", "fedmarl"])
def test_a_network_that_diverges_ends_the_run_and_names_the_key(kind):
    """A step of 1e30 makes products of weights that no 32-bit float holds."""
    soon = {"batch_size": 2, "learning_rate": 1e30, "warm_up_rounds": 3, "refit_rounds": 1}
    fast = soon | {"refit_epochs": 3, "held_out_fraction": 0.0, "starts": 2, "steps": 2}
    usual = TypeAdapter(SelectorSettings).validate_python({"kind": kind})
    known = {key: value for key, value in fast.items() if key in type(usual).model_fields}
    server = Server(usual.model_copy(update=known).build())

    def twelve_rounds() -> None:
        for _ in range(12):
            server.play()

    with pytest.raises(DivergenceError, match=f"'{kind}'.* lower server.selector.learning_rate"):
        twelve_rounds()


@pytest.mark.parametrize("kind", ["fedgcs", "favor", "fedmarl"])
def test_a_learning_rate_above_1_is_refused(kind):
    with pytest.raises(ScenarioError, match=r"learning_rate = 1\.5.* <= 1"):
        load("quickstart", [f"server.selector={{kind: {kind}, learning_rate: 1.5}}"])
