"""The rehearsal of plug-ins: every broken one is refused in one line, and none of the others.

Each module `broken_KINDs.py` beside this one has the plug-ins of a kind: `BROKEN`, class and words
of the line; `GOOD`, classes that keep the contract; `KIND`.
"""

import importlib
import random  # noqa: TID251
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

import fleetsim
from fleetsim.contracts import ProbeRequest, Purpose, SampleForm, Work, WorkKind
from fleetsim.errors import ScenarioError
from fleetsim.user import KINDS
from fleetsim.user.parts.selectors import SelectorPlugins
from fleetsim.user.watched_calls import WatchedCalls, same
from tests.selector_modes import modes
from tests.user.broken_aggregators import Mean
from tests.user.broken_models import Net
from tests.user.broken_selectors import LeastAsked

MODULES: list[Any] = [
    importlib.import_module(f"tests.user.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("broken_*.py"))
]
BROKEN = [
    pytest.param(broken, module.KIND, message, id=f"{module.KIND} {broken.__name__}")
    for module in MODULES
    for broken, message in module.BROKEN.items()
]
GOOD = [
    pytest.param(good, module.KIND, id=f"{module.KIND} {good.__name__}")
    for module in MODULES
    for good in module.GOOD
]


def test_there_are_broken_plug_ins_of_every_kind():
    assert {module.KIND for module in MODULES} == set(KINDS)
    assert len(BROKEN) > 50


@pytest.mark.parametrize(("broken", "kind", "message"), BROKEN)
def test_a_broken_plug_in_is_refused_in_one_line(broken, kind, message):
    with pytest.raises(ScenarioError) as fault:
        fleetsim.check_plugin(broken, kind)

    (line,) = fault.value.faults
    assert message in line
    assert broken.__name__ in line


@pytest.mark.parametrize(("good", "kind"), GOOD)
def test_one_that_keeps_its_contract_is_not_refused(good, kind):
    before = random.getstate(), np.random.get_state()  # noqa: NPY002

    assert fleetsim.check_plugin(good) == kind
    assert fleetsim.check_plugin(good()) == kind
    after = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert same(before, after)


FIRST_MODES = list({mode.values[0].kind: mode for mode in reversed(modes())}.values())


@pytest.mark.parametrize("settings", FIRST_MODES)
def test_the_selectors_of_fleetsim_keep_the_contract(settings):
    """Of published methods, with probes, losses and networks: none is refused by mistake."""
    SelectorPlugins.check(settings.build, WatchedCalls(settings.kind))


def test_a_function_is_checked_as_the_kind_that_is_named():
    def in_turn(labels, num_clients, generator):
        return [np.arange(k, len(labels), num_clients) for k in range(num_clients)]

    assert fleetsim.check_plugin(in_turn, "partition") == "partition"


def test_a_network_for_other_samples_than_the_usual_ones_is_told_how_to_name_them():
    class Digits(Net):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(64, 10)

    with pytest.raises(ScenarioError, match=r"\(3, 32, 32\), .* were tried: .* sample_form, or"):
        fleetsim.check_plugin(Digits)

    class Series(Net):
        def __init__(self, samples):
            super().__init__()
            _channels, _length = samples.input_shape

    with pytest.raises(ScenarioError, match=r"unpack.* were tried: .* fleetsim validate SCENARIO"):
        fleetsim.check_plugin(Series)

    class NamedDigits(Digits):
        sample_form = SampleForm((1, 8, 8), 10)

    assert fleetsim.check_plugin(NamedDigits) == "model"


def test_the_answer_to_a_training_before_the_choice_is_a_probe_as_in_a_run():
    seen: set[Any] = set()

    class Trying(LeastAsked):
        needs_probes = True

        def probe(self, view):
            work = Work(WorkKind.TRAIN, epochs=1)
            return [] if view.stage else [ProbeRequest(int(view.candidates[0]), work)]

        def select(self, view):
            seen.update((report.purpose, report.base) for report in view.reports)
            return super().select(view)

    assert fleetsim.check_plugin(Trying) == "selector"
    assert seen == {(Purpose.PROBE, None)}


@pytest.mark.slow
def test_a_probing_that_does_not_end_is_told():
    class Curious(LeastAsked):
        needs_probes = True

        def probe(self, view):
            return [ProbeRequest(int(view.candidates[0]), Work(WorkKind.EVALUATE))]

    with pytest.raises(ScenarioError, match="probe asks for more in stage 1000 still; it must"):
        fleetsim.check_plugin(Curious)


def test_an_object_that_cannot_be_copied_is_told():
    class Uncopied(Mean):
        def __deepcopy__(self, memo):
            raise TypeError("a lock")

    with pytest.raises(ScenarioError, match=r"cannot be copied \(TypeError: a lock\); give its"):
        fleetsim.check_plugin(Uncopied())


OWN = """
from typing import Literal
from fleetsim.settings import Settings

class Part:
    class Settings(Settings):
        kind: Literal["part"] = "part"
        share: float

    def __init__(self, settings):
        self.share = settings.share

    def aggregate(self, base, reports):
        return base + (self.share if self.share else None)
"""


@pytest.mark.slow
def test_the_verb_checks_by_name_with_settings(own_module, command):
    own_module(OWN, "own")

    good = command("plugin", "check", "own:Part", "--set", "share=0.5")
    assert (good.code, good.out) == (0, "conforms: own:Part is an aggregator\n")
    without = command("plugin", "check", "own:Part")
    assert without.code == 2
    assert "share: missing" in without.err
    wrong = command("plugin", "check", "aggregator=own:Part", "--set", "share=0")
    assert wrong.code == 2
    assert wrong.err.startswith("error: --plugin aggregator=own:Part: aggregate fails: TypeError: ")
    assert len(wrong.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (np.array([np.nan]), np.array([np.nan]), True),
        (np.array([0.0]), np.array([-0.0]), False),
        (np.arange(2), np.arange(2).astype(np.int32), False),
        (np.arange(2), [0, 1], False),
        ((1, np.arange(2)), (1, np.arange(2)), True),
        ({"a": 1}, {"b": 1}, False),
        (float("nan"), float("nan"), True),
        (1, 1.0, False),
    ],
)
def test_equality_is_to_the_last_bit(one, two, expected):
    assert same(one, two) is expected


def test_the_second_number_of_a_pair_is_a_draw_too():
    """`random.gauss` draws two and keeps one: taking it leaves the generator's words alone."""
    before = random.getstate()
    random.gauss(0.0, 1.0)
    try:
        with pytest.raises(ScenarioError, match="draws from or seeds the global generator of rand"):
            WatchedCalls("mine").watched("select", lambda: random.gauss(0.0, 1.0))
    finally:
        random.setstate(before)
