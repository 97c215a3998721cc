"""Networks of FedGCS: encoder, evaluator and decoder of selections.

A token is a client that the records name, by its place among them; the token V, one more, ends a
selection. Sequences of different lengths are filled up with it, and a mask says what is real.

    encoder    E_s = [h_1, ..., h_T] of an LSTM over the clients' embeddings
    evaluator  p^ = two layers of the mean of E_s
    decoder    h^_i of an LSTM from the tokens before i, with the context h~_i = sum over j of
               a_ij h_j, a_i = softmax over j of (h^_i . h_j) (3); P = softmax of W [h^_i; h~_i] (4)

The paper begins the decoder with h_T, which has not the width of a token; here a linear layer maps
it to one (`start: last`), and the LSTM's state begins at zero. In the authors' code the first token
is the one that ends selections, and the LSTM begins with the mean of E_s (`start: pooled`).

Every layer's weights and biases are uniform in +-1 / sqrt(its inputs or, of an LSTM, its states),
embeddings standard normal, as torch initialises them, but from a generator of their own. All is
computed by the CPU on one thread.

Shapes: B sequences, T tokens, d = 64 states of an LSTM.

Source: FedGCS (arXiv 2405.06312), section 4.3, (3) and (4); zhiyuan-ning/GenerativeFL@785773b.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fleetsim.contracts import BoolArray, FloatArray, IntArray, State

Start = Literal["last", "pooled"]
"""First input of the decoder: the last h_T, or the end token with the mean of E_s as state."""
Over = Literal["sum", "mean"]
"""Loss of a sequence: the sum over its tokens, as (6) is printed, or their mean."""


@dataclass(frozen=True, slots=True)
class Widths:
    """Widths of the layers."""

    embedding: int = 32
    hidden: int = 64
    """States of both LSTMs."""
    evaluator: int = 200


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Representations of sequences."""

    states: Tensor
    """E_s, anything beyond the length of a sequence being meaningless [B, T, d]."""
    is_real: Tensor
    """Mask of the positions within each sequence [B, T]."""

    def pooled(self) -> Tensor:
        """Return the mean of each E_s [B, d]."""
        weights = self.is_real.to(self.states.dtype)
        total = (self.states * weights[..., None]).sum(dim=1)
        return total / weights.sum(dim=1, keepdim=True)

    def last(self) -> Tensor:
        """Return h_T of each [B, d]."""
        ends = self.is_real.sum(dim=1) - 1
        return self.states[torch.arange(ends.numel()), ends]


