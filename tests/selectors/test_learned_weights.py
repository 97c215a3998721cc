from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fleetsim import bundled
from fleetsim.contracts import FleetView, State
from fleetsim.errors import DataError, ScenarioError
from fleetsim.selectors.learned_weights import (
    ANY_CLIENTS,
    WeightFile,
    read_weights,
    weights_for,
    weights_sha256,
)


def fleet(clients_hash: str | None) -> FleetView:
    return FleetView(
        seed=1,
        num_samples=np.array([5, 5], dtype=np.int64),
        cohort=1,
        epochs=1,
        batch_size=1,
        learning_rate=0.1,
        planned_rounds=None,
        parameters=np.zeros(1, dtype=np.float32),
        clients_hash=clients_hash,
    )


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

    found = WeightFile.decoded(file.encoded())

    assert found.kind == "fedmarl"
    assert found.facts == file.facts
    assert found.weights.keys() == weights.keys()
    for clients, state in weights.items():
        assert found.weights[clients].keys() == state.keys()
        for name, array in state.items():
            other = found.weights[clients][name]
            assert other.dtype == array.dtype
            assert other.shape == array.shape
            assert other.tobytes() == array.tobytes()


def test_equal_contents_have_the_same_bytes():
    one: dict[str, State] = {"a": {"x": np.ones(2), "y": np.zeros(1)}, "b": {"x": np.ones(2)}}
    other: dict[str, State] = {"b": {"x": np.ones(2)}, "a": {"y": np.zeros(1), "x": np.ones(2)}}

    first = WeightFile("favor", one, {"p": "1", "q": "2"}).encoded()
    assert first == WeightFile("favor", other, {"q": "2", "p": "1"}).encoded()


def header_of(about: object) -> bytes:
    text = json.dumps({"__metadata__": {"fleetsim": about}}).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no weights at all",
        b"\xff" * 200,
        struct.pack("<Q", 1 << 60) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        header_of("no json"),
        header_of(json.dumps({"kind": "favor"})),
        header_of(json.dumps({"kind": "favor", "format": "of another time", "facts": "{}"})),
        header_of(json.dumps([1, 2])),
        header_of(
            json.dumps({"kind": "favor", "format": "fleetsim selector weights 1", "facts": "[]"})
        ),
    ],
)
def test_other_files_are_refused_in_one_line(data, tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(data)

    with pytest.raises(DataError, match=r"weights\.safetensors") as refusal:
        read_weights(str(path))
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_is_refused_with_the_key():
    with pytest.raises(DataError, match=r"server\.selector\.weights: no such bundled weights"):
        read_weights("nothing-like-this")


def test_weights_of_certain_clients_are_for_these_alone(tmp_path):
    name = saved(tmp_path / "own.safetensors", aa=1.0, bb=2.0)

    assert weights_for(name, "favor", fleet("bb"))["bias"].tolist() == [2.0]
    with pytest.raises(ScenarioError, match="learned on other clients"):
        weights_for(name, "favor", fleet("cc"))
    # The check of a scenario without its fleet.
    assert weights_for(name, "favor", fleet(None))["bias"].tolist() == [1.0]


def test_weights_for_any_clients_suit_all(tmp_path):
    name = saved(tmp_path / "any.safetensors", **{ANY_CLIENTS: 3.0})

    assert weights_for(name, "favor", fleet("cc"))["bias"].tolist() == [3.0]


def test_weights_of_another_selector_are_refused(tmp_path):
    name = saved(tmp_path / "own.safetensors", aa=1.0)

    with pytest.raises(ScenarioError, match="has weights of 'favor', not of 'fedmarl'"):
        weights_for(name, "fedmarl", fleet("aa"))


def test_the_hash_is_that_of_the_content(tmp_path):
    one, same, other = (
        weights_sha256(saved(tmp_path / f"{number}.safetensors", aa=value))
        for number, value in enumerate([1.0, 1.0, 2.0])
    )

    assert one == same != other


def test_bundled_weights_are_found_by_name():
    for name in bundled.names("weights"):
        assert read_weights(name).weights
