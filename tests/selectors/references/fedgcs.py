"""FedGCS: its networks, the ascent and the beam search in plain Python, number by number."""

import math
from typing import Any

import numpy as np

from fleetsim import rng
from tests.selectors.references.networks import layer
from tests.selectors.references.referee import Reference


def plus(*vectors):
    return [sum(entries) for entries in zip(*vectors, strict=True)]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def log_softmax(values):
    most = max(values)
    total = math.log(sum(math.exp(v - most) for v in values)) + most
    return [v - total for v in values]


class Net:
    """Networks with the weights of a file, as lists."""

    def __init__(self, weights):
        self.w = {name: np.asarray(array).tolist() for name, array in weights.items()}
        # Weight files have arrays of at least one dimension.
        self.is_pooled = bool(np.any(weights["is_pooled"]))
        self.end = len(self.w["embedding.weight"]) - 1
        self.hidden = len(self.w["encoder.weight_hh_l0"][0])

    def lstm(self, name, x, state):
        h, c = state
        of_x, of_h = (
            layer(self.w[f"{name}.weight_{part}_l0"], self.w[f"{name}.bias_{part}_l0"], inputs)
            for part, inputs in (("ih", x), ("hh", h))
        )
        gates = plus(of_x, of_h)
        d = self.hidden
        i, f = ([sigmoid(g) for g in gates[k * d : (k + 1) * d]] for k in (0, 1))
        g = [math.tanh(x) for x in gates[2 * d : 3 * d]]
        o = [sigmoid(x) for x in gates[3 * d :]]
        c = [f[k] * c[k] + i[k] * g[k] for k in range(d)]
        return [o[k] * math.tanh(c[k]) for k in range(d)], c

    def zeros(self):
        return [0.0] * self.hidden, [0.0] * self.hidden

    def encode(self, tokens):
        state, states = self.zeros(), []
        for token in tokens:
            state = self.lstm("encoder", self.w["embedding.weight"][token], state)
            states.append(state[0])
        return states

    def mean(self, states):
        return [x / len(states) for x in plus(*states)]

    def linear(self, name, inputs):
        return layer(self.w[f"{name}.weight"], self.w[f"{name}.bias"], inputs)

    def estimate(self, states):
        active = [max(x, 0.0) for x in self.linear("evaluator.0", self.mean(states))]
        return self.linear("evaluator.2", active)[0]

    def gradient(self, states):
        """d estimate / d h_j, the same for all positions."""
        units = self.linear("evaluator.0", self.mean(states))
        pairs = zip(self.w["evaluator.2.weight"][0], units, strict=True)
        slopes = [w if x > 0.0 else 0.0 for w, x in pairs]
        columns = zip(*self.w["evaluator.0.weight"], strict=True)
        return [dot(column, slopes) / len(states) for column in columns]

    def ascended(self, states, step_size):
        step = [step_size * x for x in self.gradient(states)]
        return [plus(state, step) for state in states]

    def begin(self, states):
        if self.is_pooled:
            return self.w["embedding.weight"][self.end], (self.mean(states), self.zeros()[0])
        return self.linear("start", states[-1]), self.zeros()

    def logits(self, x, state, states):
        state = self.lstm("decoder", x, state)
        shares = [math.exp(v) for v in log_softmax([dot(state[0], h) for h in states])]
        context = plus(*([a * x for x in h] for a, h in zip(shares, states, strict=True)))
        return self.linear("output", state[0] + context), state

    def sequence_loss(self, tokens):
        states = self.encode(tokens)
        x, state = self.begin(states)
        loss = 0.0
        for token in [*tokens, self.end]:
            logits, state = self.logits(x, state, states)
            loss -= log_softmax(logits)[token]
            x = self.w["embedding.weight"][token]
        return loss

    def joint_loss(self, sequences, targets, alpha):
        """The mean of (8) over a batch."""
        losses = [
            alpha * self.sequence_loss(sequence)
            + (1.0 - alpha) * (target - self.estimate(self.encode(sequence))) ** 2
            for sequence, target in zip(sequences, targets, strict=True)
        ]
        return sum(losses) / len(losses)

    def steps_after(self, x, state, states, taken, allowed, least, most):
        """Each next token with its log probability among those possible, and the next state."""
        possible = [t for t in allowed if t not in taken] if len(taken) < most else []
        if len(taken) >= least:
            possible = [*possible, self.end]
        logits, state = self.logits(x, state, states)
        return zip(possible, log_softmax([logits[t] for t in possible]), strict=True), state

    def beam(self, states, allowed, least, most, width):
        """The most likely sequence that a beam of this width finds."""
        x, state = self.begin(states)
        beams: list[tuple[Any, ...]] = [(0.0, [], x, state, False)]
        for _ in range(most):
            longer = []
            for score, taken, x, state, has_ended in beams:
                if has_ended:
                    longer.append((score, taken, x, state, True))
                    continue
                tokens, after = self.steps_after(x, state, states, taken, allowed, least, most)
                for token, log_p in tokens:
                    end = token == self.end
                    path = taken if end else [*taken, token]
                    x_after = self.w["embedding.weight"][token]
                    longer.append((score + log_p, path, x_after, after, end))
            beams = sorted(longer, key=lambda beam: -beam[0])[:width]
        return beams[0][1]

    def exhaustive(self, states, allowed, least, most):
        """All sequences with their log probabilities."""
        x, state = self.begin(states)
        open_: list[tuple[Any, ...]] = [(0.0, [], x, state)]
        ended = []
        while open_:
            score, taken, x, state = open_.pop()
            tokens, after = self.steps_after(x, state, states, taken, allowed, least, most)
            for token, log_p in tokens:
                if token == self.end:
                    ended.append((score + log_p, taken))
                else:
                    x_after = self.w["embedding.weight"][token]
                    open_.append((score + log_p, [*taken, token], x_after, after))
        return ended


class FedGcs(Reference):
    """Choices with a weight file and no learning."""

    def __init__(self, settings, weights, known, records, scores):
        super().__init__(settings)
        self.net = Net(weights)
        self.known, self.records, self.scores = known, records, scores

    def choice(self, view):
        dice = rng.stream(self.seed, "select/fedgcs", view.round)
        dice.random()
        keys = dice.random(len(self.n))
        there = view.candidates.tolist()
        allowed = [token for token, client in enumerate(self.known) if client in there]
        if not allowed:
            return sorted(there, key=lambda k: keys[k])[: view.wanted]
        best_first = sorted(range(len(self.records)), key=lambda i: -self.scores[i])
        finals = []
        for i in best_first[: self.s.starts]:
            tokens = [self.known.index(client) for client in self.records[i]]
            states = self.net.encode(dice.permutation(np.array(tokens)).tolist())
            for step in range(self.s.steps):
                factor = 1 + step if self.s.growth == "growing" else 1
                states = self.net.ascended(states, factor * self.s.step_size)
            finals.append(states)
        most = min(view.wanted, len(allowed))
        least = most if self.s.length == "fixed" else 1
        states = max(finals, key=self.net.estimate)
        tokens = self.net.beam(states, allowed, least, most, self.s.beam_width)
        return [self.known[token] for token in tokens]
