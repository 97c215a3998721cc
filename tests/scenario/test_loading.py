"""Scenarios beyond their single settings, and their outline; bad ones are in bad_input."""

import shutil

import pytest
from pydantic import Field

import fleetsim
from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.scenario import load, outline
from fleetsim.settings import DEFAULTS_VERSION, Settings
from tests.scenario import defaults


@pytest.mark.parametrize(
    ("change", "makes_another_run", "makes_another_world"),
    [
        ("server.selector.kind=oort", True, False),
        ("trainer.kind=stacked", True, False),
        ("fleet.size=49", True, True), ("fleet.battery.charge_w=5.0", True, True),
        ("task.local.epochs=1", True, True), ("task.partition.alpha=0.6", True, True),
        ("evaluate.validation_fraction=0.1", True, True), ("seed=2", True, True),
        ("checkpoint.every_rounds=3", False, False),
        ("server.cohort=8", False, False), ("seed=1", False, False),  # as the file says
    ],
)  # fmt: skip
def test_the_world_is_fleet_task_and_seed(change, makes_another_run, makes_another_world):
    scenario, plain = load("quickstart", change), load("quickstart")

    assert (scenario.content_hash != plain.content_hash) == makes_another_run
    assert (scenario.world_hash != plain.world_hash) == makes_another_world


def test_a_trainer_that_cannot_train_the_model_is_a_fault_of_the_scenario():
    changes = ["trainer.kind=stacked", "task.model={kind: lenet5}"]

    with pytest.raises(ScenarioError, match=r"trainer.kind .*lenet5; use auto or serial"):
        load("quickstart", changes)


@pytest.mark.slow
def test_files_of_ones_own_count_from_the_scenario_and_are_found_from_anywhere(
    tmp_path, monkeypatch
):
    home = tmp_path / "mine"
    (home / "hardware").mkdir(parents=True)
    shutil.copy(bundled.folder("devices") / "pixel-6.yaml", home / "hardware" / "my-phone.yaml")
    shutil.copy(bundled.folder("radios") / "lte.yaml", home / "my-radio.yaml")
    shutil.copytree(bundled.folder("traces") / "people-week", home / "my-people")
    shutil.copytree(bundled.folder("traces") / "commute-5g", home / "my-network")
    shutil.copy(bundled.folder("scenarios") / "quickstart.yaml", home / "scenario.yaml")
    changes = [
        "fleet.devices={hardware/my-phone.yaml: 1.0}",
        "fleet.channel={kind: trace, trace: my-network, metered_radio: my-radio.yaml}",
        "fleet.usage.trace=my-people",
        "task.dataset={kind: mnist, folder: my-people}",
    ]

    scenario = load(home / "scenario.yaml", changes)
    (tmp_path / "resolved.yaml").write_text(scenario.to_yaml(), encoding="utf-8")
    monkeypatch.chdir("/")
    again = load(tmp_path / "resolved.yaml")

    fleet, dataset = scenario.data()["fleet"], scenario.data()["task"]["dataset"]
    assert list(fleet["devices"]) == [str(home / "hardware" / "my-phone.yaml")]
    assert fleet["channel"]["metered_radio"] == str(home / "my-radio.yaml")
    assert fleet["channel"]["trace"] == str(home / "my-network")
    assert fleet["usage"]["trace"] == dataset["folder"] == str(home / "my-people")
    assert again == scenario


def test_the_market_is_no_file_even_where_one_is_called_so(tmp_path, monkeypatch):
    (tmp_path / "market").mkdir()
    monkeypatch.chdir(tmp_path)

    scenario = load("quickstart", ["fleet.devices={market: 0.5, pixel-6: 0.5}"])

    assert scenario.fleet.devices == {"market": 0.5, "pixel-6": 0.5}


def test_the_most_over_commitment_that_a_message_names_is_accepted():
    changes = ["server.cohort=100", "server.over_commit=1.1"]
    load("quickstart", [*changes, "fleet.size=110"])
    with pytest.raises(ScenarioError, match=r"over_commit = 1\.1: .* must be at most 1\.09$"):
        load("quickstart", [*changes, "fleet.size=109"])
    # 50 / 7 = 7.142857...; rounded to 7.14286 it would ask for 51 clients.
    with pytest.raises(ScenarioError, match=r"must be at most 7\.1428$"):
        load("quickstart", ["server.cohort=7", "server.over_commit=8"])
    load("quickstart", ["server.cohort=7", "server.over_commit=7.1428"])


