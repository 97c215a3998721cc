"""Keys of FedMarl, and what it asks of clients and server."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.schema.ranges import Clients, NetworkRate, Rounds, Samples, Severity, Steps, Weight
from fleetsim.selectors.configured_selector import SelectorKind
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.tie_breaking import TieRule

_LEARNS = beside("learning", True)


class FedMarlSettings(SelectorKind):
    """Clients that agents let continue after an epoch; agents learn by reinforcement."""

    acts_if = by_key(
        **dict.fromkeys(
            (
                *("accuracy_weight", "latency_weight", "traffic_weight", "discount"),
                *("exploration", "exploration_end", "exploration_decay_rounds", "learning_rate"),
                *("batch_size", "steps_per_round", "sync_every_rounds", "replay_capacity"),
            ),
            _LEARNS,
        )
    )

    demands: ClassVar[Demands] = {
        "": Demand(
            "losses of the candidates in an epoch of training, their seconds; samples to validate"
            " with while it learns",
            "private",
            "the server is told the loss of a single client's samples, also of clients that stop",
        )
    }
    weights_are_for: ClassVar[Literal["these clients", "any clients"]] = "any clients"

    selector = "fleetsim.selectors.fedmarl.selector:FedMarlSelector"
    kind: Literal["fedmarl"] = "fedmarl"
    candidates: Clients | None = Field(default=None, examples=[3])
    """Clients that are probed; null: twice the cohort. Raised to those wanted if less."""
    weights: str | None = None
    """Weight file of trained agents, by name or path; null: agents that have learned nothing."""
    learning: bool = Field(default=True, examples=[False])
    """True if agents explore and learn in the run; they are frozen otherwise."""
    hidden: Annotated[int, Field(ge=1, le=4096)] = 64
    """Hidden units of the network that the agents share; with `weights` those of the file."""
    horizon_rounds: Rounds | None = None
    """Rounds of a run, for the progress in states and the scale of rewards; null: stop.rounds, or
    50 without it."""
    accuracy_weight: Weight = 1.0
    """Weight w_1 of the gain in the utility of the accuracy."""
    latency_weight: Weight = 0.2
    """Weight w_2 of the latency of a run's rounds."""
    traffic_weight: Weight = 0.1
    """Weight w_3 of the uploads of a run's rounds."""
    discount: Severity = 0.9
    """Discount gamma of the rewards of later rounds."""
    exploration: Severity = 1.0
    """Chance that an agent explores in the first choice."""
    exploration_end: Severity = 0.05
    """Chance that an agent explores after `exploration_decay_rounds` choices, of all episodes."""
    exploration_decay_rounds: Rounds = 200
    """Choices over which the chance falls, on a line."""
    learning_rate: NetworkRate = 1e-3
    """Step size of Adam."""
    batch_size: Samples = Field(default=32, examples=[2])
    """Rounds in a batch; agents begin to learn after as many."""
    steps_per_round: Steps = 4
    """Steps of Adam after each round, each on a batch of its own."""
    sync_every_rounds: Rounds = 10
    """Rounds of learning from one copy of the target network to the next."""
    replay_capacity: Samples = 2000
    """Rounds that are kept to learn from."""
    ties: TieRule = "random"
    """Order among equal differences Q(continue) - Q(stop)."""
