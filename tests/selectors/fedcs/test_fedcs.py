"""FedCS: a model of 1 Mbit, clients whose seconds follow from their rates."""

import dataclasses
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim import rng
from fleetsim.contracts import Outcome, Purpose
from fleetsim.selectors.fedcs.equations import pack
from fleetsim.selectors.fedcs.selector import FedCSSettings
from tests.selectors.rounds import met, report_of, resources_of, view_of


def able(*, download_s, update_s, upload_s, num_samples=10, epochs=2):
    """Return the resources that a client reports whose round takes so long."""
    return resources_of(
        samples_per_s=num_samples * epochs / update_s,
        down_bit_per_s=1e6 / download_s,
        up_bit_per_s=1e6 / upload_s,
    )


TIMES = {
    0: able(download_s=1.0, update_s=10.0, upload_s=2.0),
    1: able(download_s=2.0, update_s=4.0, upload_s=3.0),
    2: able(download_s=1.0, update_s=20.0, upload_s=1.0),
    3: able(download_s=9.0, update_s=5.0, upload_s=1.0),
}


def ready(size=4, *, cohort=4, **settings):
    more = {"cohort": cohort, "payload_byte": 125_000, "epochs": 2}
    return met(FedCSSettings(**settings), (10,) * size, **more)


def answer(client, resources, outcome=Outcome.DELIVERED):
    report = report_of(client, outcome=outcome, purpose=Purpose.PROBE)
    return report._replace(resources=resources if outcome is Outcome.DELIVERED else None)


ANSWERS = [answer(client, resources) for client, resources in TIMES.items()]


def test_at_most_those_wanted_or_a_limit_of_its_own():
    fleet, selector = ready(max_clients=3)

    assert selector.select(view_of(fleet, reports=ANSWERS)).tolist() == [1, 0, 3]
    assert selector.select(view_of(fleet, reports=ANSWERS, wanted=2)).tolist() == [1, 0]


def test_who_did_not_answer_has_left_or_cannot_work_is_out():
    fleet, selector = ready(size=5)
    reports = [
        answer(0, TIMES[0], Outcome.LATE),
        answer(1, dataclasses.replace(TIMES[1], up_bit_per_s=0.0)),
        answer(2, TIMES[2]),
        answer(3, TIMES[3]),
        answer(4, dataclasses.replace(TIMES[3], samples_per_s=0.0)),
    ]
    view = view_of(fleet, reports=reports, candidates=[0, 1, 2, 4])

    assert selector.select(view).tolist() == [2]


# The worked example: seconds of download, update and upload of three clients.
DOWNLOAD_S = np.array([1.0, 2.0, 1.0])
UPDATE_S = np.array([5.0, 1.0, 2.0])
UPLOAD_S = np.array([2.0, 3.0, 4.0])
TABLE = np.column_stack([DOWNLOAD_S, UPDATE_S, UPLOAD_S])

# Whole seconds: sums are exact, and equal increases are equal.
SECONDS = st.integers(0, 6).map(float)
CLIENTS = st.lists(st.tuples(SECONDS, SECONDS, SECONDS), max_size=9)


def packed(table, *args, **options):
    """Positions packed of clients given by their seconds of download, update and upload [n, 3]."""
    return pack(table[:, 0], table[:, 1], table[:, 2], *args, **options).tolist()


def length_s(table):
    """T(S): seconds of a round of these clients, which upload in the order given."""
    theta_s = 0.0
    for update_s, upload_s in table[:, 1:].tolist():
        theta_s = max(theta_s, update_s) + upload_s
    return table[:, 0].max() + theta_s


def test_the_client_that_prolongs_the_round_least_is_next():
    # Nobody yet: 1 + 2 + 5 = 8, 2 + 3 + 1 = 6, 1 + 4 + 2 = 7: client 1, D = 2, Theta = 4, T = 6.
    # Then client 0: 0 + 2 + (5 - 4) = 3, client 2: 0 + 4 + 0 = 4: client 0, Theta = 7, T = 9.
    # Then client 2: Theta = 11, T = 13, not below 12. The largest increase first would give [0].
    assert packed(TABLE, 12.0, np.zeros(3)) == [1, 0]


def test_the_round_must_end_before_the_deadline_not_at_it():
    assert packed(TABLE, 13.0, np.zeros(3)) == [1, 0]
    assert packed(TABLE, 13.001, np.zeros(3)) == [1, 0, 2]


def test_selection_and_aggregation_take_their_part_of_the_deadline():
    overheads = {"selection_s": 2.0, "aggregation_s": 1.0}

    assert packed(TABLE, 12.5, np.zeros(3), **overheads) == [1, 0]
    assert packed(TABLE, 12.0, np.zeros(3), **overheads) == [1]


@settings(max_examples=40)
@given(clients=CLIENTS, deadline_s=st.integers(0, 30).map(float), data=st.data())
def test_a_packed_round_fits_is_full_and_follows_its_clients(clients, deadline_s, data):
    table = np.array(clients, dtype=np.float64).reshape(-1, 3)
    keys = rng.stream(2, "keys").random(len(clients))
    order = np.array(data.draw(st.permutations(range(len(clients)))), dtype=np.int64)
    positions = packed(table, deadline_s, keys)

    assert len(set(positions)) == len(positions)
    assert not positions or length_s(table[positions]) < deadline_s
    for other in set(range(len(clients))) - set(positions):
        assert length_s(table[[*positions, other]]) >= deadline_s
    assert order[packed(table[order], deadline_s, keys[order])].tolist() == positions


def test_without_a_deadline_all_clients_take_part():
    assert sorted(packed(TABLE, math.inf, np.zeros(3))) == [0, 1, 2]
    assert packed(TABLE, math.inf, np.zeros(3), max_clients=2) == [1, 0]
    assert packed(TABLE, math.inf, np.zeros(3), max_clients=0) == []
