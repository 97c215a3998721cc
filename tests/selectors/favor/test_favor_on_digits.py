"""Favor on the bundled digits: what its first models cost."""

from fleetsim.scenario import load
from fleetsim.simulate import run

MODEL_BYTE = 4 * (64 * 20 + 20 + 20 * 20 + 20 + 20 * 10 + 10)
"""Of the 64-20-20-10 network."""
CHANGES = (
    *("fleet.size=9", "server.cohort=3", "server.over_commit=1.0", "server.deadline_s=null"),
    *("task.local.epochs=1", "task.model.hidden=[20, 20]", "evaluate.validation_fraction=0.1"),
    *("stop.rounds=3", "fleet.usage={}"),
    "server.selector={kind: favor, components: 6, hidden: 16, batch_size: 4}",
)


def test_first_models_are_charged_once(tmp_path):
    finished = run(load("quickstart", CHANGES), out=tmp_path / "run", workers=1)
    tasks = finished.tasks
    probes, trained = (tasks[tasks["purpose"] == purpose] for purpose in ("probe", "train"))

    assert sorted(probes["client"]) == list(range(9))
    assert set(probes["round"]) == {1}
    assert set(probes["download_byte"]) == set(probes["upload_byte"]) == {MODEL_BYTE}
    assert (finished.rounds["energy_probe_j"] > 0.0).tolist() == [True, False, False]
    # Those that train in the first round hold the model already.
    assert set(trained[trained["round"] == 1]["download_byte"]) == {0}
    assert len(trained) == 9
