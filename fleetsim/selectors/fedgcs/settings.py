"""Settings of FedGCS: records, networks, ascent and generation.

The selector (`fleetsim.selectors.fedgcs.selector`) names the source and says what the keys decide.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleetsim.schema.key_conditions import ActsIf, beside, by_key
from fleetsim.schema.ranges import DurationS, EnergyJ, Gain, NetworkRate, Rounds, Severity, Weight
from fleetsim.selectors.configured_selector import SelectorKind
from fleetsim.selectors.demands import Demand, Demands

Width = Annotated[int, Field(ge=1, le=4096)]
Count = Annotated[int, Field(ge=1, le=10_000)]
_COLLECTS = beside("records", "rounds")
_LEARNS = beside("learning", True)
_WITHOUT_WEIGHTS = ActsIf(
    lambda it, _: it.weights is None, "weights are given", "leave weights out"
)
"""The networks of a weight file keep their form, and there is no first fit."""


class FedGCSSettings(SelectorKind):
    """Sets that networks generate, trained on scores of earlier selections."""

    acts_if = by_key(
        performance=_COLLECTS,
        exploration_fraction=(_LEARNS, _COLLECTS),
        max_records=(_LEARNS, _COLLECTS),
        surrogate_sets=(_LEARNS, beside("records", "surrogate")),
        **dict.fromkeys(
            (
                *("refit_rounds", "refit_epochs", "patience", "held_out_fraction", "batch_size"),
                *("learning_rate", "alpha", "sequence_loss", "shuffles"),
            ),
            _LEARNS,
        ),
        **dict.fromkeys(
            ("warm_up_rounds", "embedding", "hidden", "evaluator", "start"), _WITHOUT_WEIGHTS
        ),
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

    selector = "fleetsim.selectors.fedgcs.selector:FedGCSSelector"
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
    """Rounds of random selections before the first fit."""
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
    learning_rate: NetworkRate = 0.001
    """Learning rate of Adam."""
    refit_epochs: Annotated[int, Field(ge=1, le=100_000)] = 10
    """Most epochs of a fit during a run; a fit to records of other runs has 200."""
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
    """Proposals of sets that have a record: allowed, or avoided, by the next best proposal or by a
    random choice."""
