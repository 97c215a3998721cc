"""Opinions of clients of the global model by slot, and their beliefs, from the tasks table.

Bandits over clients let all clients evaluate the model after a slot. The accuracy is the client's
opinion r_n, and the mean of all is the reward of the slot (FL&FA). With BP-UCB clients then
exchange messages, which gives each a belief b_n(1) in its own worth (FL&DA). The opinion is a
column of the task that evaluated, the belief of the one that exchanged messages.

Source: Tong et al., "From learning to analytics: improving model efficacy with goal-directed client
selection", equations (3), (4) and (8), Figures 7 to 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("round", "client", "opinion", "belief")


def opinions(tasks: pd.DataFrame) -> pd.DataFrame:
    """Return opinions and beliefs of a tasks table, a row per client and model.

    The frame has `COLUMNS`, ordered by round and client; `round` is that of the evaluated model,
    the last before that of the tasks. Belief is NaN where there is none.
    """
    answers = {
        name: tasks.loc[tasks[name].notna(), ["round", "client", name]]
        if name in tasks
        else tasks.loc[:, ["round", "client"]].iloc[:0].assign(**{name: np.float64()})
        for name in ("opinion", "belief")
    }
    joined = answers["opinion"].merge(answers["belief"], on=["round", "client"], how="left")
    joined["round"] -= 1
    return joined.sort_values(["round", "client"], ignore_index=True)[list(COLUMNS)]
