"""Compressed uploads in whole runs: fewer bytes, seconds and joules, while the model learns."""

import pytest

from fleetsim.scenario import load
from fleetsim.simulate import run

NUM_VALUES = 64 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10  # quickstart's 2NN

KINDS: dict[str, tuple[dict[str, object], int]] = {
    "none": ({"kind": "none"}, 4 * NUM_VALUES),
    "8-bit": ({"kind": "quantise-8bit", "bucket_size": 512}, NUM_VALUES + 8 * 108),
    "top-k": ({"kind": "top-k", "fraction": 0.1}, 8 * 5521),
}
"""Settings and bytes of an upload: 8 byte per bucket of 512 (107.8 of them), or per entry kept."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    home, done = tmp_path_factory.mktemp("runs"), {}
    for name, (kind, _) in KINDS.items():
        scenario = load("quickstart", {"stop.rounds": 12, "server.compression": kind})
        done[name] = run(scenario, out=home / name)
    return done


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_an_upload_has_the_size_of_its_form_and_a_download_is_whole(name, runs):
    tasks = runs[name].tasks
    delivered = tasks[tasks.outcome == "delivered"]

    assert set(delivered.upload_byte) == {KINDS[name][1]}
    assert set(delivered.download_byte) == {4 * NUM_VALUES}


@pytest.mark.parametrize("name", ["8-bit", "top-k"])
def test_smaller_uploads_take_less_time_and_energy_and_the_model_still_learns(name, runs):
    def first_round(run_):
        tasks = run_.tasks[run_.tasks["round"] == 1].set_index("client")
        return tasks[tasks.outcome == "delivered"]

    plain, compressed = first_round(runs["none"]), first_round(runs[name])
    both = plain.index.intersection(compressed.index)

    assert len(both) > 0
    assert (compressed.upload_s[both] < plain.upload_s[both]).all()
    assert (compressed.energy_transmit_j[both] <= plain.energy_transmit_j[both]).all()
    assert runs[name].manifest.virtual_s < runs["none"].manifest.virtual_s
    first, last = runs[name].rounds.accuracy.iloc[[0, -1]]
    assert last > first + 0.2
