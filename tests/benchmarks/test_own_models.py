import pytest

from benchmarks.own_models import NETWORKS, row
from fleetsim.contracts import SampleForm


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_row_has_a_proof_and_the_flop_of_torch(name: str) -> None:
    found = row(name, SampleForm((1, 24, 24), 4), batch_size=4, repeats=1)

    assert found["trainer"] != "serial" or found["reason"] == "none is faster for such a network"
    assert found["trainer"] == "serial" or found["reason"].startswith("equal to serial within ")
    assert found["flop"] == found["torch_flop"] > 0
    assert found["fast_s"] > 0.0
    assert found["serial_s"] > 0.0
