"""A study of runs that are trained, and the same runs each made alone."""

from pathlib import Path

import pytest

from fleetsim.record.saved_run import Run
from fleetsim.simulate import run
from fleetsim.studies.study import load_study
from tests.studies.small_studies import written


@pytest.fixture(scope="package")
def trained_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four runs that are trained."""
    return written(
        tmp_path_factory.mktemp("study"),
        train=True,
        overrides={"fleet.size": 40, "server.cohort": 10, "stop.rounds": 40},
    )


@pytest.fixture(scope="package")
def alone(trained_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Its runs by key, each made alone by this process."""
    home = tmp_path_factory.mktemp("alone")
    return {
        planned.key: run(planned.scenario, out=home / planned.key, workers=1)
        for planned in load_study(trained_file).runs
    }
