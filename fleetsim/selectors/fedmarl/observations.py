"""States of agents, and the replay memory of rounds from which they learn.

A state is six numbers of a probed client that do not depend on the fleet's scale:

    s_n = [L_n, H^p_n, H^u_n, B_n, D_n, t]

* probing loss L, seconds H^p of the probe, seconds H^u of the client's last upload, samples D: the
  natural logarithm of the ratio to the median of the probed clients, between -3 and 3. It is 0
  where the number is not known, as of a client that has not uploaded yet.
* traffic history B: the share of all rounds so far in which the client uploaded a model.
* progress t: the number of the round divided by the planned number, at most 1.

The logarithms make agents that were trained on one fleet, model and data set suit others: twice the
seconds, bytes or samples of all clients change no state. The notes on the paper have B_n as the
communication cost of the client. All clients of a run send equally many bytes, so that cost tells
nothing apart, and its history is the state.

A round has as many agents as probed clients, so that transitions differ in length. In a state of
the memory, rows of all transitions follow one another.

Source: Zhang, Lin, Zhang, AAAI 2022, state of an agent, by a secondary source (third-party notes);
the normalisation is fleetsim's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fleetsim.contracts import BoolArray, FloatArray, IntArray, State
from fleetsim.selectors.fedmarl.equations import Floats32

NUM_FEATURES = 6
NO_STATES: Floats32 = np.empty((0, NUM_FEATURES), dtype=np.float32)
_LIMIT = 3.0


def relative(values: FloatArray) -> FloatArray:
    """Return logarithms of the ratios to the median, between -3 and 3; 0 where not known [n].

    >>> relative(np.array([1.0, np.e, np.nan, 0.0, 1e9])).round(9).tolist()
    [-1.0, 0.0, 0.0, -3.0, 3.0]
    """
    is_known = np.isfinite(values)
    result = np.zeros(values.shape)
    # Numbers of 0 have no logarithm; they are far below the median.
    logarithms = np.full(values.shape, -np.inf)
    is_positive = is_known & (values > 0.0)
    logarithms[is_positive] = np.log(values[is_positive])
    if not is_positive.any():
        return result
    middle = float(np.median(logarithms[is_positive]))
    result[is_known] = np.clip(logarithms[is_known] - middle, -_LIMIT, _LIMIT)
    return result


def agent_states(
    *,
    loss: FloatArray,
    probe_s: FloatArray,
    upload_s: FloatArray,
    num_uploads: IntArray,
    num_samples: IntArray,
    round_: int,
    num_rounds: int,
) -> Floats32:
    """Return the states of the agents of the probed clients [n, 6].

    Columns [n]: mean loss in the epoch of the probe, seconds of the probe and of the last upload of
    a model (NaN before the first), rounds with an upload so far, and training samples.
    """
    columns = [
        relative(loss),
        relative(probe_s),
        relative(upload_s),
        num_uploads / max(1, round_ - 1),
        relative(num_samples.astype(np.float64)),
        np.full(loss.size, min(1.0, round_ / num_rounds)),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Transition:
    """Step of the team from one round to the next."""

    states: Floats32
    """States of the agents [n, 6]."""
    continues: BoolArray
    """Their actions, as they were carried out [n]."""
    reward: float
    next_states: Floats32
    """States of the agents of the next round [m, 6]; none after the last round."""
    next_wanted: int
    """Largest number of clients that may continue in the next round."""


def state_of(transitions: Iterable[Transition]) -> State:
    """Return transitions as arrays, with the rows of all of them in sequence."""
    kept = list(transitions)
    return {
        "replay/sizes": np.array([len(each.states) for each in kept], dtype=np.int64),
        "replay/states": np.concatenate([NO_STATES, *(each.states for each in kept)]),
        "replay/continues": np.concatenate(
            [np.empty(0, dtype=np.bool_), *(each.continues for each in kept)]
        ),
        "replay/rewards": np.array([each.reward for each in kept], dtype=np.float64),
        "replay/next_sizes": np.array([len(each.next_states) for each in kept], dtype=np.int64),
        "replay/next_states": np.concatenate([NO_STATES, *(each.next_states for each in kept)]),
        "replay/next_wanted": np.array([each.next_wanted for each in kept], dtype=np.int64),
    }


def transitions_of(state: State) -> list[Transition]:
    """Return the transitions that `state_of` described, the oldest first."""
    if state["replay/sizes"].size == 0:
        return []
    ends = np.cumsum(state["replay/sizes"])[:-1]
    next_ends = np.cumsum(state["replay/next_sizes"])[:-1]
    rows = zip(
        np.split(state["replay/states"].astype(np.float32), ends),
        np.split(state["replay/continues"].astype(np.bool_), ends),
        state["replay/rewards"].tolist(),
        np.split(state["replay/next_states"].astype(np.float32), next_ends),
        state["replay/next_wanted"].tolist(),
        strict=True,
    )
    return [Transition(*row) for row in rows]
