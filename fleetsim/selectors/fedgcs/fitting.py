"""Fit of the networks of FedGCS to records.

Encoder, evaluator and decoder are trained together by Adam on the joint loss (8), with new random
orders of each selection in each epoch. A tenth of the records is held out. The fit ends when their
loss has not improved for some epochs, and returns the weights of the best one.

The networks know the clients that the records name, no others. So they do not grow with the fleet,
and a client that no record names is never proposed.

The paper gives batch size, learning rate and alpha, but no optimizer, number of epochs or stopping
rule. Adam, a norm of gradients of at most 5 and at most 200 epochs are from the authors' code;
early stopping is fleetsim's.

Source: FedGCS (arXiv 2405.06312), sections 4.3 and 5.1; zhiyuan-ning/GenerativeFL@785773b.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import kendalltau, spearmanr
from torch import Tensor

from fleetsim import rng
from fleetsim.contracts import FloatArray, IntArray, State
from fleetsim.contracts.recording import joined, part_of
from fleetsim.selectors.fedgcs import network as networks
from fleetsim.selectors.fedgcs.network import Network, Widths
from fleetsim.selectors.fedgcs.records import ScoreScale, SelectionRecords
from fleetsim.selectors.fedgcs.settings import FedGCSSettings
from fleetsim.selectors.learned_weights import require_finite

OnProgress = Callable[[int, int], None]
"""Receiver of the finished and the planned epochs."""
_MOST_LOGITS = 1 << 23
"""Numbers in the largest array of an SGD step; longer batches are computed in parts."""
_MAX_NORM = 5.0
"""Norm to which longer gradients are shortened."""
_NETWORK = "network"


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Trained networks with their records, as arrays, and facts of the training."""

    weights: State
    """Networks, the clients that they know, and the records."""
    facts: Mapping[str, float]
    """Epochs, losses of held-out records, rank correlations of their estimates and scores."""


def fit(
    records: SelectionRecords,
    *,
    num_clients: int,
    settings: FedGCSSettings,
    seed: int,
    epochs: int = 200,
    index: int = 0,
    before: State | None = None,
    has_control: bool = False,
    on_progress: OnProgress | None = None,
) -> Fitted:
    """Train the networks on two records or more, for at most so many epochs.

    The number of this fit in a run, `index`, is a part of the address of its draws. It begins with
    the weights of an earlier one, `before`, whose sizes are kept; clients that those do not know
    get new weights. With `has_control` a second network is fitted to records whose scores were
    exchanged at random, so that its correlations are those of chance. `on_progress` gets the epochs
    of both.
    """
    clients = records.clients
    if len(records) < 2 or clients[-1] >= num_clients:
        raise ValueError(
            f"a fit needs two records or more, of clients 0 to {num_clients - 1}; got"
            f" {len(records)}, of clients {clients[:1].tolist()} to {clients[-1:].tolist()}"
        )
    planned = epochs * (2 if has_control else 1)
    targets = ScoreScale.of(records, settings).targets(records, settings)

    def trained(scores: FloatArray, num_done: int) -> _Training:
        training = _Training(records, scores, settings, epochs, seed, index, before)
        for epoch in training.epochs():
            if on_progress is not None:
                on_progress(num_done + epoch, planned)
        return training

    with networks.one_thread():
        real = trained(targets, 0)
        facts = real.facts()
        if has_control:
            order = rng.stream(seed, "fedgcs/control", index).permutation(len(records))
            chance = trained(targets[order], epochs).facts()
            facts |= {f"control_{name}": chance[name] for name in ("kendall", "spearman")}
    if on_progress is not None:
        on_progress(planned, planned)
    weights = joined({_NETWORK: real.network.arrays()})
    require_finite("fedgcs", weights)
    return Fitted(weights | {"known": clients} | records.state(), facts)


def network_of(weights: State) -> tuple[Network, IntArray]:
    """Return the network of `Fitted.weights`, and the clients that it knows, ascending [V]."""
    network = networks.network_of(part_of(weights, _NETWORK))
    return network, np.array(weights["known"], dtype=np.int64)


