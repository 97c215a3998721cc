"""Runs of studies that began on other platforms or with other versions."""

from pathlib import Path

import pytest

from fleetsim.record.manifest import PlatformRecord, read_manifest, write_manifest
from fleetsim.record.saved_run import open_run
from fleetsim.simulate import run
from fleetsim.studies.run_order import carry_out, order_of
from fleetsim.studies.run_store import RunStore
from fleetsim.studies.study_setup import mixtures
from tests.studies.small_studies import executed, loaded


def begun(study, folder: Path) -> None:
    """Begin the first run, and stop it after its first round."""

    def stop(scenario, progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(order_of(study.runs[0], travels=False), folder, on_progress=stop)
    assert read_manifest(folder).status == "interrupted"


def changed(folder: Path, **changes) -> None:
    write_manifest(folder, read_manifest(folder).model_copy(update=changes))


def finished(study, folder: Path) -> list[int]:
    """Finish the run; return the rounds that were simulated now."""
    rounds: list[int] = []
    order = order_of(study.runs[0], travels=False)
    carry_out(order, folder, on_progress=lambda scenario, progress: rounds.append(progress.round))
    return rounds


@pytest.fixture
def study(tmp_path):
    return loaded(tmp_path, overrides={"fleet.size": 12, "server.cohort": 3, "stop.rounds": 3})


def test_a_begun_run_continues(study, tmp_path):
    begun(study, tmp_path / "run")

    assert finished(study, tmp_path / "run") == [2, 3]


@pytest.mark.slow
def test_a_run_begun_on_another_platform_begins_anew(study, tmp_path):
    folder = tmp_path / "run"
    begun(study, folder)
    other = PlatformRecord.of({"machine": "another"}, {})
    changed(folder, platforms=(other,))

    assert finished(study, folder) == [1, 2, 3]
    result = open_run(folder)
    assert other not in result.manifest.platforms
    alone = run(study.runs[0].scenario, out=tmp_path / "alone", train=False)
    assert result.manifest.digest == alone.manifest.digest


def test_a_run_begun_by_another_version_begins_anew(study, tmp_path):
    folder = tmp_path / "run"
    begun(study, folder)
    here = read_manifest(folder).versions
    changed(folder, versions=here | {"fleetsim": "0.0.1"})

    assert finished(study, folder) == [1, 2, 3]
    assert read_manifest(folder).versions == here


@pytest.mark.slow
def test_a_mixed_study_says_what_differs_and_how_many_runs_have_it(study, tmp_path):
    store = RunStore(tmp_path / "home")
    executed(study, store.home)
    folder = store.folder(study.runs[0])
    manifest = read_manifest(folder)
    here = manifest.platforms[0]
    other = PlatformRecord.of({**here.features, "numpy": "1.0"}, here.forms)

    assert list(mixtures(study, store)) == []

    changed(folder, platforms=(other,), versions=manifest.versions | {"fleetsim": "0.0.1"})
    platforms, versions = mixtures(study, store)
    assert f"on 2 numerical platforms ({here.id}: 3, {other.id}: 1)" in platforms
    numpy = here.features["numpy"]
    assert f"numpy (1.0, {numpy})" in platforms or f"numpy ({numpy}, 1.0)" in platforms
    assert "2 versions of fleetsim" in versions
    assert "0.0.1: 1" in versions