class Network(nn.Module):
    """Encoder, evaluator and decoder of selections of V clients."""

    def __init__(self, num_clients: int, widths: Widths, start: Start) -> None:
        super().__init__()
        self.end = num_clients
        self.widths = widths
        self.start_from = start
        self.embedding = nn.Embedding(num_clients + 1, widths.embedding)
        self.encoder = nn.LSTM(widths.embedding, widths.hidden, batch_first=True)
        self.evaluator = nn.Sequential(
            nn.Linear(widths.hidden, widths.evaluator), nn.ReLU(), nn.Linear(widths.evaluator, 1)
        )
        self.start = nn.Linear(widths.hidden, widths.embedding)
        self.decoder = nn.LSTM(widths.embedding, widths.hidden, batch_first=True)
        self.output = nn.Linear(2 * widths.hidden, num_clients + 1)

    def encode(self, tokens: Tensor) -> Encoded:
        """Return E_s of sequences of tokens [B, T]."""
        states, _ = self.encoder(self.embedding(tokens))
        return Encoded(states, tokens != self.end)

    def estimate(self, encoded: Encoded) -> Tensor:
        """Return p^ of each representation [B]."""
        estimates: Tensor = self.evaluator(encoded.pooled())
        return estimates.squeeze(-1)

    def begin(self, encoded: Encoded) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the first input [B, 1, e] and state of the decoder."""
        num = encoded.states.shape[0]
        zeros = encoded.states.new_zeros(1, num, encoded.states.shape[2])
        if self.start_from == "last":
            return self.start(encoded.last())[:, None], (zeros, zeros)
        ends = torch.full((num, 1), self.end)
        return self.embedding(ends), (encoded.pooled()[None].contiguous(), zeros)

    def distribution(
        self, inputs: Tensor, state: tuple[Tensor, Tensor], encoded: Encoded
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the logits of (4) after each of n inputs [B, n, V + 1], and the new state."""
        hidden, state = self.decoder(inputs, state)
        similarity = hidden @ encoded.states.transpose(1, 2)
        similarity = similarity.masked_fill(~encoded.is_real[:, None], -torch.inf)
        context = torch.softmax(similarity, dim=-1) @ encoded.states.masked_fill(
            ~encoded.is_real[..., None], 0.0
        )
        return self.output(torch.cat([hidden, context], dim=-1)), state

    def estimates_and_gradient(self, encoded: Encoded) -> tuple[Tensor, Tensor]:
        """Return p^ of each representation [B], and its gradient by E_s [B, T, d]."""
        states = encoded.states.detach().requires_grad_()
        estimates = self.estimate(Encoded(states, encoded.is_real))
        (gradient,) = torch.autograd.grad(estimates.sum(), states)
        return estimates.detach(), gradient

    def joint_losses(
        self, tokens: Tensor, targets: Tensor, alpha: float, over: Over = "sum"
    ) -> Tensor:
        """Return (8) of each sequence [B], with the true tokens as inputs of the decoder."""
        encoded = self.encode(tokens)
        first, state = self.begin(encoded)
        inputs = torch.cat([first, self.embedding(tokens)], dim=1)
        logits, _ = self.distribution(inputs, state, encoded)
        # One end token is predicted after each sequence; fillings beyond it are not.
        expected = functional.pad(tokens, (0, 1), value=self.end)
        counts = functional.pad(encoded.is_real, (1, 0), value=True)
        surprise = functional.cross_entropy(
            logits.flatten(0, 1), expected.flatten(), reduction="none"
        )
        sequence = (surprise.view(expected.shape) * counts).sum(dim=1)
        if over == "mean":
            sequence = sequence / counts.sum(dim=1)
        score = torch.square(targets - self.estimate(encoded))
        return alpha * sequence + (1.0 - alpha) * score

    def tokens(self, sequences: Sequence[IntArray]) -> Tensor:
        """Return sequences of tokens as one array, filled up with the end token [B, T]."""
        longest = max(sequence.size for sequence in sequences)
        filled = np.full((len(sequences), longest), self.end)
        for row, sequence in zip(filled, sequences, strict=True):
            row[: sequence.size] = sequence
        return torch.from_numpy(filled)

    def arrays(self) -> State:
        """Return copies of all weights by name."""
        weights: State = {
            name: entry.detach().numpy().copy() for name, entry in self.named_parameters()
        }
        return weights | {"is_pooled": np.array(self.start_from == "pooled")}

    def load(self, weights: State) -> None:
        """Replace all weights by copies of those that `arrays` returned."""
        with torch.no_grad():
            for name, entry in self.named_parameters():
                entry.copy_(torch.from_numpy(np.array(weights[name])))


