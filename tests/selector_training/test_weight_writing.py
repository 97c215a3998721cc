import numpy as np
import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.selector_training.weight_writing import read_own, write_weights


def test_weights_of_further_fleets_are_added_and_those_of_the_same_replaced(tmp_path):
    path = tmp_path / "new" / "weights.safetensors"
    for clients, value in (("aa", 1.0), ("bb", 2.0), ("aa", 3.0)):
        write_weights(path, "favor", {clients: {"bias": np.array([value])}}, {"seed": str(value)})

    found = read_own(path, "favor")

    assert found is not None
    assert {key: state["bias"].tolist() for key, state in found.weights.items()} == {
        "aa": [3.0],
        "bb": [2.0],
    }
    assert found.facts == {"aa/seed": "3.0", "bb/seed": "2.0"}


def test_weights_of_another_selector_are_not_touched(tmp_path):
    path = tmp_path / "weights.safetensors"
    write_weights(path, "favor", {"aa": {"bias": np.zeros(1)}}, {})
    before = path.read_bytes()

    with pytest.raises(ScenarioError, match=r"has weights of 'favor', not of 'fedgcs'.*--out"):
        write_weights(path, "fedgcs", {"aa": {"bias": np.zeros(1)}}, {})
    assert path.read_bytes() == before


def test_another_file_is_not_touched(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("important")

    with pytest.raises(DataError, match=r"notes\.txt: is no weight file.*--out"):
        write_weights(path, "favor", {"aa": {"bias": np.zeros(1)}}, {})
    assert path.read_text() == "important"