class _Training:
    """Network that is trained on some records, and checked on the others."""

    def __init__(
        self,
        records: SelectionRecords,
        targets: FloatArray,
        settings: FedGCSSettings,
        most_epochs: int,
        seed: int,
        index: int,
        before: State | None,
    ) -> None:
        self._records, self._targets, self._settings = records, targets, settings
        self._most_epochs, self._seed, self._index = most_epochs, seed, index
        self._clients = records.clients
        self._in_training, self._held_out = records.split(settings.held_out_fraction, seed, index)
        self._epoch = self._best_epoch = 0
        self._best_loss = math.inf
        widths = Widths(settings.embedding, settings.hidden, settings.evaluator)
        start = settings.start
        old = None if before is None else network_of(before)
        if old is not None:
            widths, start = old[0].widths, old[0].start_from
        self.network = networks.initial_network(
            self._clients.size, widths, start, rng.torch_seed(seed, "fedgcs/weights", index)
        )
        if old is not None:
            networks.take_over(self.network, self._clients, *old)

    def epochs(self) -> Iterator[int]:
        """Train; yield the number of each finished epoch."""
        settings = self._settings
        optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        held_out = self._sequences(self._held_out, 0) if self._held_out.size else None
        best = self.network.arrays()
        while self._epoch < self._most_epochs:
            self._epoch += 1
            tokens, targets = self._sequences(self._in_training, self._epoch)
            for rows in self._batches(targets.numel()):
                self._step(optimizer, tokens[rows], targets[rows])
            yield self._epoch
            if held_out is None:
                continue
            loss = self._loss(*held_out)
            if loss < self._best_loss:
                self._best_loss, self._best_epoch = loss, self._epoch
                best = self.network.arrays()
            elif self._epoch - self._best_epoch >= settings.patience:
                break
        if self._best_epoch:
            self.network.load(best)

    def facts(self) -> dict[str, float]:
        """Return epochs and the loss of held-out records, and correlations on them (NaN: none)."""
        facts = {
            "records": float(len(self._records)),
            "held_out": float(self._held_out.size),
            "epochs": float(self._epoch),
            "best_epoch": float(self._best_epoch),
            "held_out_loss": self._best_loss if self._best_epoch else math.nan,
            "kendall": math.nan,
            "spearman": math.nan,
        }
        scores = self._targets[self._held_out]
        estimates = self._estimates(self._held_out) if scores.size else scores
        if min(np.unique(scores).size, np.unique(estimates).size) > 1:
            facts["kendall"] = float(kendalltau(estimates, scores)[0])
            facts["spearman"] = float(spearmanr(estimates, scores)[0])
        return facts

    def _orders(self, rows: IntArray, epoch: int) -> tuple[Tensor, IntArray]:
        """Return tokens of all orders of some records, and the place of the record of each."""
        orders, place = self._records.chosen(rows).orders(
            self._settings.shuffles, self._seed, self._index, epoch
        )
        tokens = [np.searchsorted(self._clients, order) for order in orders]
        return self.network.tokens(tokens), place

    def _sequences(self, rows: IntArray, epoch: int) -> tuple[Tensor, Tensor]:
        """Return tokens of all orders of some records, and the target of each."""
        tokens, place = self._orders(rows, epoch)
        return tokens, torch.from_numpy(self._targets[rows][place].astype(np.float32))

    def _batches(self, num: int) -> list[Tensor]:
        """Return the rows of each batch of an epoch."""
        generator = rng.stream(self._seed, "fedgcs/batches", self._index, self._epoch)
        order = torch.from_numpy(generator.permutation(num))
        return list(torch.split(order, self._settings.batch_size))

    def _parts(self, tokens: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield parts of a batch whose logits fit into memory."""
        per_sequence = (tokens.shape[1] + 1) * (self.network.end + 1)
        size = max(_MOST_LOGITS // per_sequence, 1)
        yield from zip(torch.split(tokens, size), torch.split(targets, size), strict=True)

    def _step(self, optimizer: torch.optim.Optimizer, tokens: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad()
        for part in self._parts(tokens, targets):
            total = self._joint(*part).sum() / targets.numel()
            total.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), _MAX_NORM)
        optimizer.step()

    @torch.no_grad()
    def _loss(self, tokens: Tensor, targets: Tensor) -> float:
        losses = [self._joint(*part) for part in self._parts(tokens, targets)]
        return float(torch.cat(losses).mean())

    def _joint(self, tokens: Tensor, targets: Tensor) -> Tensor:
        settings = self._settings
        return self.network.joint_losses(tokens, targets, settings.alpha, settings.sequence_loss)

    @torch.no_grad()
    def _estimates(self, rows: IntArray) -> FloatArray:
        """Return the estimate of each record, a mean over its orders."""
        tokens, place = self._orders(rows, 0)
        estimates = networks.numbers(self.network.estimate(self.network.encode(tokens)))
        return np.bincount(place, estimates) / np.bincount(place)
