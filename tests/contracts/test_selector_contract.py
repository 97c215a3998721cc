"""Contract of `fleetsim.contracts.Selector`: each mode through the laws that settings can break."""

import io
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pytest
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    Evaluation,
    FleetView,
    IntArray,
    Outcome,
    Parameters,
    ProbeRequest,
    Purpose,
    Report,
    Resources,
    RoundOutcome,
    RoundView,
    Selector,
    State,
    WorkKind,
)
from fleetsim.selectors import KINDS, build_selector
from tests.selector_modes import UNION, modes

SIZE = 30
COHORT = 5
WANTED = 7
"""Cohort with over-commitment."""

LIGHT = {
    "fedgcs": {
        "embedding": 4,
        "hidden": 6,
        "evaluator": 5,
        "shuffles": 2,
        "surrogate_sets": 12,
        "refit_epochs": 2,
        "starts": 3,
        "steps": 3,
        "beam_width": 2,
    },
    "fedcor": {"fit_steps": 5, "observed_fit_steps": 20},
    "favor": {"hidden": 16},
    "fedmarl": {"hidden": 8, "steps_per_round": 1},
}
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
    found: dict[Any, Any] = {}
    for mode in MODES:
        selector = build_selector(mode.values[0])
        if not (is_loss_blind and selector.needs_losses):
            key = (mode.values[0].kind, type(selector), selector.needs_losses)
            found.setdefault((*key, selector.needs_probes), mode)
    return list(found.values())


every_class = pytest.mark.parametrize("settings", one_mode_per_class())
"""For laws that follow from how a class keeps its data and draws; its settings change neither."""
every_loss_blind_class = pytest.mark.parametrize("settings", one_mode_per_class(is_loss_blind=True))


def frozen(values: ArrayLike, dtype: DTypeLike = np.int64) -> NDArray[Any]:
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


class Draws(NamedTuple):
    """Events of one client in one round."""

    fate: Outcome
    loss: float
    vector: Parameters
    duration_s: float
    resources: Resources


@cache
def draws_of(seed: int, client: int, round_: int) -> Draws:
    draw = rng.stream(seed, "report", client, round_)
    fates = [Outcome.DELIVERED] * 5 + [Outcome.LATE, Outcome.OFFLINE, Outcome.CANCELLED]
    loss = float(draw.exponential()) / math.sqrt(round_ + 1)
    return Draws(
        fate=fates[int(draw.integers(len(fates)))],
        loss=loss,
        vector=frozen(np.full(4, loss), np.float32),
        duration_s=float(draw.uniform(1.0, 50.0)),
        resources=Resources(
            flop_per_s=float(draw.uniform(1e9, 1e11)),
            ram_byte=int(draw.integers(2**30, 2**33)),
            load_fraction=float(draw.uniform(0.0, 0.9)),
            is_charging=False,
            is_unmetered=True,
            battery_fraction=0.5,
            samples_per_s=float(draw.uniform(1.0, 100.0)),
            down_bit_per_s=float(draw.uniform(1e6, 1e8)),
            up_bit_per_s=float(draw.uniform(1e6, 1e7)),
        ),
    )


