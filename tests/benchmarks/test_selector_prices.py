"""Price list of the selectors: text of the page, and origin of its figures."""

import pytest

from benchmarks import choice_times, probing
from benchmarks import selector_prices as prices
from fleetsim.selectors import DEMANDS
from fleetsim.selectors.demands import Demand

ROWS = [(k, v, d) for k, variants in DEMANDS.items() for v, d in variants.items()]
NAMES = [prices.label(kind, variant) for kind, variant, _ in ROWS]


def test_the_page_says_of_every_selector_what_the_code_says():
    page = prices.PAGE.read_text()
    needs = {prices.label(k, v): prices.needs_cells(d) for k, v, d in ROWS}

    assert prices.with_rows(page, "needs", needs) == page


def test_a_fleet_that_is_too_large_for_a_selector_is_said_to_be():
    pairs = Demand("", "small", "", square_byte=8)

    # 8 N^2 byte are 2 GiB at N = 16,384.
    assert choice_times.refusal(pairs, 16_384, 10) is None
    assert choice_times.refusal(pairs, 16_385, 10) == "O(N^2) memory: 2.0 GiB"
    assert choice_times.refusal(Demand("", "yes", ""), 1_000_000, 10) is None
    # 200,000 N byte are 2 GiB at N = 10,737.
    network = Demand("", "private", "", client_byte=200_000)
    assert choice_times.refusal(network, 10_737, 10) is None
    assert choice_times.refusal(network, 10_738, 10) == "200,000 byte each: 2.0 GiB"


MODEL = 4 * (64 * 200 + 200 + 200 * 200 + 200 + 200 * 10 + 10)
"""Bytes of the 2nn of 200 and 200 units for pictures of 8 x 8: 220,840."""
# Down and up, once and by round, of 100 phones and cohorts of 10, in 30 rounds (17 to 46).
BYTES = {
    "`random`, `weights: size`": (0, 0, 0, 0),
    "`oort`, `profile: plato`": (0, 0, 0, 0),
    # 20 candidates load the model and tell a number of 8 byte.
    "`power-of-choice`, `variant: pow-d`": (0, 0, 20 * MODEL, 20 * 8),
    "`power-of-choice`, `variant: cpow-d`": (0, 0, 20 * MODEL, 20 * 8),
    "`power-of-choice`, `variant: rpow-d`": (0, 0, 0, 0),
    # 20 candidates load the model, train it for an epoch, and tell a loss.
    "`fedmarl`": (0, 0, 20 * MODEL, 20 * 8),
    "`afl`": (100 * MODEL, 100 * 8, 0, 0),
    # A gradient is as large as the model, and comes with a number.
    "`divfl`, `refresh: lazy`": (100 * MODEL, 100 * (MODEL + 8), 10 * MODEL, 10 * (MODEL + 8)),
    "`divfl`, `refresh: ideal`": (0, 0, 100 * MODEL, 100 * (MODEL + 8)),
    "`gpfl`": (100 * MODEL, 100 * (MODEL + 8), 0, 0),
    # 16 evaluations; in rounds 21, 31 and 41 one of the model, ten trainings of it by clients that
    # have it by then, and one of what these make.
    "`fedcor`": (
        16 * 100 * MODEL,
        16 * 100 * 8,
        3 * 200 * MODEL / 30,
        3 * (200 * 8 + 10 * (MODEL + 8)) / 30,
    ),
    # Every 5 rounds all clients; three numbers and the model come back, or four numbers.
    "`fedgra`, `divergence_at: server`": (0, 0, 100 * MODEL / 5, 100 * (MODEL + 24) / 5),
    "`fedgra`, `divergence_at: client`": (0, 0, 100 * MODEL / 5, 100 * 32 / 5),
    # A whole training task; in rounds 20, 30 and 40 all clients evaluate.
    "`tifl`, `rule: rank`": (100 * MODEL, 100 * MODEL, 3 * 100 * MODEL / 30, 3 * 100 * 8 / 30),
    "`tifl`, `rule: none`": (100 * MODEL, 100 * MODEL, 0, 0),
    # Three numbers of a tenth; two of all clients.
    "`fedcs`": (0, 0, 0, 10 * 24),
    "`rbcs-f`": (0, 0, 0, 100 * 16),
    "`autofl`": (0, 0, 0, 100 * 8),
    # A model there and back, once.
    "`favor`, `learning: true`": (100 * MODEL, 100 * MODEL, 0, 0),
    "`favor`, `learning: false`": (100 * MODEL, 100 * MODEL, 0, 0),
    # 20 phones, after the slots that end with rounds 30 and 45.
    "`ucb`": (0, 0, 2 * 20 * MODEL / 30, 2 * 20 * 8 / 30),
    "`quick-init-ucb`": (0, 0, 2 * 20 * MODEL / 30, 2 * 20 * 8 / 30),
}


def page_rows(block):
    """Cells of a table of the page by the name of the row."""
    begin, end = prices.marks(block)
    text = prices.PAGE.read_text().split(begin)[1].split(end)[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {name: cells for name, *cells in lines}


def test_every_selector_has_its_price():
    assert list(page_rows("probing")) == NAMES


@pytest.mark.parametrize("name", BYTES)
def test_bytes_on_the_page_are_those_worked_out_by_hand(name):
    down, up, _, _, round_down, round_up, *_ = page_rows("probing")[name]

    assert [down, up, round_down, round_up] == [f"{byte:,.0f}" for byte in BYTES[name]]


@pytest.mark.slow
def test_the_page_is_what_the_command_measures():
    # Virtual time and simulated joules are the same on any day.
    demand = DEMANDS["fedcs"][""]

    cells = prices.probing_cells(probing.measured("fedcs", "", demand))
    assert page_rows("probing")["`fedcs`"] == list(cells)
