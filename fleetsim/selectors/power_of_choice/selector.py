"""Power-of-choice: the largest losses among d random candidates.

Of the available clients d candidates are drawn without replacement, each next one in proportion to
its samples. The server obtains their losses under the present model w, and takes the largest:

    C   = d draws, client i with probability n_i / (sum of n_j over the clients not yet drawn)
    S   = the K candidates in C with the largest F_k(w) = mean loss over the samples of client k

`pow-d` asks for the mean over all samples, `cpow-d` over a random mini-batch; `rpow-d` asks nothing
and takes the mean that the client's last training reported, infinity where there is none. With d =
K the choice is random, with d = N greedy. Candidates without an answer are out.

Source: Cho, Wang, Joshi, "Towards understanding biased client selection in federated learning",
AISTATS 2022 (arXiv 2010.01243). Defaults: batch 64 as in Flower's baseline `power_of_choice`, d = 2
m as the d = 10 for 5 clients of Yoruko-Tang/FedCor@d941083.
"""

from typing import ClassVar, Literal

import numpy as np

from fleetsim import rng
from fleetsim.contracts import (
    Cohort,
    FleetView,
    FloatArray,
    IntArray,
    ProbeRequest,
    RoundOutcome,
    RoundView,
    Selector,
    WorkKind,
)
from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.schema.ranges import Clients, Samples
from fleetsim.selectors import probing
from fleetsim.selectors.baselines.uniform import draw
from fleetsim.selectors.configured_selector import ConfiguredSelector, SelectorKind, Stages
from fleetsim.selectors.demands import COHORT_LOSS, PROBED_LOSS, Demand, Demands
from fleetsim.selectors.tie_breaking import TieRule, best, tie_keys


class PowerOfChoiceSettings(SelectorKind):
    """The clients with the largest losses among d random candidates."""

    acts_if = by_key(batch=beside("variant", "cpow-d"), loss=beside("variant", "rpow-d"))

    demands: ClassVar[Demands] = {
        "variant: pow-d": Demand("n_k; losses of d candidates", "private", PROBED_LOSS),
        "variant: cpow-d": Demand(
            "n_k; losses of d candidates on a mini-batch", "private", PROBED_LOSS
        ),
        "variant: rpow-d": Demand("n_k; losses of its cohorts", "private", COHORT_LOSS),
    }

    kind: Literal["power-of-choice"] = "power-of-choice"
    variant: Literal["pow-d", "cpow-d", "rpow-d"] = "pow-d"
    """Loss by a probe on all samples, by a probe on one mini-batch, or as last reported."""
    d: Clients | None = None
    """Candidates drawn; null: twice as many as are wanted. Raised to the wanted if less."""
    batch: Samples = 64
    """Samples of the mini-batch; cpow-d only."""
    loss: probing.Epochs = "last_epoch"
    """Local epochs over which the reported loss is averaged; rpow-d only."""
    ties: TieRule = "random"
    """Order among equal losses."""

    def build(self) -> Selector:
        """Selector with these settings."""
        if self.variant == "rpow-d":
            return ReportedPowerOfChoice(self)
        return ProbedPowerOfChoice(self)


class _PowerOfChoice(ConfiguredSelector[PowerOfChoiceSettings]):
    """Random draws of all variants, addressed by the round."""

    needs_losses = True

    def _candidates(self, view: RoundView) -> IntArray:
        """Return the ids of the d candidates, in the order drawn."""
        generator = rng.stream(self._fleet.seed, "select/power-of-choice", view.round)
        exponentials = generator.standard_exponential(self._size)[view.candidates]
        d = self._settings.d
        num = 2 * view.wanted if d is None else max(d, view.wanted)
        return view.candidates[draw(view.num_samples.astype(np.float64), num, exponentials)]

    def _largest(self, view: RoundView, clients: IntArray, losses: FloatArray) -> IntArray:
        """Return the ids of the wanted ones with the largest losses, largest first."""
        generator = rng.stream(self._fleet.seed, "select/power-of-choice/ties", view.round)
        keys = tie_keys(self._settings.ties, self._size, generator)
        return clients[best(losses, view.wanted, keys[clients])]


class ProbedPowerOfChoice(_PowerOfChoice):
    """Selector of pow-d and cpow-d: the candidates are probed before each choice."""

    needs_probes = True

    def _begin(self, fleet: FleetView) -> None:
        self._asked: IntArray = np.empty(0, dtype=np.int64)

    def _stages(self, view: RoundView) -> Stages:
        """Ask the d candidates, once for each choice."""
        self._asked = self._candidates(view)
        batch = None if self._settings.variant == "pow-d" else self._settings.batch
        sizes = view.num_samples[np.searchsorted(view.candidates, self._asked)]
        yield [
            ProbeRequest(client, probing.batch_work(WorkKind.EVALUATE, batch, size))
            for client, size in zip(self._asked.tolist(), sizes.tolist(), strict=True)
        ]

    def select(self, view: RoundView) -> IntArray:
        """Return the clients with the largest losses among those that answered."""
        present = self._asked[np.isin(self._asked, view.candidates)]
        if present.size == 0:
            # All probed clients have left, others came: a new draw, as if none had answered.
            present = self._candidates(view)
        answers = {report.client: report.loss for report in view.reports if report.is_delivered}
        answered = present[[client in answers for client in present.tolist()]]
        if answered.size == 0:
            return present[: view.wanted]
        losses = [answers[client] for client in answered.tolist()]  # None becomes NaN
        return self._largest(view, answered, np.array(losses, dtype=np.float64))


class ReportedPowerOfChoice(_PowerOfChoice):
    """Selector of rpow-d with the last reported losses, +infinity before the first [N]."""

    state_fields = ("_last_loss",)

    def _begin(self, fleet: FleetView) -> None:
        self._last_loss = np.full(self._size, np.inf)

    def select(self, view: RoundView) -> IntArray | Cohort:
        """Return the clients with the largest last reported losses among the d candidates."""
        drawn = self._candidates(view)
        largest = self._largest(view, drawn, self._last_loss[drawn])
        return probing.answer_requesting(largest, self._settings.loss)

    def observe(self, outcome: RoundOutcome) -> None:
        """Store the finite losses of the clients that delivered."""
        clients, losses = probing.training_losses(outcome.reports, self._settings.loss)
        self._last_loss[clients] = losses