@dataclass
class Server:
    """Server that calls a selector as the engine does, with made-up losses and absences.

    Arrays are read-only, so a selector that writes to a view or a report fails.
    """

    selector: Selector
    size: int = SIZE
    cohort: int = COHORT
    wanted: int = WANTED
    seed: int = 11
    has_losses: bool = True
    outcome: Outcome | None = None
    """Outcome of every task; None: mostly delivered, some late, lost or cancelled."""
    round: int = 0

    def __post_init__(self) -> None:
        draw = rng.stream(self.seed, "fake fleet")
        self.num_samples = frozen(draw.integers(1, 200, self.size))
        self.parameters = frozen(np.zeros(4), np.float32)
        self.asked: list[ProbeRequest] = []
        fleet = FleetView(
            seed=self.seed,
            num_samples=self.num_samples,
            cohort=self.cohort,
            epochs=1,
            batch_size=10,
            learning_rate=0.1,
            planned_rounds=30,
            parameters=self.parameters,
            payload_byte=1_000_000,
            validation=self.validation(),
        )
        self.setup_reports = self.answers(list(self.selector.setup(fleet)))

    def available(self) -> IntArray:
        """Return two thirds of the fleet, others in every round."""
        is_there = rng.stream(self.seed, "available", self.round).random(self.size) < 2 / 3
        return frozen(np.flatnonzero(is_there))

    def play(self, candidates: IntArray | None = None, left: IntArray | None = None) -> IntArray:
        """Play one round; `left` are the candidates that leave after the probes."""
        self.round += 1
        before = self.available() if candidates is None else candidates
        reports, self.setup_reports = self.setup_reports, []
        for stage in range(1000):
            requests = list(self.selector.probe(self.view(before, reports, stage)))
            if not requests:
                break
            self.check_requests(requests, before)
            reports = [*reports, *self.answers(requests)]
        else:
            raise AssertionError("the probing does not end")
        after = before if left is None else frozen(np.setdiff1d(before, left))
        view = self.view(after, reports, 0)
        answer = self.selector.select(view)
        chosen = answer.clients if isinstance(answer, Cohort) else answer
        self.check_choice(chosen, view)
        if isinstance(answer, Cohort):
            self.check_asked(answer)
        self.finish(answer if isinstance(answer, Cohort) else Cohort(chosen))
        return chosen

    def view(self, candidates: IntArray, reports: list[Report], stage: int) -> RoundView:
        return RoundView(
            round=self.round,
            now_s=60.0 * self.round,
            wanted=self.wanted,
            candidates=frozen(candidates),
            num_samples=frozen(self.num_samples[candidates]),
            parameters=self.parameters,
            reports=tuple(reports),
            stage=stage,
        )

    def finish(self, cohort: Cohort) -> None:
        chosen = cohort.clients
        reports = tuple(
            self.report(client, Purpose.TRAIN, tells_epochs=cohort.asks_epoch_losses)
            for client in chosen.tolist()
        )
        self.selector.observe(
            RoundOutcome(
                round=self.round,
                started_at_s=60.0 * self.round,
                finished_at_s=60.0 * self.round + 50.0,
                selected=frozen(chosen),
                reports=reports,
                aggregated=any(report.is_delivered for report in reports),
                parameters=self.parameters,
                validation=self.validation(),
            )
        )

    def validation(self) -> Evaluation:
        if not self.has_losses:
            return Evaluation(accuracy=None, loss=None)
        draw = rng.stream(self.seed, "validation", self.round)
        return Evaluation(accuracy=float(draw.random()), loss=float(draw.exponential()))

    def answers(self, requests: list[ProbeRequest]) -> list[Report]:
        self.asked += requests
        return [self.report(request.client, Purpose.PROBE) for request in requests]

    def report(self, client: int, purpose: Purpose, *, tells_epochs: bool = False) -> Report:
        drawn = draws_of(self.seed, client, self.round)
        outcome, loss = self.outcome or drawn.fate, drawn.loss
        is_known = outcome is Outcome.DELIVERED and self.has_losses
        return Report(
            client=client,
            purpose=purpose,
            outcome=outcome,
            dispatched_at_s=60.0 * self.round,
            finished_at_s=60.0 * self.round + drawn.duration_s,
            num_samples=int(self.num_samples[client]),
            loss=loss if is_known else None,
            loss_rms=1.1 * loss if is_known else None,
            accuracy=math.exp(-loss) if is_known and purpose is Purpose.PROBE else None,
            vector=drawn.vector if is_known else None,
            update_norm=2.0 * loss if is_known else None,
            energy_j=5.0 if outcome is Outcome.DELIVERED else None,
            resources=drawn.resources if outcome is Outcome.DELIVERED else None,
            base=self.parameters if purpose is Purpose.TRAIN else None,
            epoch_losses=(2.0 * loss, loss) if is_known and tells_epochs else None,
        )

    def check_choice(self, chosen: IntArray, view: RoundView) -> None:
        assert isinstance(chosen, np.ndarray)
        assert chosen.dtype == np.int64
        assert chosen.ndim == 1
        assert np.unique(chosen).size == chosen.size <= view.wanted
        assert set(chosen.tolist()) <= set(view.candidates.tolist())

    def check_asked(self, cohort: Cohort) -> None:
        if cohort.start is not None:
            assert cohort.start.shape == self.parameters.shape
        if cohort.epochs is not None:
            assert cohort.epochs.shape == cohort.clients.shape
            assert (cohort.epochs >= 1).all()
        for fraction in (cohort.clock_fraction, cohort.upload_fraction):
            if fraction is not None:
                assert fraction.shape == cohort.clients.shape
                assert ((fraction > 0.0) & (fraction <= 1.0)).all()
        if cohort.weights is not None:
            assert cohort.weights.shape == cohort.clients.shape
            assert ((cohort.weights > 0.0) & (cohort.weights < np.inf)).all()

    def check_requests(self, requests: list[ProbeRequest], candidates: IntArray) -> None:
        clients = [request.client for request in requests]
        assert len(set(clients)) == len(clients)
        assert set(clients) <= set(candidates.tolist())
        assert all(request.upload_byte >= 0 for request in requests)
        for request in requests:
            num = request.work.num_samples
            assert num is None or 1 <= num <= self.num_samples[request.client]
            assert request.work.epochs == 0 or request.work.kind is WorkKind.TRAIN


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
    calm = Server(build_selector(settings), wanted=3, outcome=Outcome.DELIVERED)
    rough = Server(build_selector(settings))
    calm_sizes = [calm.play(frozen(np.arange(SIZE))).size for _ in range(17)]
    rough_sizes = [rough.play().size for _ in range(17)]

    assert min(calm_sizes) > 0
    assert max(rough_sizes) > 0
    assert bool(calm.asked) == calm.selector.needs_probes
    assert bool(rough.asked) == rough.selector.needs_probes


