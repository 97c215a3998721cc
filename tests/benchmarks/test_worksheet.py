"""Input of the peers: the networks, partition and work that fleetsim trains."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.export import export
from benchmarks.peers.worksheet import Worksheet, build
from benchmarks.works import WORKS, Work, scenario_of, worksheet_of
from fleetsim.learning.data.built_in import DigitsSettings
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    FedGraCnnSettings,
    LogisticSettings,
    ResNet18Settings,
    TwoNNSettings,
)
from fleetsim.learning.partition.client_samples import split
from fleetsim.scenario import Scenario, load

NETWORKS = [
    (LogisticSettings(), (60,)),
    (TwoNNSettings(), (1, 28, 28)),
    (FedGraCnnSettings(), (1, 28, 28)),
    (ResNet18Settings(), (3, 32, 32)),
]


def work(name: str) -> Work:
    return next(work for work in WORKS if work.name == name)


def digits(tmp_path: Path) -> tuple[Scenario, Path]:
    scenario = load("quickstart", ["fleet.size=20", "task.partition={kind: iid}"])
    return scenario, export(scenario, tmp_path)


def worksheet(folder: Path, **changes: object) -> Worksheet:
    path, result = folder / "work.json", folder / "sheet.json"
    given: dict[str, object] = {"data": str(folder), "result": str(result), "model": "2nn"}
    given |= {"cohort": 2, "epochs": 1, "batch_size": 8, "learning_rate": 0.1, "rounds": 1}
    given |= {"seed": 1, "threads": 1, "processes": 1}
    path.write_text(json.dumps(given | changes), encoding="utf-8")
    return Worksheet.read(str(path))


@pytest.mark.parametrize(("settings", "shape"), NETWORKS, ids=lambda x: getattr(x, "kind", ""))
def test_peers_networks_with_exported_weights_compute_what_fleetsims_do(settings, shape):
    ours = build_model(settings, input_shape=shape, num_classes=10, seed=3)
    theirs = build(settings.kind, shape, 10)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(flatten(ours)), theirs.parameters())
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(3, *shape, generator=generator)

    with torch.no_grad():
        torch.testing.assert_close(theirs(inputs), ours(inputs), rtol=0, atol=0)


def test_every_client_is_exported_with_the_samples_that_fleetsim_assigns_to_it(tmp_path):
    scenario, folder = digits(tmp_path)
    sheet = worksheet(folder)
    dataset = load_dataset(DigitsSettings(), seed=scenario.seed, num_clients=20)
    shares = split(
        scenario.task.partition,
        labels=dataset.train_labels,
        owner=None,
        num_clients=20,
        seed=scenario.seed,
    )

    assert sheet.num_clients == 20
    for number, rows in enumerate(shares):
        inputs, labels = sheet.client(number)
        np.testing.assert_array_equal(inputs, dataset.train_inputs[rows])
        np.testing.assert_array_equal(labels, dataset.train_labels[rows])


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("w1", {"cohort": 10}),
        # Peers train all fifteen clients.
        ("w5", {"cohort": 15}),
        # Peers learn of the buffer.
        ("w6", {"cohort": 10, "concurrency": 50, "buffer_size": 10}),
    ],
)
def test_the_work_of_a_peer_is_that_of_its_scenario(name, changes):
    sheet = worksheet_of(work(name), scenario_of(work(name), ["stop.rounds=7"]), data=Path("d"))
    of_all = {"epochs": 5, "batch_size": 50, "learning_rate": 0.1, "rounds": 7}

    assert sheet == {"data": "d", "model": "2nn", **of_all, **changes}
