import pytest

from benchmarks.own_models import NETWORKS, row
from fleetsim.contracts import SampleForm


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_row_has_a_proof_and_the_flop_of_torch(name: str) -> None:
    result = row(name, SampleForm((1, 24, 24), 4), batch_size=4, repeats=1)

    assert result["trainer"] != "serial" or result["reason"] == "none is faster for such a network"
    assert result["trainer"] == "serial" or result["reason"].startswith("equal to serial within ")
    assert result["flop"] == result["torch_flop"] > 0
    assert result["fast_s"] > 0.0
    assert result["serial_s"] > 0.0
