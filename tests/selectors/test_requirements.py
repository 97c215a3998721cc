"""Requirements of selectors, checked before a run by one rule for all kinds."""

import json
import subprocess
import sys
from typing import get_args

import pytest
import yaml

from benchmarks.selector_prices import selector_of
from fleetsim import simulate
from fleetsim.errors import ScenarioError
from fleetsim.scenario import load
from fleetsim.selectors import DEMANDS, SelectorSettings, demands
from fleetsim.selectors.baselines.uniform import RandomSettings
from fleetsim.selectors.bp_ucb.selector import BpUcbSettings
from fleetsim.selectors.demands import Use
from fleetsim.selectors.oort.selector import OortSettings
from fleetsim.selectors.power_of_choice.selector import PowerOfChoiceSettings
from tests.selector_modes import modes
from tests.selectors.rounds import fleet_of

BUFFERED = [
    *("evaluate.validation_fraction=0.1", "stop.rounds=2", "task.local.epochs=1"),
    *("task.model.hidden=[8, 8]", "fleet.devices={pixel-6: 1.0}", "fleet.usage={}"),
]


def buffered(settings):
    selector = json.dumps(settings.model_dump(mode="json"))
    return load("quickstart-fedbuff", [*BUFFERED, f"server.selector={selector}"])


def test_a_buffered_server_refuses_who_asks_clients():
    with pytest.raises(ScenarioError) as refusal:
        buffered(BpUcbSettings())
    (line,) = refusal.value.faults
    assert "server.selector.kind = 'bp-ucb': asks clients" in line
    assert "server.mode = 'buffered'" in line
    assert "set server.mode: synchronous" in line


WITHOUT_PROBES = {
    mode.values[0].kind: mode
    for mode in reversed(modes())
    if not mode.values[0].build().needs_probes
}
"""The first mode of every kind that asks nothing."""


@pytest.mark.parametrize("settings", WITHOUT_PROBES.values())
def test_who_asks_nothing_runs_with_a_buffered_server(settings, tmp_path):
    done = simulate.run(buffered(settings), out=tmp_path / "run", workers=1)

    # A third round has those who were called back at the end.
    assert done.rounds["num_delivered"].tolist()[:2] == [8, 8]
    assert (done.tasks["purpose"] == "train").all()


VARIANTS = [(kind, variant) for kind, variants in DEMANDS.items() for variant in variants]


@pytest.mark.parametrize(("kind", "variant"), VARIANTS)
def test_who_must_have_samples_to_validate_with_asks_for_them(kind, variant):
    selector = selector_of(kind, variant, size=20, cohort=3)
    fleet = fleet_of((10,) * 20, cohort=3, planned_rounds=9)
    if "samples to validate with" not in DEMANDS[kind][variant].knows:
        selector.setup(fleet)
        return

    key = r"set evaluate\.validation_fraction, such as 0\.1"
    with pytest.raises(ScenarioError, match=rf"^server\.selector: {kind} .* accuracy .*; {key}"):
        selector.setup(fleet)


@pytest.mark.slow
def test_no_selector_takes_torch_until_a_run_begins():
    """Scenarios are checked by `setup`, and `validate` must not wait for torch."""
    fleet = "fleet_of((10,) * 20, cohort=3, planned_rounds=9, validation=Evaluation(0.5, 1.0))"
    code = f"""
import sys
from fleetsim.contracts import Evaluation
from tests.selector_modes import modes
from tests.selectors.rounds import fleet_of
for mode in modes():
    mode.values[0].build().setup({fleet})
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_selector_of_ones_own_is_refused_before_there_is_a_folder(tmp_path):
    scenario = load("quickstart-fedbuff")

    with pytest.raises(ScenarioError, match="asks clients before it chooses"):
        simulate.run(scenario, out=tmp_path / "run", selector=BpUcbSettings().build())
    assert not (tmp_path / "run").exists()


def test_needs_by_hand():
    asking, blind_one = PowerOfChoiceSettings().build(), OortSettings().build()

    assert demands.unmet(asking) is None
    assert demands.unmet(asking, is_buffered=True) == demands.PROBES
    assert demands.unmet(blind_one, is_buffered=True) is None
    assert demands.unmet(blind_one, is_trained=False) == demands.LOSSES
    assert demands.unmet(asking, is_trained=False, is_buffered=True) == demands.LOSSES
    assert demands.unmet(RandomSettings().build(), is_trained=False, is_buffered=True) is None


@pytest.mark.parametrize(
    ("size", "max_sets", "is_refused"),
    # 75,287,520 sets; 20 choose 5 is 15,504.
    [(100, 1_000_000, True), (20, 15_503, True), (20, 15_504, False)],
)
def test_too_many_sets_are_known_when_the_scenario_is_read(size, max_sets, is_refused):
    changes = [
        *(f"fleet.size={size}", "server.cohort=5", "server.over_commit=1.0"),
        f"server.selector={{kind: quick-init-ucb, max_sets: {max_sets}}}",
    ]
    if not is_refused:
        assert load("quickstart", changes).fleet.size == size
        return

    with pytest.raises(ScenarioError) as refusal:
        load("quickstart", changes)
    (line,) = refusal.value.faults
    for key in ("server.selector.kind", "fleet.size", "server.cohort", "server.selector.max_sets"):
        assert key in line


UNION = {cls.model_fields["kind"].default: cls for cls in get_args(get_args(SelectorSettings)[0])}


def settings_of(kind, variant):
    cls = UNION[kind]
    required = {n: f.examples[0] for n, f in cls.model_fields.items() if f.is_required()}
    return cls(**required, **(yaml.safe_load(variant) or {} if variant else {}))


def test_every_kind_has_its_demands():
    assert DEMANDS.keys() == UNION.keys()
    assert all(DEMANDS.values())


@pytest.mark.parametrize(
    ("kind", "variant"),
    [(kind, variant) for kind, of_kind in DEMANDS.items() for variant in of_kind],
)
def test_a_variant_is_in_the_settings_and_its_use_follows_from_needs_and_memory(kind, variant):
    settings, demand = settings_of(kind, variant), DEMANDS[kind][variant]

    assert demand.use in get_args(Use)
    # A selector that is useless without real losses, accuracies or gradients cannot be a plain yes.
    is_private = demand.use in ("private", "small")
    assert is_private == settings.build().needs_losses
    # Only what grows faster than the fleet is for small ones.
    assert (demand.use == "small") == (demand.square_byte > 0 or demand.has_sets)
