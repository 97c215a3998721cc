"""Contract of `fleetsim.contracts.Selector`: each mode through the laws that settings can break."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fleetsim.contracts import (
    Evaluation,
    FleetView,
    IntArray,
    Outcome,
    Parameters,
    ProbeRequest,
    Purpose,
    Report,
    RoundView,
    State,
)
from fleetsim.engine.servers.checked_selector import CheckedSelector
from fleetsim.engine.servers.training_requests import requests_of
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.schema.field_docstrings import description
from fleetsim.selectors import KINDS
from fleetsim.user.parts.selectors import SmallServer
from tests.selector_modes import UNION, modes

SIZE = 30
COHORT = 5
WANTED = 7
"""Cohort with over-commitment."""

LIGHT = {
    "fedgcs": {"embedding": 4, "hidden": 6, "evaluator": 5, "shuffles": 2,
        "refit_epochs": 2, "starts": 3, "steps": 3, "beam_width": 2},
    "fedcor": {"fit_steps": 5, "observed_fit_steps": 20},
    "favor": {"hidden": 16},
    "fedmarl": {"hidden": 8, "steps_per_round": 1},
}  # fmt: skip
"""Sizes and steps of what is fitted, by kind: the laws hold for any, and small ones take less."""


def light(mode: Any) -> Any:
    """Return a mode with a light fit; the setting that makes it a mode of its own stays."""
    (settings,) = mode.values
    defaults = type(settings).model_fields
    lighter = {
        key: value
        for key, value in LIGHT.get(settings.kind, {}).items()
        if getattr(settings, key) == defaults[key].default
    }
    return pytest.param(settings.model_copy(update=lighter), id=mode.id)


MODES = list(map(light, modes()))
every_mode = pytest.mark.parametrize("settings", MODES)


def one_mode_per_class(*, is_loss_blind: bool = False) -> list[Any]:
    """The first mode of each selector class and of each combination of its needs."""
    first: dict[Any, Any] = {}
    for mode in MODES:
        selector = mode.values[0].build()
        if not (is_loss_blind and selector.needs_losses):
            key = (mode.values[0].kind, type(selector), selector.needs_losses)
            first.setdefault((*key, selector.needs_probes), mode)
    return list(first.values())


every_loss_blind_class = pytest.mark.parametrize("settings", one_mode_per_class(is_loss_blind=True))


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


ALL = frozen(np.arange(SIZE))
NOBODY = ALL[:0]


class Server(SmallServer):
    """Server of the check of plug-ins, with other absences and failures.

    Answers are checked as in a run. The arrays of views are read-only, so a selector that writes to
    one fails.
    """

    def __init__(
        self,
        selector: Any,
        *,
        size: int = SIZE,
        wanted: int = WANTED,
        has_losses: bool = True,
        fixed: Outcome | None = None,
    ) -> None:
        super().__init__()
        self.num_clients, self.cohort, self.wanted = size, COHORT, wanted
        self.has_losses = has_losses
        self.fixed = fixed
        """Outcome of every task; None: mostly delivered, some late or lost."""
        self._models: dict[int, Parameters] = {}
        self._fleet = super().fleet()
        self.selector = selector
        self._checked = CheckedSelector(selector, UserPart(type(selector).__name__, None), None)
        self.asked: list[ProbeRequest] = []
        self.setup_reports = self.answers(self._checked.setup(self._fleet))

    def play(self, candidates: IntArray | None = None, left: Any = ()) -> IntArray:
        """Play one round; `left` are the candidates that leave after the probes."""
        self.round += 1
        before = self.view(()).candidates if candidates is None else candidates
        reports, self.setup_reports = self.setup_reports, []
        for stage in range(1000):
            requests = self._checked.probe(self.seen(before, reports, stage))
            if not requests:
                break
            assert {request.client for request in requests} <= set(before.tolist())
            reports = [*reports, *self.answers(requests)]
        else:
            raise AssertionError("the probing does not end")
        cohort = self._checked.select(self.seen(np.setdiff1d(before, left), reports))
        if cohort.continues is None:
            requests_of(cohort, self._fleet.training, {})
        self._checked.observe(self.outcome(cohort))
        return cohort.clients

    def seen(self, candidates: IntArray, reports: list[Report], stage: int = 0) -> RoundView:
        return replace(
            self.view(reports, stage=stage),
            candidates=frozen(candidates),
            num_samples=frozen(self._fleet.num_samples[candidates]),
        )

    def answers(self, requests: list[ProbeRequest]) -> list[Report]:
        self.asked += requests
        for request in requests:
            assert (request.work.num_samples or 1) <= self._fleet.num_samples[request.client]
        return [self.probed(request)._replace(purpose=Purpose.PROBE) for request in requests]

    def fleet(self) -> FleetView:
        return self._fleet

    def _model(self, round_: int) -> Parameters:
        if round_ not in self._models:
            self._models[round_] = frozen(super()._model(round_))
        return self._models[round_]

    def _validation(self, round_: int) -> Evaluation:
        return super()._validation(round_) if self.has_losses else Evaluation(None, None)

    def _outcome(self, draws: np.random.Generator) -> Outcome:
        drawn = super()._outcome(draws)
        return drawn if self.fixed is None else self.fixed

    def _report(self, client: int, purpose: Purpose, **asked: bool) -> Report:
        report = super()._report(client, purpose, **asked)
        if self.has_losses:
            return report
        learned = ("loss", "loss_rms", "accuracy", "vector", "update_norm", "epoch_losses")
        nothing: dict[str, Any] = dict.fromkeys(learned)
        return report._replace(**nothing)


def assert_same_state(one: State, other: State) -> None:
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
        assert array.dtype == other[name].dtype


def through_npz(state: State) -> State:
    """Return the state as read from a checkpoint; objects would be refused."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@every_mode
