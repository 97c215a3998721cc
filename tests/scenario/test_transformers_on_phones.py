"""One line about transformers on phones, whose matrix products nobody timed."""

from pathlib import Path

import pytest

import fleetsim
from fleetsim.contracts import ModelCost
from fleetsim.scenario import scenario_warnings

PAPER = "task.model={{kind: cost, flop_per_sample: {{{}}}, layers: {{{}}}, parameters: {}}}"
# BERT-base, 256 tokens: 110 million weights, 44.6 GFLOP forward; a perceptron of as many weights.
BERT = PAPER.format("gemm: 4.46e10", "gemm: 97", 110_000_000)
PERCEPTRON = PAPER.format("gemm: 2.2e8", "gemm: 3", 110_000_000)
NETWORK = """\
from torch import nn

class Tokens(nn.Module):
    def __init__(self, samples):
        super().__init__()
        self.up, self.down = nn.Linear(8, 64), nn.Linear(64, 8)
        self.head = nn.Linear(8, samples.num_classes)

    def forward(self, x):
        tokens = x.flatten(1).reshape(len(x), -1, 8)
        return self.head(self.down(self.up(tokens).relu()).mean(1))
"""


def warnings_of(*changes):
    warnings = scenario_warnings(fleetsim.load("quickstart", changes))
    return [line for line in warnings if "2605.08636" in line]


def test_phones_without_a_measured_rate_are_named_in_one_line_whatever_the_fleet():
    devices = "fleet.devices={pixel-6: 0.5, market: 0.3, jetson-tx2: 0.2}"
    (line,) = warnings_of(BERT, "fleet.size=200", devices)

    start = "fleet.devices: pixel-6, market: no rate of a transformer's matrix products"
    assert line.startswith(start)
    assert "12.6 times" in line
    # A bundled transformer is known without its network.
    bundled = scenario_warnings(fleetsim.load("papers/fedgcs-wikitext2-gpt2"))
    assert sum("2605.08636" in line for line in bundled) == 1


def test_other_networks_and_devices_that_have_the_rate_are_not_meant(tmp_path: Path):
    timed = tmp_path / "timed.yaml"
    timed.write_text(
        "extends: pixel-6\ntitle: timed\ncompute:\n  phi:\n    gemm: {value: 0.4, source: timed}\n",
        "utf-8",
    )

    assert warnings_of(PERCEPTRON) == []
    assert warnings_of(BERT, "fleet.devices={jetson-tx2: 1.0}") == []
    assert warnings_of(BERT, f'fleet.devices={{"{timed}": 1.0}}') == []
    assert len(warnings_of(BERT, "fleet.devices={pixel-6: 1.0}")) == 1


def test_weights_at_every_position_make_a_transformer():
    assert ModelCost({"gemm": 9e6}, 2_000_000, 4).is_transformer
    assert not ModelCost({"gemm": 4e6}, 2_000_000, 4).is_transformer
    assert not ModelCost({"gemm": 9e6, "conv": 1e7}, 2_000_000, 4).is_transformer
    assert not ModelCost({"gemm": 9e6, "rnn": 1.0}, 2_000_000, 4).is_transformer


@pytest.mark.slow
@pytest.mark.parametrize("verb", [["validate"], ["run", "--no-train", "--out", "run"]])
def test_a_network_of_the_users_own_is_recognised_when_it_is_built(
    verb, tmp_path, monkeypatch, command
):
    (tmp_path / "my_tokens.py").write_text(NETWORK, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    more = ["--plugin", "my_tokens:Tokens", "--set", "stop.rounds=1"]
    ended = command(verb[0], "quickstart", *verb[1:], *more)

    assert ended.code == 0
    assert (ended.out + ended.err).count("2605.08636") == 1
