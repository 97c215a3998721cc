import numpy as np
import pytest

from fleetsim.errors import DataError, ScenarioError
from fleetsim.selector_training.weight_writing import existing_file, write_weights
from fleetsim.selectors.learned_weights import WeightFile


def test_weights_of_further_fleets_are_added_and_those_of_the_same_replaced(tmp_path):
    path = tmp_path / "new" / "weights.safetensors"
    for clients, value in (("aa", 1.0), ("bb", 2.0), ("aa", 3.0)):
        write_weights(path, "favor", {clients: {"bias": np.array([value])}}, {"seed": str(value)})

    file = existing_file(path, "favor")

    assert file is not None
    assert {key: state["bias"].tolist() for key, state in file.weights.items()} == {
        "aa": [3.0],
        "bb": [2.0],
    }
    assert file.facts == {"aa/seed": "3.0", "bb/seed": "2.0"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (WeightFile("favor", {}).encoded(), r"has weights of 'favor', not of 'fedgcs'.*--out"),
        (b"important", r"kept\.file: is no weight file.*--out"),
    ],
)
def test_a_file_of_something_else_is_not_touched(content, message, tmp_path):
    path = tmp_path / "kept.file"
    path.write_bytes(content)

    with pytest.raises((DataError, ScenarioError), match=message):
        write_weights(path, "fedgcs", {"aa": {"bias": np.zeros(1)}}, {})
    assert path.read_bytes() == content