def test_there_is_a_choice_and_clients_are_asked_if_and_only_if_the_selector_says_so(settings):
    """For longer than a slot of 15 rounds: with all clients there, and with absences and failures.

    `Server.play` checks that a choice is of distinct candidates, at most those wanted.
    """
    calm = Server(settings.build(), wanted=3, fixed=Outcome.DELIVERED)
    rough = Server(settings.build())
    calm_sizes = [calm.play(ALL).size for _ in range(17)]
    rough_sizes = [rough.play().size for _ in range(17)]

    assert min(calm_sizes) > 0
    assert max(rough_sizes) > 0
    assert bool(calm.asked) == calm.selector.needs_probes
    assert bool(rough.asked) == rough.selector.needs_probes


@every_mode
def test_a_restored_selector_goes_on_as_if_nothing_had_happened(settings):
    straight = Server(settings.build())
    for _ in range(5):
        straight.play()
    saved = straight.selector.state()
    assert all(type(array) is np.ndarray for array in saved.values())
    kept = {name: array.copy() for name, array in saved.items()}
    expected = [straight.play().tolist() for _ in range(6)]

    resumed = Server(settings.build())
    resumed.setup_reports = []
    resumed.round = 5
    given = through_npz(saved)
    resumed.selector.restore(given)

    assert [resumed.play().tolist() for _ in range(6)] == expected
    assert_same_state(resumed.selector.state(), straight.selector.state())
    for name, array in kept.items():
        np.testing.assert_array_equal(saved[name], array, err_msg=f"{name} changed after saving")
        np.testing.assert_array_equal(given[name], array, err_msg=f"{name} changed when restored")


@every_mode
def test_with_few_clients_or_none_there_the_run_goes_on(settings):
    """In a fleet smaller than the cohort; the first rounds are those of no client and of one."""
    size = COHORT - 2
    server = Server(settings.build(), size=size, fixed=Outcome.DELIVERED)

    assert server.play(NOBODY).tolist() == []
    assert [server.play(frozen(np.array([1]))).tolist() for _ in range(6)] == [[1]] * 6
    assert min(server.play(frozen(np.arange(size))).size for _ in range(4)) > 0
    assert server.play(NOBODY).tolist() == []
    assert server.play(frozen(np.arange(size))).size > 0


@every_mode
def test_all_may_fail_and_some_or_all_vanish_after_the_probes(settings):
    """`Server.play` checks that nobody is chosen who has left."""
    some = np.arange(0, SIZE, 3)
    server = Server(settings.build(), wanted=3)
    sizes = []
    ends = (Outcome.DELIVERED, Outcome.OFFLINE, Outcome.LATE, Outcome.CANCELLED)
    leaving = [(Outcome.OFFLINE, some), (Outcome.DELIVERED, some), (Outcome.DELIVERED, ())]
    for outcome, left in [*((outcome, ()) for outcome in ends), *leaving]:
        server.fixed = outcome
        sizes.append(server.play(ALL, left=left).size)

    assert min(sizes) > 0
    assert server.play(ALL, left=ALL).tolist() == []


@every_mode
def test_a_run_without_losses_does_not_break_a_selector(settings):
    server = Server(settings.build(), wanted=3, fixed=Outcome.DELIVERED, has_losses=False)
    sizes = [server.play(ALL).size for _ in range(8)]

    assert min(sizes) > 0


@every_loss_blind_class
def test_who_needs_no_losses_chooses_the_same_without_them(settings):
    with_losses = Server(settings.build())
    without = Server(settings.build(), has_losses=False)
    expected = [with_losses.play().tolist() for _ in range(6)]

    assert [without.play().tolist() for _ in range(6)] == expected


def test_every_kind_is_listed_with_one_line_and_its_settings_have_descriptions():
    assert list(KINDS) == [cls.model_fields["kind"].default for cls in UNION]
    assert all(line.endswith(".") and len(line) <= 100 for line in KINDS.values())
    for cls in UNION:
        assert [
            key for key in cls.model_fields if key != "kind" and not description(cls, key)
        ] == []