def outlined(name, overrides=(), **keys):
    return outline(load(name, overrides, **keys))


def test_the_outline_of_quickstart_by_hand():
    lines = outlined("quickstart")

    assert lines.pop("run").startswith("seed 1, folder runs/quickstart-")
    assert lines == {
        "data": "digits",
        "partition": "dirichlet, alpha 0.5, min_samples 5, when_short redraw",
        "model": "2nn, hidden [200, 200]",
        "training": "sgd, learning_rate 0.05, epochs 5, batch_size 8, clock_fraction 1",
        # 12.5, 7.5, 10, 5, 7.5 and 7.5; the first two halves are rounded up.
        "clients": "50 (13 pixel-6, 10 redmi-note-10, 8 oneplus-10-pro, 7 jetson-nano-cpu,"
        " 7 t2.small, 5 realme-q3s)",
        "network": "fading, unmetered_radio wifi, metered_radio lte, bandwidth_hz 5000000,"
        " fading rayleigh",
        "people": "trace people-week, starts_at_s 68400",
        "server": "synchronous, cohort 8, over_commit 1.25, minimum_reports 1",
        "deadline": "3 s",
        "selector": "random, weights uniform, slot_rounds 1",
        "aggregator": "fedavg, weights samples",
        "evaluation": "every_rounds 1",
        "stop": "80 rounds or 365 days of virtual time",
    }


def test_a_line_of_the_outline_has_what_is_on():
    buffered = outlined("quickstart-fedbuff")
    other = outlined(
        "quickstart",
        {
            "fleet.usage": {},
            "fleet.devices": {"t2.small": 1},
            "fleet.crash_per_hour": 0.5,
            "server.compression": {"kind": "top-k", "fraction": 0.1},
            "stop": {"accuracy": 0.9, "energy_j": 2e6, "time_s": 7200},
        },
    )

    assert buffered["server"] == "buffered, concurrency 12, buffer_size 8"
    assert buffered["deadline"] == other.pop("people") == "none"
    assert other["clients"] == "50 (50 t2.small), crash_per_hour 0.5"
    assert other["aggregator"].endswith("weights samples, compression (top-k, fraction 0.1)")
    assert other["stop"] == "accuracy 0.9 or 2e+06 J or 7200 s of virtual time"


class Inner(Settings):
    kind: str = "inner"
    width: int = 3


class Other(Settings):
    kind: str = "other"
    width: int = 3


class Outer(Settings):
    name: str
    inner: Inner | Other = Inner()
    parts: tuple[Inner | Other, ...] = ()
    shares: dict[str, float] = Field(default_factory=dict)
    limit: float | None = None


def test_what_is_stated_is_what_differs_from_the_defaults_and_every_kind():
    changed = {"name": "a", "limit": 2.0, "shares": {"b": 0.5}}
    parts = Outer(name="a", inner=Other(), parts=(Inner(), Other()))

    assert Outer(name="a").stated() == {"name": "a"}
    assert Outer.model_validate(changed).stated() == changed
    assert parts.stated() == {
        "name": "a", "inner": {"kind": "other"}, "parts": [{"kind": "inner"}, {"kind": "other"}],
    }  # fmt: skip


def test_another_value_changes_the_hash_of_what_it_belongs_to_and_a_default_none():
    changes = ("server.selector.kind=oort", "task.model.kind=logistic",
        "fleet.channel.rate=shannon", "task.partition.alpha=0.4",
        "evaluate.validation_fraction=0.1", "fleet.channel.block_s=2")  # fmt: skip
    plain = fleetsim.load("quickstart")
    written = fleetsim.load("quickstart", ["task.local.proximal_mu=0.0", "fleet.seed=null"])
    others = [fleetsim.load("quickstart", change) for change in changes]

    assert written.definition_hash == plain.definition_hash
    assert len({one.definition_hash for one in (plain, *others)}) == 7
    # The first three leave the clients as they are, even the law of rates does.
    assert {one.clients_hash for one in (written, *others[:3])} == {plain.clients_hash}
    assert len({one.clients_hash for one in (plain, *others[3:])}) == 4


def test_every_default_is_on_record_and_a_changed_one_has_a_new_version():
    version, before = defaults.recorded()
    now = defaults.present()
    add = "run `python -m tests.scenario.defaults`"

    assert defaults.changed(before, now) == [], f"raise DEFAULTS_VERSION and {add}"
    assert version == DEFAULTS_VERSION, add
    assert now == before, add
