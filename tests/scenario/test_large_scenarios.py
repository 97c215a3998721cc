"""Scenarios with very many values: work and memory grow no faster than what the user wrote."""

import functools
import tracemalloc
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import create_autospec

import pyarrow as pa
import pytest
from pydantic import TypeAdapter

import fleetsim
from fleetsim import bundled, simulate
from fleetsim.contracts import ModelCost
from fleetsim.errors import ScenarioError
from fleetsim.host import memory
from fleetsim.scenario import LEAST_BYTE_PER_CLIENT, load, scenario_warnings
from fleetsim.schema import yaml_text
from fleetsim.schema.distinct import Distinct
from tests.bad_input.good import GOOD

MIB = 1 << 20
GIB = 1 << 30
BLANK = "{kind: blank, input_shape: [8], num_classes: 2}"
"""A data set that feeds any number of clients."""
DEVICES = "    pixel-6: 0.5\n    t2.small: 0.5\n"


def written(tmp_path, *changes):
    text = GOOD.replace("{kind: digits}", BLANK)
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "large.yaml").write_text(text)
    return tmp_path / "large.yaml"


def peak_byte(act):
    """The largest memory that a call takes beyond what was there, and what it raises."""
    faults: tuple[str, ...] = ()
    tracemalloc.start()
    try:
        act()
    except ScenarioError as fault:
        faults = fault.faults
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, faults


def test_entries_of_a_list_are_compared_with_a_few_others_and_not_with_all():
    class Client(int):
        num_compared = 0

        def __eq__(self, other):
            Client.num_compared += 1
            return int(self) == int(other)

        __hash__ = int.__hash__

    # A dict compares a key with those of the same hash, and no two of these have one in common.
    size = 4096
    clients = tuple(Client(n * 1009 % size) for n in range(size))

    assert TypeAdapter(Annotated[tuple[Any, ...], Distinct()]).validate_python(clients)
    assert Client.num_compared <= 2 * size


def test_a_scenario_that_grows_too_long_with_its_defaults_is_refused_in_one_line(
    tmp_path, monkeypatch
):
    path = written(tmp_path)
    # As much as the scenario as it was written, without its defaults.
    monkeypatch.setattr(yaml_text, "MAX_BYTE", path.stat().st_size)

    with pytest.raises(ScenarioError) as caught:
        load(path)

    (line,) = caught.value.faults
    assert line.startswith(f"{path}: with its defaults it cannot be written as YAML: longer than")
    assert line.endswith("; name fewer clients or devices")


def test_of_very_many_unknown_devices_twenty_are_listed_and_the_bundle_is_looked_into_once(
    tmp_path, monkeypatch
):
    looked = create_autospec(Path.rglob, side_effect=Path.rglob)
    monkeypatch.setattr(Path, "rglob", looked)
    bundled._names.cache_clear()
    path = written(tmp_path, (DEVICES, "".join(f"    pixel-{n}x: 0.0005\n" for n in range(2000))))

    with pytest.raises(ScenarioError) as caught:
        load(path)

    assert len(caught.value.faults) == 21
    assert "fleet.devices.pixel-0x" in caught.value.faults[0]
    assert "did you mean 'pixel-" in caught.value.faults[19]
    assert caught.value.faults[20] == "... and 1980 more"
    assert looked.call_count <= len(("devices", "radios", "scenarios"))


def test_a_fleet_that_no_memory_can_hold_is_refused_before_it_is_made(tmp_path, monkeypatch):
    """One that is validated is not made either: a column of forty million clients takes 305 MiB."""
    monkeypatch.setattr(memory, "usable_byte", lambda: 16 * GIB)
    # 1e9 clients at 350 bytes are 325.96 GiB; 16 GiB are 49,085,340 of them.
    message = (
        ":12: fleet.size = 1000000000: takes at least 326 GiB of memory, of which there are"
        " 16.0; lower it to 49085340 or less, or take a larger machine"
    )
    for size, refusals in ((10**9, [message]), (4 * 10**7, [])):
        path = written(tmp_path, ("size: 8", f"size: {size}"))
        peak, faults = peak_byte(lambda path=path: load(path))

        assert list(faults) == [f"{path}{line}" for line in refusals]
        assert peak < 10 * MIB
    # Where nobody says how much memory there is, nothing is refused.
    monkeypatch.setattr(memory, "usable_byte", lambda: None)
    assert load(written(tmp_path, ("size: 8", "size: 1000000000"))).fleet.size == 10**9


@pytest.mark.slow
def test_a_run_takes_as_much_memory_for_a_client_as_is_said_or_more(tmp_path):
    """Most memory is in use at the end, where Arrow's is that of the table of clients."""
    peaks, default = [], pa.default_memory_pool()
    for size in (1000, 100_000, 200_000):  # first with all that is made once
        loaded = load(written(tmp_path, ("size: 8", f"size: {size}")))
        run = functools.partial(simulate.run, loaded, train=False, out=tmp_path / str(size))
        pa.set_memory_pool(arrow := pa.proxy_memory_pool(default))
        numpy_byte, _ = peak_byte(run)
        peaks.append(numpy_byte + arrow.max_memory())
    pa.set_memory_pool(default)

    assert (peaks[2] - peaks[1]) / 100_000 >= LEAST_BYTE_PER_CLIENT


def test_a_limit_of_a_container_counts_and_no_limit_does_not(tmp_path, monkeypatch):
    limited, unlimited = tmp_path / "memory.max", tmp_path / "limit_in_bytes"
    limited.write_text("1048576\n")
    unlimited.write_text("max\n")

    def usable(*limits):
        monkeypatch.setattr(memory, "_CGROUP_LIMITS", limits)
        return memory.usable_byte()

    assert usable(limited, unlimited) == MIB
    assert usable(unlimited, tmp_path / "nowhere") == usable()


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
