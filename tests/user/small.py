"""Small scenario of the tests of plug-ins: twelve clients, four rounds of three."""

import numpy as np

from tests.scenario.small import BASE

SMALL = (
    BASE.replace("size: 6", "size: 12")
    .replace("{pixel-6: 0.5, t2.small: 0.5}", "{t2.small: 1.0}")
    .replace("{cohort: 2}", "{cohort: 3, selector: {kind: fixed, clients: [0, 1, 2]}}")
    .replace("{rounds: 2}", "{rounds: 4}")
)


def digits_again(generator):
    """Return training and test parts of a few samples in an order that a generator draws."""
    order = generator.permutation(200)
    inputs = np.arange(200 * 64, dtype=np.float32).reshape(200, 64)[order]
    return (inputs[:160], order[:160] % 10), (inputs[160:], order[160:] % 10)