@every_mode
def test_a_restored_selector_goes_on_as_if_nothing_had_happened(settings):
    straight = Server(build_selector(settings))
    for _ in range(5):
        straight.play()
    saved = straight.selector.state()
    assert all(type(array) is np.ndarray for array in saved.values())
    kept = {name: array.copy() for name, array in saved.items()}
    expected = [straight.play().tolist() for _ in range(6)]

    resumed = Server(build_selector(settings))
    resumed.setup_reports = []
    resumed.round = 5
    resumed.selector.restore(through_npz(saved))

    assert [resumed.play().tolist() for _ in range(6)] == expected
    assert_same_state(resumed.selector.state(), straight.selector.state())
    for name, array in kept.items():
        np.testing.assert_array_equal(saved[name], array, err_msg=f"{name} changed after saving")


@every_class
def test_a_restored_selector_does_not_write_into_the_state_it_was_given(settings):
    server = Server(build_selector(settings))
    for _ in range(3):
        server.play()
    given = through_npz(server.selector.state())
    kept = {name: array.copy() for name, array in given.items()}
    server.selector.restore(given)
    for _ in range(3):
        server.play()

    for name, array in kept.items():
        np.testing.assert_array_equal(given[name], array)


@every_mode
def test_with_few_clients_or_none_there_the_run_goes_on(settings):
    """In a fleet smaller than the cohort; the first rounds are those of no client and of one."""
    size = COHORT - 2
    server = Server(build_selector(settings), size=size, outcome=Outcome.DELIVERED)

    assert server.play(frozen([])).tolist() == []
    assert [server.play(frozen([1])).tolist() for _ in range(6)] == [[1]] * 6
    assert min(server.play(frozen(np.arange(size))).size for _ in range(4)) > 0
    assert server.play(frozen([])).tolist() == []
    assert server.play(frozen(np.arange(size))).size > 0


@every_mode
def test_all_may_fail_and_some_or_all_vanish_after_the_probes(settings):
    """`Server.play` checks that nobody is chosen who has left."""
    all_clients, even = frozen(np.arange(SIZE)), np.arange(0, SIZE, 2)
    server = Server(build_selector(settings), wanted=3)
    sizes = []
    for outcome, left in (
        (Outcome.DELIVERED, None),
        (Outcome.OFFLINE, None),
        (Outcome.LATE, None),
        (Outcome.CANCELLED, None),
        (Outcome.OFFLINE, even),
        (Outcome.DELIVERED, even),
        (Outcome.DELIVERED, None),
    ):
        server.outcome = outcome
        sizes.append(server.play(all_clients, left=left).size)

    assert min(sizes) > 0
    assert server.play(all_clients, left=all_clients).tolist() == []


@every_mode
def test_a_run_without_losses_does_not_break_a_selector(settings):
    server = Server(build_selector(settings), wanted=3, outcome=Outcome.DELIVERED, has_losses=False)
    sizes = [server.play(frozen(np.arange(SIZE))).size for _ in range(8)]

    assert min(sizes) > 0


@every_loss_blind_class
def test_who_needs_no_losses_chooses_the_same_without_them(settings):
    with_losses = Server(build_selector(settings))
    without = Server(build_selector(settings), has_losses=False)
    expected = [with_losses.play().tolist() for _ in range(6)]

    assert [without.play().tolist() for _ in range(6)] == expected


def test_the_views_hold_what_a_server_can_know_and_nothing_else():
    # No device, speed, channel, battery, usage, true availability or outcome to come. Clients
    # register with the number of their samples, the share of labels among them and their place.
    # The server knows the layers of its own model.
    def names(record: type) -> set[str]:
        return set(get_type_hints(record))

    assert names(FleetView) == {
        *("seed", "num_samples", "cohort", "epochs", "batch_size", "parameters"),
        *("learning_rate", "planned_rounds", "payload_byte", "position_m"),
        *("validation", "steps", "clients_hash", "layer_counts", "label_coverage"),
    }
    assert names(RoundView) == {
        *("round", "now_s", "wanted", "candidates", "num_samples"),
        *("parameters", "reports", "stage", "learning_rate"),
    }
    assert names(Report) == {
        *("client", "purpose", "outcome", "dispatched_at_s", "finished_at_s"),
        *("num_samples", "loss", "loss_rms", "accuracy", "vector", "energy_j"),
        *("download_s", "compute_s", "upload_s", "resources", "base", "staleness"),
        *("refused", "completed_fraction", "weight_fraction", "update_norm"),
        *("epoch_losses", "weight", "is_share", "sent", "metrics"),
    }
    assert names(RoundOutcome) == {
        *("round", "started_at_s", "finished_at_s", "selected", "reports"),
        *("aggregated", "parameters", "validation"),
    }


def test_every_kind_is_listed_with_one_line():
    assert list(KINDS) == [cls.model_fields["kind"].default for cls in UNION]
    assert all(line.endswith(".") and len(line) <= 100 for line in KINDS.values())


def test_every_kind_has_settings_with_a_description_each():
    for cls in UNION:
        missing = [
            name
            for name, field in cls.model_fields.items()
            if name != "kind" and not field.description
        ]
        assert missing == [], cls.__name__
