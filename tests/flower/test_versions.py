import pytest

from fleetsim.errors import ScenarioError
from fleetsim.flower import versions


@pytest.mark.parametrize("version", ["1.28.0", "1.37.0", "1.43.0", "2.0.0", "1.4.0"])
def test_a_version_that_is_not_tested_is_refused_with_the_list(version):
    with pytest.raises(ScenarioError) as fault:
        versions.require_tested(version)

    assert str(fault.value).startswith(f"flwr {version}: is not a tested version, these are: 1.29")
    assert "pip install 'flwr==1.42.*'" in str(fault.value)


@pytest.mark.parametrize("minor", versions.TESTED)
def test_tested_versions_are_accepted(minor):
    versions.require_tested(f"{minor}.0")
