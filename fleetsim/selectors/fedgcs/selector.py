"""FedGCS: sets of clients that a network proposes after learning from records of selections.

Four steps of the paper:

1. *Records*: selections with the performance after them, their seconds and joules, from rounds of
   other selectors. `fleetsim.selectors.fedgcs.fitting.fit` learns from those of a study and its
   result is the file `weights`. A selector that learns goes on collecting its own rounds: the set,
   the validation accuracy after it, the seconds of the round and the joules that the clients
   report. Without a file its first rounds choose at random, as the paper's variant FedGCS^-c does.
2. *Networks*: encoder, evaluator and decoder, trained on the joint loss; fitted anew, from the
   weights before, after every `refit_rounds` rounds.
3. *Ascent* from the records with the best scores (1), with the budgets of seconds and joules.
4. *Generation* by beam search: distinct candidates, as many as the decoder ends with, at most the
   wanted.

Fleetsim's choices where the paper is silent:

* budgets L and E are the medians of the records;
* the LSTM reads the starting records in an order that is drawn for each round. With fixed networks
  this is the only cause for different sets in rounds with the same candidates;
* in `exploration_fraction` of the rounds a selector that learns chooses at random;
* a round is recorded whether it was aggregated or not, unless no accuracy is known;
* at most `max_records` records are kept, the latest;
* if no client that the networks know is a candidate, the choice is random;
* proposals may repeat sets that have a record, unless `repeats` is `avoided`.

The accuracy after a round says more about the number of rounds before it than about its set. That
is how the paper's text has it; with `performance: rise` a record's performance is 1 plus the rise
of the accuracy in its round.

With `records: surrogate` nothing is collected: before each fit random sets are scored by the
utilities, durations and joules that clients told last (`fleetsim.selectors.fedgcs.surrogate`).

Source: Ning, Tian, Xiao, Fan, Wang, Li, Wang, Zhou, "FedGCS: a generative framework for efficient
client selection in federated learning via gradient-based optimization", IJCAI 2024, arXiv
2405.06312; zhiyuan-ning/GenerativeFL@785773b, whose collectors are empty, so that the text is
followed. What both leave open is listed in docs/selectors.md.

The server must keep samples for selectors (`evaluate.validation_fraction`) if it learns from its
own rounds. No client is asked.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fleetsim import rng
from fleetsim.contracts import (
    Diagnostics,
    Evaluation,
    FleetView,
    FloatArray,
    IntArray,
    RoundOutcome,
    RoundView,
    State,
)
from fleetsim.errors import ScenarioError
from fleetsim.schema.effects import beside, by_key
from fleetsim.schema.ranges import DurationS, EnergyJ, Gain, LearningRate, Rounds, Severity, Weight
from fleetsim.selectors.configured_selector import ConfiguredSelector
from fleetsim.selectors.declared_state import Column, Scalar
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.fedgcs.policy import Policy
from fleetsim.selectors.fedgcs.records import NO_RECORDS, Records, Scoring
from fleetsim.selectors.fedgcs.score_scale import ScoreScale
from fleetsim.selectors.fedgcs.surrogate import surrogate_records
from fleetsim.selectors.known_numbers import known
from fleetsim.selectors.learned_weights import weights_for
from fleetsim.selectors.tie_breaking import best
from fleetsim.settings import Settings

if TYPE_CHECKING:
    from fleetsim.selectors.fedgcs.fitting import FitSettings
    from fleetsim.selectors.fedgcs.proposals import Proposals, SearchSettings

Width = Annotated[int, Field(ge=1, le=4096)]
Count = Annotated[int, Field(ge=1, le=10_000)]
_COLLECTS = beside("records", "rounds")


class FedGCSSettings(Settings):
    """Sets that networks generate, trained on scores of earlier selections."""

    acts_if = by_key(
        performance=_COLLECTS,
        exploration_fraction=_COLLECTS,
        max_records=_COLLECTS,
        surrogate_sets=beside("records", "surrogate"),
    )

    demands: ClassVar[Demands] = {
        "records: rounds": Demand(
            "durations, joules and validation accuracies of its rounds; samples to validate with",
            "private",
            "accuracies after sets that differ by one client tell of its samples; the server must"
            " have samples; with records of runs before, `learning: false`, nothing is kept",
            set_up_choices=12,
        ),
        "records: surrogate": Demand(
            "n_k; root mean square losses, durations and joules of its cohorts",
            "private",
            "the server is told the loss of every chosen client's samples",
            set_up_choices=12,
        ),
    }

    weights_are_for: ClassVar[Literal["these clients", "any clients"]] = "these clients"
    """A token of the networks is a client."""

    kind: Literal["fedgcs"] = "fedgcs"
    weights: str | None = None
    """Weight file of networks and records, by name or path; null: none."""
    learning: bool = True
    """Fit the networks to records of this run too; false: use those of the weight file."""
    records: Literal["rounds", "surrogate"] = "rounds"
    """Records of this run: its rounds, or random sets scored by what is known of clients."""
    performance: Literal["accuracy", "rise"] = "accuracy"
    """Performance of a round: the validation accuracy after it, or 1 plus its rise in the round."""
    performance_scale: Literal["raw", "min_max"] = "raw"
    """Performance in the score: as it is, or scaled to [0, 1] over the records."""
    latency_exponent: Weight = 2.0
    """Exponent a of the penalty on seconds above the budget."""
    energy_exponent: Weight = 2.0
    """Exponent b of the penalty on joules above the budget."""
    budget_s: DurationS | None = Field(default=None, examples=[60.0])
    """Budget L of a round; null: the median of the records."""
    budget_j: EnergyJ | None = Field(default=None, examples=[100.0])
    """Budget E of a round; null: the median of the records."""
    warm_up_rounds: Rounds = Field(default=10, examples=[3])
    """Rounds of random selections before the first fit, without a weight file."""
    refit_rounds: Rounds = Field(default=10, examples=[2])
    """Rounds from one fit to the next."""
    exploration_fraction: Severity = Field(default=0.1, examples=[0.0])
    """Probability that a round chooses at random."""
    max_records: Annotated[int, Field(ge=2, le=100_000)] = Field(default=1000, examples=[4])
    """Most records that are kept, the latest."""
    surrogate_sets: Annotated[int, Field(ge=2, le=100_000)] = 100
    """Random sets of a fit to surrogates."""
    embedding: Width = 32
    """Width of a client's embedding."""
    hidden: Width = 64
    """States of encoder and decoder."""
    evaluator: Width = 200
    """Width of the evaluator."""
    alpha: Severity = 0.8
    """Weight of the loss of sequences; the rest is that of the score's."""
    sequence_loss: Literal["sum", "mean"] = "sum"
    """Loss of a sequence: the sum over its clients and its end, or their mean."""
    shuffles: Annotated[int, Field(ge=0, le=1000)] = Field(default=25, examples=[0])
    """Orders of each record in an epoch; 0: the one of the selection, FedGCS^-a."""
    target: Literal["min_max", "raw"] = "min_max"
    """Scores that the evaluator learns: scaled to [0, 1] over the records, or as they are."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """Sequences of an SGD step."""
    learning_rate: LearningRate = 0.001
    """Learning rate of Adam."""
    refit_epochs: Annotated[int, Field(ge=1, le=100_000)] = 10
    """Most epochs of a fit during a run."""
    patience: Annotated[int, Field(ge=1, le=100_000)] = 20
    """Epochs after which a fit ends if the loss of held-out records has not improved."""
    held_out_fraction: Annotated[float, Field(ge=0.0, le=0.9)] = 0.1
    """Share of the records that fits do not train on."""
    starts: Count = 25
    """Records with the best scores with which the ascent begins (K)."""
    step_size: Gain = 30.0
    """Step size eta of the ascent."""
    steps: Annotated[int, Field(ge=0, le=10_000)] = 10
    """Steps of the ascent."""
    growth: Literal["constant", "growing"] = "constant"
    """Steps of the same size, or of 1, 2, 3, ... times it."""
    beam_width: Count = Field(default=5, examples=[1])
    """Sequences that the beam search keeps; 1: greedy."""
    length: Literal["adaptive", "fixed"] = "adaptive"
    """Clients of a set: until the decoder ends it, or as many as are wanted."""
    start: Literal["last", "pooled"] = "last"
    """Beginning of the decoder: the last state of the encoder, or the mean of its states."""
    choice: Literal["representation", "generated"] = "representation"
    """Estimates that choose: of representations after the ascent, or of the generated sets."""
    repeats: Literal["allowed", "avoided"] = "allowed"
    """Proposals of sets that have a record: allowed, or avoided, by a random choice if need be."""

    def build(self) -> FedGCSSelector:
        """Selector with these settings."""
        return FedGCSSelector(self)

    def scoring(self) -> Scoring:
        """Return budgets and exponents of the score."""
        return Scoring(
            budget_s=self.budget_s,
            budget_j=self.budget_j,
            latency_exponent=self.latency_exponent,
            energy_exponent=self.energy_exponent,
            performance=self.performance_scale,
        )

    def fit_settings(self) -> FitSettings:
        """Return the rules of a fit, of 200 epochs at most; this imports torch."""
        from fleetsim.selectors.fedgcs.fitting import FitSettings  # noqa: PLC0415
        from fleetsim.selectors.fedgcs.network import Widths  # noqa: PLC0415

        return FitSettings(
            widths=Widths(self.embedding, self.hidden, self.evaluator),
            start=self.start,
            alpha=self.alpha,
            sequence_loss=self.sequence_loss,
            shuffles=self.shuffles,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            patience=self.patience,
            held_out_fraction=self.held_out_fraction,
            target=self.target,
            scoring=self.scoring(),
        )

    def search_settings(self) -> SearchSettings:
        """Return the rules of proposals; this imports torch."""
        from fleetsim.selectors.fedgcs.proposals import SearchSettings  # noqa: PLC0415

        return SearchSettings(
            starts=self.starts,
            step_size=self.step_size,
            steps=self.steps,
            growth=self.growth,
            beam_width=self.beam_width,
            length=self.length,
            choice=self.choice,
        )


class FedGCSSelector(ConfiguredSelector[FedGCSSettings]):
    """Selector with records, networks, and columns over the fleet [N] for surrogate records.

    `_scale` is the `ScoreScale` of the networks; it is empty without any, and for surrogates.
    """

    state_fields = (
        Scalar("num_fits", int),
        Scalar("num_since_fit", int),
        Scalar("wanted", int),
        Scalar("accuracy", float),
        Column("utility", np.float64),
        Column("duration_s", np.float64),
        Column("energy_j", np.float64),
        Column("scale", np.float64),
    )

    def __init__(self, settings: FedGCSSettings) -> None:
        super().__init__(settings)
        self.needs_losses = settings.learning
        self.last_proposals: Proposals | None = None
        """Proposals of the last choice that was not random, for reports; not part of the state."""
        self._expected: tuple[IntArray, dict[str, float | list[float]]] | None = None
        """Proposed clients of the present round, and the numbers that are known of them."""
        self._diagnostics: dict[str, float | list[float]] = {}

    def _begin(self, fleet: FleetView) -> None:
        settings = self._settings
        if not settings.learning and settings.weights is None:
            raise ScenarioError(
                "server.selector.learning: fedgcs has nothing to choose by; set"
                " server.selector.weights, or learning: true"
            )
        if settings.learning and settings.records == "rounds" and fleet.validation is None:
            raise ScenarioError(
                "server.selector: fedgcs records the model's accuracy on samples that the server"
                " keeps for selectors; set evaluate.validation_fraction, such as 0.1"
            )
        self._num_fits = self._num_since_fit = self._wanted = 0
        self._accuracy = _accuracy(fleet.validation)
        self._utility = np.full(self._size, np.nan)
        self._duration_s = np.full(self._size, np.nan)
        self._energy_j = np.full(self._size, np.nan)
        self._scale: FloatArray = np.empty(0)
        self._policy = Policy()
        if settings.weights is not None:
            given = weights_for(settings.weights, settings.kind, fleet)
            self._require_known(given)
            self._policy = Policy(given)
            self._keep_scale()

    def select(self, view: RoundView) -> IntArray:
        """Return the best proposal, or random candidates."""
        generator = rng.stream(self._fleet.seed, "select/fedgcs", view.round)
        self._wanted = view.wanted
        self.last_proposals = self._expected = None
        settings = self._settings
        is_collecting = settings.learning and settings.records == "rounds"
        explores = float(generator.random()) < settings.exploration_fraction and is_collecting
        keys = generator.random(self._size)[view.candidates]
        if not explores and self._policy.is_fitted and view.wanted > 0:
            proposed = self._proposed(view, generator)
            if proposed.size:
                return proposed
        return view.candidates[best(np.zeros(keys.size), view.wanted, keys)]

    def observe(self, outcome: RoundOutcome) -> None:
        """Record the round, and fit the networks if that is due."""
        settings = self._settings
        expected, self._expected, self._diagnostics = self._expected, None, {}
        # A cohort larger than asked for was not this selector's.
        if not 0 < outcome.selected.size <= self._wanted:
            return
        is_of_rounds = settings.records == "rounds"
        record = self._record_of(outcome) if is_of_rounds else NO_RECORDS
        self._diagnostics = known(realised=self._realised(record))
        if expected is not None and set(expected[0].tolist()) == set(outcome.selected.tolist()):
            self._diagnostics |= expected[1]
        if not settings.learning:
            return
        if is_of_rounds:
            records = self._policy.records + record
            num, most = len(records), settings.max_records
            self._policy.records = records.chosen(np.arange(max(num - most, 0), num))
        else:
            self._take_in(outcome)
        self._num_since_fit += 1
        due = settings.refit_rounds if self._policy.is_fitted else settings.warm_up_rounds
        if self._num_since_fit >= due:
            self._fit()

    def diagnostics(self) -> Diagnostics:
        """Return the estimate of the chosen set, the score of the round, and the ascent."""
        return self._diagnostics

    def state(self) -> State:
        """Return the declared state, the records and the networks."""
        return super().state() | self._policy.arrays()

    def restore(self, state: State) -> None:
        """Replace the state by a copy of what `state` returned."""
        super().restore(state)
        self._policy = Policy(state)

    def learned(self) -> State:
        """Return records, networks, what is known of clients, and the number of fits."""
        of_the_run = ("num_since_fit", "wanted", "accuracy")
        own = {name: x for name, x in super().state().items() if name not in of_the_run}
        return own | self._policy.arrays()

    def take_up(self, learned: State) -> None:
        """Continue from what `learned` returned."""
        super().restore(super().state() | learned)
        self._policy = Policy(learned)

    def policy(self) -> State:
        """Return networks and records."""
        return self._policy.arrays()

    def _proposed(self, view: RoundView, generator: np.random.Generator) -> IntArray:
        """Return the best proposal of candidates; empty if there is none."""
        settings = self._settings
        found = self._policy.proposed(
            self._mask(view.candidates),
            view.wanted,
            settings.scoring(),
            settings.search_settings(),
            generator,
        )
        if found is None:
            return np.empty(0, dtype=np.int64)
        sets, self.last_proposals = found
        seen = self._policy.seen() if settings.repeats == "avoided" else set()
        for clients, estimate in zip(sets, self.last_proposals.estimates, strict=True):
            if frozenset(clients.tolist()) not in seen:
                ascent = self.last_proposals.curve.mean(axis=1)
                self._expected = clients, known(expected=float(estimate), ascent=ascent)
                return clients
        return np.empty(0, dtype=np.int64)

    def _record_of(self, outcome: RoundOutcome) -> Records:
        """Return the record of the round; none if the accuracy after it is not known."""
        before, self._accuracy = self._accuracy, _accuracy(outcome.validation)
        is_rise = self._settings.performance == "rise"
        performance = 1.0 + self._accuracy - before if is_rise else self._accuracy
        joules = [report.energy_j for report in outcome.reports if report.energy_j is not None]
        if not math.isfinite(performance):
            return NO_RECORDS
        return Records.of(
            [outcome.selected],
            [performance],
            [outcome.finished_at_s - outcome.started_at_s],
            [math.fsum(joules)],
        )

    def _realised(self, record: Records) -> float | None:
        """Return the score of a round on the scale of the estimates; None if either is missing."""
        if self._scale.size == 0 or not len(record):
            return None
        settings = self._settings
        return ScoreScale(*self._scale.tolist()).score(record, settings.scoring(), settings.target)

    def _keep_scale(self) -> None:
        """Keep the scale of the records to which the networks have just been fitted."""
        settings = self._settings
        if settings.records == "rounds" and len(self._policy.records):
            self._scale = np.array(ScoreScale.of(self._policy.records, settings.scoring()))

    def _take_in(self, outcome: RoundOutcome) -> None:
        """Keep the utility, seconds and joules of clients that delivered."""
        for report in outcome.reports:
            rms = report.loss_rms
            if report.is_delivered and rms is not None and math.isfinite(rms):
                self._utility[report.client] = report.num_samples * rms
                self._duration_s[report.client] = report.duration_s
                if report.energy_j is not None:
                    self._energy_j[report.client] = report.energy_j

    def _fit(self) -> None:
        """Fit the networks to the records, or to surrogates, if there are two."""
        settings, seed = self._settings, self._fleet.seed
        records = self._policy.records
        if settings.records == "surrogate":
            records = surrogate_records(
                self._utility,
                self._duration_s,
                self._energy_j,
                settings.surrogate_sets,
                self._wanted,
                rng.stream(seed, "select/fedgcs/surrogate", self._num_fits),
            )
        if len(records) < 2:
            return
        rules = replace(settings.fit_settings(), epochs=settings.refit_epochs)
        self._policy = self._policy.fitted(records, self._size, rules, seed, self._num_fits)
        self._keep_scale()
        self._num_fits += 1
        self._num_since_fit = 0

    def _require_known(self, weights: State) -> None:
        """Refuse weights that name clients beyond the fleet.

        Raises:
            ScenarioError: they do.
        """
        last = int(weights["known"].max())
        if last >= self._size:
            raise ScenarioError(
                f"server.selector.weights: the networks know a client {last}, but fleet.size is"
                f" {self._size}; train with `fleetsim selector train fedgcs` on this fleet"
            )


def _accuracy(evaluation: Evaluation | None) -> float:
    """Return the accuracy; NaN where it is not known."""
    if evaluation is None or evaluation.accuracy is None:
        return math.nan
    return evaluation.accuracy
