"""Data sets of the user's own in a run: from Python, by name, as a kind, in a study."""

import sys

import numpy as np
import pytest

import fleetsim
from fleetsim.errors import DataError, ScenarioError
from fleetsim.record.saved_run import open_run
from fleetsim.report.pages import scenario_differences
from fleetsim.scenario import load

OWN = '''
from typing import Literal
import numpy as np
import fleetsim
from fleetsim.settings import Settings

draws = np.random.default_rng(1)
X, Y = draws.random((240, 8), dtype=np.float32), np.arange(240) % 3

class Plain:
    def load(self):
        return (X, Y), (X[:30], Y[:30])

class Scaled:
    class Settings(Settings):
        """Samples times a factor."""

        kind: Literal["scaled"] = "scaled"
        factor: float = 2.0

    def __init__(self, settings):
        self.factor = settings.factor

    def load(self):
        return fleetsim.dataset(
            (X * self.factor, Y), client=np.arange(240) // 20, test_fraction=0.25
        )

class Noisy:
    def load(self):
        return fleetsim.dataset(
            Plain().load(),
            transform=lambda x: x + np.random.normal(size=8),
            test_transform=lambda x: x,
            transform_each_access=True,
        )

def table():
    return fleetsim.dataset({"x": X, "label": Y}, test_fraction=0.2)
'''
DRAWS = np.random.Generator(np.random.PCG64(2))
X, Y = DRAWS.random((240, 8), dtype=np.float32), np.arange(240) % 3
TEST = X[:30], Y[:30]


@pytest.fixture
def own(own_module):
    own_module(OWN, "own_data")
    load("small.yaml", plugin="own_data:Plain")  # makes it importable
    return sys.modules["own_data"]


def run(name=None, *changes, out="out", **options):
    return fleetsim.run(
        "small.yaml", list(changes), out=out, plugin=name, progress=False, **options
    )


@pytest.mark.slow
def test_every_way_in_gives_the_same_run(own, command):
    runs = [
        run("own_data:Plain", out="name"),
        run(dataset=own.Plain, out="class"),
        run(dataset=own.Plain(), out="object"),
        run(dataset=own.Plain().load(), out="pair"),
    ]
    assert not command("run", "small.yaml", "--plugin", "own_data:Plain", "--out", "command").code
    runs.append(open_run("command"))

    assert len({(each.manifest.digest, each.manifest.data_sha256) for each in runs}) == 1
    digest = str(runs[0].manifest.data_sha256)
    kinds = [each.scenario["task"]["dataset"]["kind"] for each in runs]
    assert kinds == [*["own_data:Plain"] * 3, f"own:{digest[:16]}", "own_data:Plain"]
    (record,) = runs[0].manifest.plugins
    assert (record.kind, record.name) == ("dataset", "own_data:Plain")
    assert runs[0].tasks.num_samples.sum() == 4 * 3 * 20


@pytest.mark.slow
def test_a_kind_with_settings_has_keys(own):
    changes = ["task.dataset={kind: scaled, factor: 3.0}", "task.partition={kind: natural}"]
    scaled = run("own_data:Scaled", *changes)

    assert scaled.scenario["task"]["dataset"] == {"kind": "scaled", "factor": 3.0}
    assert scaled.clients.num_samples.tolist() == [15] * 12
    assert load("out/scenario.yaml", plugin="own_data:Scaled").data() == scaled.scenario
    with pytest.raises(ScenarioError, match="kind 'scaled', which the scenario does not use"):
        load("small.yaml", plugin="own_data:Scaled")


def test_a_function_needs_its_kind(own):
    assert run("dataset=own_data:table").scenario["task"]["dataset"]["kind"] == "own_data:table"
    with pytest.raises(ScenarioError, match=r"say --plugin dataset=.* or --plugin model="):
        run("own_data:table", out="other")


@pytest.mark.slow
def test_samples_made_at_each_access_give_equal_tables_for_any_number_of_processes(own):
    one, two = (run("own_data:Noisy", out=str(n), workers=n) for n in (1, 2))
    plain = run("own_data:Plain", out="plain")

    assert (one.manifest.digest, one.manifest.trainer) == (two.manifest.digest, "serial")
    assert one.rounds.loss.tolist() != plain.rounds.loss.tolist()
    with pytest.raises(ScenarioError, match=r"trainer\.kind: stacked reads samples once, but the"):
        run("own_data:Noisy", "trainer.kind=stacked", out="three")


@pytest.mark.slow
def test_other_data_are_another_run(own):
    first, other = (run(dataset=((X + k, Y), TEST), out=str(k)) for k in (0, 1))
    again = run(dataset=((X.copy(), Y), TEST), out="0", exist_ok=True)

    assert again.manifest.digest == first.manifest.digest
    assert first.manifest.world_hash != other.manifest.world_hash
    (difference, *_) = scenario_differences.world_differences([first, other])
    assert difference.startswith("task.dataset.kind")
    with pytest.raises(DataError, match="holds a complete run") as no:
        run(dataset=((X + 1, Y), TEST), out="0")
    assert "\n" not in str(no.value)
    with pytest.raises(ScenarioError, match=r"was run with the plug-in own:.*, not own:"):
        run(dataset=((X + 1, Y), TEST), out="0", exist_ok=True)
    with pytest.raises(ScenarioError, match=r"'own:.{16}': is no dataset of fleetsim's; give"):
        load("0/scenario.yaml")
    same = fleetsim.run("0/scenario.yaml", dataset=((X, Y), TEST), out="again", progress=False)
    assert same.manifest.digest == first.manifest.digest


@pytest.mark.slow
def test_a_named_data_set_whose_content_has_changed_is_not_resumed(own, monkeypatch):
    first = run("own_data:Plain", out="one")
    monkeypatch.setattr(own, "X", own.X + 1)

    with pytest.raises(ScenarioError, match="the data of the user's own data set are not those"):
        run("own_data:Plain", out="one", exist_ok=True)
    other = run("own_data:Plain", out="two")
    assert first.manifest.world_hash == other.manifest.world_hash
    (difference,) = scenario_differences.world_differences([first, other])
    assert difference.startswith("task.dataset.data_sha256")
    assert scenario_differences.world_differences([first, first]) == []


def test_a_changed_folder_is_not_resumed(own, tmp_path):
    home = tmp_path / "folder"
    home.mkdir()
    folder = f"task.dataset={{kind: folder, folder: {home}, test_fraction: 0.2}}"
    np.savez(home / "train.npz", inputs=X, labels=Y)
    first = run(None, folder)

    assert first.manifest.data_sha256 is not None
    assert run(None, folder, exist_ok=True).manifest.digest == first.manifest.digest
    np.savez(home / "train.npz", inputs=X, labels=2 - Y)
    with pytest.raises(ScenarioError, match="are not those that the run began with; restore them"):
        run(None, folder, exist_ok=True)


def test_validate_reads_the_data(own, command):
    good = command("validate", "small.yaml", "--plugin", "own_data:Plain")
    many = ("--set", "fleet.size=500", "--set", "server.selector.kind=random")
    bad = command("validate", "small.yaml", "--plugin", "own_data:Plain", *many)

    assert (good.code, good.err) == (0, "")
    assert "data        own_data:Plain\npartition   iid\n" in good.out
    assert bad.code == 2
    assert "500 clients are more than the 240 training samples" in bad.err
