"""Keys of Favor, and what it asks of clients and server."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleetsim.schema.key_conditions import ActsIf, by_key
from fleetsim.schema.ranges import Gain, MemoryGib, NetworkRate, Rounds, Severity, Steps
from fleetsim.selectors.configured_selector import SelectorKind
from fleetsim.selectors.demands import Demand, Demands
from fleetsim.selectors.favor.equations import Scaling
from fleetsim.selectors.tie_breaking import TieRule

NUMBER_BYTE = 4
_LEARNS = ActsIf(
    lambda it, _: it.learning,
    "the network is only used (learning: false)",
    "set learning: true",
)
_KNOWS = "models of all clients after an epoch, then those of its cohorts"
_BECAUSE = "the server sees single models, also of clients that it does not choose"
_CLIENT_BYTE = NUMBER_BYTE * (100 + 1) * 512
"""Bytes of the default network for each client."""


class FavorSettings(SelectorKind):
    """The largest values of a deep Q-network, which sees the models of all clients."""

    acts_if = by_key(
        **dict.fromkeys(
            (
                *("action", "target_accuracy", "reward_base", "discount", "learning_rate"),
                *("batch_size", "steps_per_round", "replay_capacity", "sync_in", "sync_every"),
                *("exploration", "exploration_end", "exploration_decay_rounds"),
            ),
            _LEARNS,
        )
    )

    demands: ClassVar[Demands] = {
        "learning: true": Demand(
            f"{_KNOWS}; samples to validate with",
            "private",
            f"{_BECAUSE}, and must have samples",
            set_up_choices=1,
            client_byte=4 * _CLIENT_BYTE,
        ),
        "learning: false": Demand(
            f"{_KNOWS}; learned weights",
            "private",
            _BECAUSE,
            set_up_choices=1,
            client_byte=_CLIENT_BYTE,
        ),
    }

    weights_are_for: ClassVar[Literal["these clients", "any clients"]] = "these clients"

    selector = "fleetsim.selectors.favor.selector:FavorSelector"
    kind: Literal["favor"] = "favor"
    weights: str | None = None
    """Weight file by name or path; null: random weights."""
    learning: bool = Field(default=True, examples=[False])
    """True: explores and learns in the run; false: only uses the network."""
    action: Literal["cohort", "client"] = "cohort"
    """Clients of a round while it learns: the whole cohort, or one as in the paper."""
    target_accuracy: Severity = 0.9
    """Validation accuracy at which an episode ends (Omega)."""
    reward_base: Annotated[float, Field(gt=1.0, le=1e12)] = 64.0
    """Base of the reward (Xi)."""
    components: Annotated[int, Field(ge=1, le=10_000)] = Field(default=100, examples=[3])
    """Coordinates of a model (d); as many as clients, if these are fewer."""
    scaling: Scaling = "none"
    """Models as they are, or each parameter divided by its standard deviation (standard)."""
    hidden: Annotated[int, Field(ge=1, le=1_000_000)] = 512
    """Hidden units of the network."""
    discount: Severity = 0.999
    """Weight of the next value in the target (gamma)."""
    learning_rate: NetworkRate = 0.001
    """Learning rate of RMSprop."""
    batch_size: Annotated[int, Field(ge=1, le=100_000)] = Field(default=32, examples=[4])
    """Transitions of a step; there is no step before there are as many."""
    steps_per_round: Steps = 1
    """Steps after each round."""
    replay_capacity: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=10_000, examples=[40]
    )
    """Largest number of stored transitions; at least `batch_size`."""
    sync_in: Literal["episodes", "rounds"] = "episodes"
    """Unit of `sync_every`; a run is an episode."""
    sync_every: Rounds = 10
    """Episodes or rounds from one copy into the target network to the next."""
    exploration: Severity = 0.9
    """Probability of a random place in the first round of learning."""
    exploration_end: Severity = 0.05
    """Probability that it falls to."""
    exploration_decay_rounds: Gain = 200.0
    """Rounds of learning in which the difference from the end falls to 1/e."""
    memory_gib: MemoryGib = 4.0
    """Largest memory for networks, transitions and axes; more is refused."""
    ties: TieRule = "random"
    """Order among equal values."""
