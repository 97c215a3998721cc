"""Notes on studies whose runs are of several numerical platforms or versions."""

import pytest

from fleetsim.record.manifest import PlatformRecord, read_manifest, write_manifest
from fleetsim.studies.mixed_platforms import mixtures
from fleetsim.studies.run_store import RunStore
from tests.studies.small_studies import executed, loaded


@pytest.mark.slow
def test_a_mixed_study_says_what_differs_and_how_many_runs_have_it(tmp_path):
    study, store = loaded(tmp_path), RunStore(tmp_path / "home")
    executed(study, store.home)
    folder = store.folder(study.runs[0])
    here = read_manifest(folder).platforms[0]

    assert list(mixtures(study, store)) == []

    other = PlatformRecord.of({**here.features, "numpy": "1.0"}, here.forms)
    manifest = read_manifest(folder)
    older = manifest.versions | {"fleetsim": "0.0.1"}
    write_manifest(folder, manifest.model_copy(update={"platforms": (other,), "versions": older}))

    platforms, versions = mixtures(study, store)
    assert f"on 2 numerical platforms ({here.id}: 3, {other.id}: 1)" in platforms
    numpy = here.features["numpy"]
    assert f"numpy (1.0, {numpy})" in platforms or f"numpy ({numpy}, 1.0)" in platforms
    assert "2 versions of fleetsim" in versions
    assert "0.0.1: 1" in versions
