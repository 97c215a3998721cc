"""FedCS, Algorithm 3 as printed: the largest inverse of the increase, to the last client."""

import math

from fleetsim import rng
from tests.selectors.references.referee import Reference, clients_of


class FedCS(Reference):
    def __init__(self, round_s: float, fraction: float = 0.5) -> None:
        self.round_s, self.fraction = round_s, fraction

    def setup(self, fleet):
        self.fleet = fleet

    def asked(self, view, requests):
        if view.stage > 0:
            return [], clients_of(requests)
        num = math.ceil(self.fraction * self.fleet.num_samples.size)
        return self.lots(view)[:num], clients_of(requests)

    def lots(self, view):
        stream = rng.stream(self.fleet.seed, "select/fedcs", view.round)
        race = stream.standard_exponential(self.fleet.num_samples.size)
        return sorted(view.candidates.tolist(), key=lambda k: race[k])

    def choice(self, view, chosen):
        model_bit = 8 * self.fleet.payload_byte
        down, work, up = {}, {}, {}
        for report in view.reports:
            told, k = report.resources, report.client
            if told is not None and told.down_bit_per_s > 0 and k in view.candidates:
                down[k] = model_bit / told.down_bit_per_s
                work[k] = self.fleet.epochs * self.fleet.num_samples[k] / told.samples_per_s
                up[k] = model_bit / told.up_bit_per_s
        if not down:
            return self.lots(view)[: view.wanted], chosen

        def spread(clients):
            return max((down[k] for k in clients), default=0.0)

        def end(k, theta):
            return theta + up[k] + max(0.0, work[k] - theta)

        taken: list[int] = []
        theta, left = 0.0, sorted(down)
        while left and len(taken) < view.wanted:
            inverse = {
                k: 1 / (spread([*taken, k]) - spread(taken) + end(k, theta) - theta) for k in left
            }
            k = max(left, key=lambda k: inverse[k])
            left.remove(k)
            if spread([*taken, k]) + end(k, theta) < self.round_s:
                theta = end(k, theta)
                taken.append(k)
        if not taken:
            taken = [min(sorted(down), key=lambda k: spread([k]) + end(k, 0.0))]
        return taken, chosen