@torch.no_grad()
def beam_search(
    network: Network, encoded: Encoded, is_allowed: BoolArray, least: int, most: int, width: int
) -> list[IntArray]:
    """Return the most likely sequence of distinct tokens found for each representation.

    A sequence has from `least` tokens, at least 1, to `most`, which are allowed by a mask [V]; then
    the end follows with certainty. After each step `width` sequences are kept.
    """
    num, end = encoded.states.shape[0], network.end
    # Beams of one representation are neighbours in the first axis: B, B * width, B * width, ...
    beams = 1
    inputs, state = network.begin(encoded)
    is_open = torch.from_numpy(np.append(is_allowed, True)).repeat(num, 1, 1)
    paths = torch.full((num, 1, most), end)
    log_likelihood = torch.zeros(num, 1)
    has_ended = torch.zeros(num, 1, dtype=torch.bool)
    for step in range(most):
        owner = torch.arange(num).repeat_interleave(beams)
        logits, state = network.distribution(
            inputs, state, Encoded(encoded.states[owner], encoded.is_real[owner])
        )
        is_open[..., end] = step >= least
        is_out = torch.where(has_ended[..., None], torch.arange(end + 1) != end, ~is_open)
        logits = logits.view(num, beams, end + 1).masked_fill(is_out, -torch.inf)
        # A sequence that has ended goes on with the end token alone, whose probability is then 1.
        logits[..., end] = torch.where(has_ended, 0.0, logits[..., end])
        total = (log_likelihood[..., None] + torch.log_softmax(logits, dim=-1)).flatten(1)
        kept = min(width, total.shape[1])
        log_likelihood, places = total.topk(kept, dim=1)
        parent, token = places // (end + 1), places % (end + 1)
        rows = torch.arange(num)[:, None]
        paths, is_open = paths[rows, parent], is_open[rows, parent]
        has_ended = has_ended[rows, parent] | (token == end)
        paths[..., step] = token
        is_open.scatter_(2, token[..., None], False)
        flat = (rows * beams + parent).flatten()
        state = state[0][:, flat].contiguous(), state[1][:, flat].contiguous()
        inputs, beams = network.embedding(token.flatten())[:, None], kept
        if has_ended.all():
            break
    return [np.asarray(row[row < end], dtype=np.int64) for row in paths[:, 0].numpy()]


def initial_network(num_clients: int, widths: Widths, start: Start, seed: int) -> Network:
    """Return a network with its first weights, drawn from a seed for torch in the layers' order."""
    # Layers made on the meta device draw nothing from torch's global random state.
    with torch.device("meta"):
        network = Network(num_clients, widths, start)
    generator = torch.Generator().manual_seed(seed)
    for layer in network.modules():
        for name, entry in list(layer.named_parameters(recurse=False)):
            made = torch.empty(entry.shape)
            if isinstance(layer, nn.Embedding):
                made.normal_(generator=generator)
            else:
                fan = layer.hidden_size if isinstance(layer, nn.LSTM) else layer.in_features
                bound = 1.0 / math.sqrt(cast(int, fan))
                made.uniform_(-bound, bound, generator=generator)
            setattr(layer, name, nn.Parameter(made))
    return network


def network_of(weights: State) -> Network:
    """Return the network whose `arrays` these are, with the shapes that they have."""
    widths = Widths(
        embedding=weights["embedding.weight"].shape[1],
        hidden=weights["encoder.weight_hh_l0"].shape[1],
        evaluator=weights["evaluator.0.weight"].shape[0],
    )
    start: Start = "pooled" if bool(np.any(weights["is_pooled"])) else "last"
    network = initial_network(weights["embedding.weight"].shape[0] - 1, widths, start, 0)
    network.load(weights)
    return network


def take_over(new: Network, clients: IntArray, old: Network, known: IntArray) -> None:
    """Give a network the weights of an old one of the same widths.

    `clients` and `known` are those of the new and of the old tokens, ascending. Clients that the
    old network does not know keep their weights.
    """
    place = np.minimum(np.searchsorted(known, clients), max(known.size - 1, 0))
    is_known = known[place] == clients
    rows = np.append(np.flatnonzero(is_known), clients.size)
    weights, given = new.arrays(), old.arrays()
    for name, array in given.items():
        if name in ("embedding.weight", "output.weight", "output.bias"):
            weights[name][rows] = array[np.append(place[is_known], known.size)]
        else:
            weights[name] = array
    new.load(weights)


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold torch to one thread within the block, as several threads add up in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def numbers(tensor: Tensor) -> FloatArray:
    """Return a tensor as an array of float64."""
    return tensor.detach().numpy().astype(np.float64)
