"""Input of the peers: the networks, partition and work that fleetsim trains."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.export import export
from benchmarks.peers.networks import Form, build
from benchmarks.peers.worksheet import Worksheet, train
from benchmarks.works import WORKS, Work, scenario_of, worksheet_of
from fleetsim import rng
from fleetsim.contracts import SampleForm
from fleetsim.learning.data.built_in import DigitsSettings
from fleetsim.learning.data.loading import load_dataset
from fleetsim.learning.data.published.texts import ShakespeareSettings
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    FedGraCnnSettings,
    Gpt2Settings,
    LogisticSettings,
    LstmSettings,
    ModelSettings,
    ResNet18Settings,
    TwoNNSettings,
)
from fleetsim.learning.partition.client_samples import split
from fleetsim.scenario import Scenario, load
from tests.learning.data.stand_ins import placed, stand_in

TEXT = SampleForm((12,), 20, 20, is_sequence=True)
LAST = SampleForm((12,), 20, 20)
NETWORKS = [
    (LogisticSettings(), SampleForm((60,), 10)),
    (TwoNNSettings(), SampleForm((1, 28, 28), 10)),
    (FedGraCnnSettings(), SampleForm((1, 28, 28), 10)),
    (ResNet18Settings(), SampleForm((3, 32, 32), 10)),
    (LstmSettings(hidden=8), TEXT),
    (LstmSettings(hidden=8), LAST),
    (Gpt2Settings(layers=2, heads=2, width=8), TEXT),
    (Gpt2Settings(layers=2, heads=2, width=8), LAST),
]


def work(name: str) -> Work:
    return next(work for work in WORKS if work.name == name)


def digits(tmp_path: Path) -> tuple[Scenario, Path]:
    scenario = load("quickstart", ["fleet.size=20", "task.partition={kind: iid}"])
    return scenario, export(scenario, tmp_path)


def worksheet(folder: Path, **changes: object) -> Worksheet:
    given: dict[str, object] = {
        "data": str(folder),
        "model": "2nn",
        "cohort": 2,
        "epochs": 1,
        "batch_size": 8,
        "learning_rate": 0.1,
        "rounds": 1,
        "seed": 1,
        "threads": 1,
        "processes": 1,
        "result": str(folder / "sheet.json"),
    }
    path = folder / "work.json"
    path.write_text(json.dumps(given | changes), encoding="utf-8")
    return Worksheet.read(str(path))


def both(settings: ModelSettings, form: SampleForm) -> tuple[torch.nn.Module, torch.nn.Sequential]:
    """Network of fleetsim, and that of the peers with its weights."""
    ours = build_model(settings, form, seed=3)
    sizes = settings.model_dump(exclude={"kind"}) if settings.reads_text else {}
    shape = Form(form.input_shape, form.num_classes, form.vocabulary_size, form.is_sequence)
    theirs = build(settings.kind, shape, sizes)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(flatten(ours)), theirs.parameters())
    return ours, theirs


def samples(form: SampleForm, num: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    size = (num, *form.input_shape)
    inputs = torch.rand(size, generator=draw)
    if form.vocabulary_size is not None:
        inputs = torch.randint(form.vocabulary_size, size, generator=draw)
    wanted = size if form.is_sequence else (num,)
    return inputs, torch.randint(form.num_classes, wanted, generator=draw)


@pytest.mark.parametrize(("settings", "form"), NETWORKS, ids=lambda x: getattr(x, "kind", ""))
def test_peers_networks_with_exported_weights_compute_what_fleetsims_do(settings, form):
    ours, theirs = both(settings, form)
    inputs, _ = samples(form, 3)
    # Torch's own attention sums in another order than products and softmax.
    exact = {"rtol": 0, "atol": 0} if settings.kind != "gpt2" else {"rtol": 1e-5, "atol": 1e-6}

    with torch.no_grad():
        torch.testing.assert_close(theirs(inputs), ours(inputs), **exact)


@pytest.mark.parametrize(("settings", "form"), NETWORKS, ids=lambda x: getattr(x, "kind", ""))
def test_a_client_of_a_peer_takes_the_step_that_fleetsims_takes(settings, form, tmp_path):
    # One batch of all samples: its order changes the rounding alone.
    ours, theirs = both(settings, form)
    base, (inputs, labels) = flatten(ours), samples(form, 6)
    local = LocalSettings(epochs=1, batch_size=6, optimizer=SgdSettings(learning_rate=0.1))
    passes = local_sgd.Passes(epochs=1, stream=rng.stream(1, "test"))
    expected = local_sgd.train(ours, base, inputs, labels, local, passes).vector

    train(theirs, inputs, labels, worksheet(tmp_path, batch_size=6))
    found = torch.nn.utils.parameters_to_vector(theirs.parameters()).detach().numpy()
    assert expected is not None
    update = np.linalg.norm(expected - base)
    assert update > 0
    assert np.linalg.norm(found - expected) < 1e-5 * update


def test_a_network_on_pictures_in_nhwc_takes_the_same_step(tmp_path):
    _, folder = digits(tmp_path)
    found = []
    for is_channels_last in (False, True):
        sheet = worksheet(
            folder, model="fedgra-cnn", batch_size=1000, is_channels_last=is_channels_last
        )
        ours = build_model(FedGraCnnSettings(), SampleForm((1, 8, 8), 10), seed=3)
        np.save(folder / "initial.npy", flatten(ours))
        network, (inputs, labels) = sheet.network(), sheet.client(0)
        train(network, inputs, labels, sheet)
        with torch.no_grad():
            layout = network[: 1 + is_channels_last](inputs).stride(1)
        # Maps of the first convolution, whose channels are adjacent in NHWC alone.
        assert (layout == 1) == is_channels_last
        found.append(torch.nn.utils.parameters_to_vector(network.parameters()).detach())

    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)
    assert not torch.equal(found[0], torch.from_numpy(flatten(ours)))


def test_a_text_is_exported_as_tokens_with_a_label_at_each_position(tmp_path, monkeypatch):
    lines = "".join(f"<LINE>To be or not to be {n}</LINE>" for n in range(9))
    play = "".join(f"<SPEECH><SPEAKER>{who}</SPEAKER>{lines}</SPEECH>" for who in ("ANN", "BEN"))
    plays = {"play.xml": f"<PLAY>{play}</PLAY>".encode()}
    known = (stand_in("shakespeare", plays)["shakespeare"],)
    monkeypatch.setattr(ShakespeareSettings, "published", known)
    placed(tmp_path / "plays", plays)
    dataset = "{kind: shakespeare, predict: each, context: 8, stride: 8, min_characters: 50"
    scenario = load(
        "quickstart",
        [
            f"task.dataset={dataset}, folder: {tmp_path / 'plays'}}}",
            "task.partition={kind: natural}",
            "task.model={kind: lstm, hidden: 4}",
            "fleet.size=2",
            "server.cohort=1",
        ],
    )
    folder = export(scenario, tmp_path)
    sizes = {"embedding": 8, "hidden": 4, "layers": 2}
    sheet = worksheet(folder, model="lstm", sizes=sizes, takes_turns=True, cohort=1)
    inputs, labels = sheet.client(1)

    assert int(sheet.array("vocabulary_size")) == 80
    # The label of a position is the token of the next one.
    np.testing.assert_array_equal(inputs[:, 1:], labels[:, :-1])
    assert sheet.network()(inputs).shape == (*labels.shape, 80)
    assert [sheet.turn(number) for number in range(3)] == [[0], [1], [0]]
    assert 0.0 <= sheet.accuracy(sheet.network()) <= 1.0


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


def test_untrained_network_guesses_about_as_fleetsims_does(tmp_path):
    scenario, folder = digits(tmp_path)
    sheet = worksheet(folder)
    module = build_model(scenario.task.model, SampleForm((1, 8, 8), 10), seed=scenario.seed)
    labels = torch.from_numpy(np.load(folder / "test_labels.npy"))
    with torch.no_grad():
        guesses = module(torch.from_numpy(np.load(folder / "test_inputs.npy"))).argmax(dim=1)

    assert sheet.accuracy(sheet.network()) == pytest.approx(
        float((guesses == labels).double().mean())
    )


@pytest.mark.parametrize("name", ["w7", "w8"])
def test_peers_take_turns_as_the_rounds_of_the_scenario_do(name, tmp_path):
    scenario = scenario_of(work(name), [])
    np.save(tmp_path / "offsets.npy", np.arange(scenario.fleet.size + 1))
    server: Any = scenario.server
    sheet = worksheet(tmp_path, cohort=server.cohort, takes_turns=True)
    sets = server.selector.sets

    assert [sheet.turn(number) for number in range(len(sets))] == [list(each) for each in sets]


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


@pytest.mark.parametrize("one", WORKS, ids=lambda one: one.name)
def test_every_work_has_a_scenario_of_its_name_that_is_evaluated_at_the_end_only(one):
    scenario = scenario_of(one, [])

    assert scenario.name == one.name
    assert scenario.stop.rounds == one.rounds
    assert scenario.evaluate.every_rounds > one.rounds
