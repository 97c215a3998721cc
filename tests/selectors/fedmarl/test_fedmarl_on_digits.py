"""FedMarl on the bundled digits: what probes cost, and who goes on."""

from fleetsim.contracts import Purpose
from fleetsim.scenario import load
from fleetsim.simulate import run

MODEL_BYTE = 4 * (64 * 8 + 8 + 8 * 8 + 8 + 8 * 10 + 10)
"""Bytes of the 64-8-8-10 network."""
SMALL = [
    *("task.model.hidden=[8, 8]", "task.partition={kind: iid}", "task.local.epochs=3"),
    *("fleet.size=12", "fleet.devices={pixel-6: 1.0}", "fleet.usage={}"),
    *("server.cohort=3", "server.over_commit=1.0", "server.deadline_s=null"),
    *("evaluate.validation_fraction=0.1", "stop.rounds=6"),
]


def test_probes_are_an_epoch_that_counts_for_those_who_continue(tmp_path):
    selector = "server.selector={kind: fedmarl, batch_size: 2, exploration: 0.5}"
    finished = run(load("quickstart", [*SMALL, selector]), out=tmp_path / "run", workers=1)
    asked = finished.tasks[finished.tasks["purpose"] == Purpose.PROBE.value]
    trained = finished.tasks[finished.tasks["purpose"] == Purpose.TRAIN.value]
    seconds = asked.set_index(["round", "client"])["compute_s"]
    rest = trained.set_index(["round", "client"])["compute_s"]

    assert finished.rounds["num_probed"].tolist() == [6] * 6
    assert set(asked["upload_byte"]) == {8}
    assert set(trained["upload_byte"]) == {MODEL_BYTE}
    assert set(trained["download_byte"]) == {0}, "they hold the model that they trained"
    assert 6 <= len(trained) <= 18
    # Of three epochs two are left: twice the seconds of the probe, but for its fixed part.
    assert (rest / seconds.loc[rest.index]).between(1.5, 2.1).all()
    assert finished.rounds["energy_probe_j"].gt(0.0).all()
