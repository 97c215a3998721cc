"""Compressed uploads in whole runs: fewer bytes, seconds and joules, while the model learns."""

from fleetsim.scenario import load
from fleetsim.simulate import run

NUM_VALUES = 64 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10  # quickstart's 2NN

KINDS: dict[str, tuple[dict[str, object], int]] = {
    "none": ({"kind": "none"}, 4 * NUM_VALUES),
    "8-bit": ({"kind": "quantise-8bit", "bucket_size": 512}, NUM_VALUES + 8 * 108),
    "top-k": ({"kind": "top-k", "fraction": 0.1}, 8 * 5521),
}
"""Settings and bytes of an upload: 8 byte per bucket of 512 (107.8 of them), or per entry kept."""


def test_smaller_uploads_take_less_time_and_energy_and_the_model_still_learns(tmp_path):
    runs, first_round = {}, {}
    for name, (kind, upload_byte) in KINDS.items():
        scenario = load("quickstart", {"stop.rounds": 12, "server.compression": kind})
        runs[name] = run(scenario, out=tmp_path / name)
        tasks = runs[name].tasks
        delivered = tasks[tasks.outcome == "delivered"]
        assert set(delivered.upload_byte) == {upload_byte}
        assert set(delivered.download_byte) == {4 * NUM_VALUES}
        first_round[name] = delivered[delivered["round"] == 1].set_index("client")
    plain = first_round["none"]

    for name in ("8-bit", "top-k"):
        compressed = first_round[name]
        both = plain.index.intersection(compressed.index)
        assert len(both) > 0
        assert (compressed.upload_s[both] < plain.upload_s[both]).all()
        assert (compressed.energy_transmit_j[both] <= plain.energy_transmit_j[both]).all()
        assert runs[name].manifest.virtual_s < runs["none"].manifest.virtual_s
        first, last = runs[name].rounds.accuracy.iloc[[0, -1]]
        assert last > first + 0.2
