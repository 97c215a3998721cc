"""Opinions of clients on the global model are recorded where a selector asks for them."""

from fleetsim.contracts import JobResult, ProbeRequest, Purpose, Work, WorkKind
from tests.engine.tiny import FirstCome, KnownTrainer


class Evaluates(KnownTrainer):
    """Client c measures an accuracy of c tenths for any model."""

    def results(self, tickets):
        clients = [self.jobs[ticket].client for ticket in tickets]
        return [
            JobResult(result.num_samples, vector=result.vector, accuracy=client / 10)
            for client, result in zip(clients, super().results(tickets), strict=True)
        ]


def probed(tiny, *requests):
    tiny.run(trainer=Evaluates(), selector=FirstCome({1: list(requests)}))
    return [row for row in tiny.recorder.tasks if row.purpose is Purpose.PROBE]


EVALUATE = Work(WorkKind.EVALUATE)


def test_only_opinions_go_on_record(tiny):
    rows = probed(tiny, ProbeRequest(3, EVALUATE, is_opinion=True), ProbeRequest(1, EVALUATE))

    found = [(row.client, row.opinion, row.belief) for row in rows]
    assert found == [(3, 0.3, None), (1, None, None)]
    trained = [row for row in tiny.recorder.tasks if row.purpose is Purpose.TRAIN]
    assert {(row.opinion, row.belief) for row in trained} == {(None, None)}


def test_a_belief_goes_on_record_with_the_exchange_that_made_it(tiny):
    nothing = Work(WorkKind.NONE)
    rows = probed(tiny, ProbeRequest(2, nothing, needs_model=False, belief=0.75, is_opinion=True))

    assert [(row.client, row.opinion, row.belief) for row in rows] == [(2, None, 0.75)]


def test_who_did_not_answer_has_neither(tiny):
    # The model takes a second down, evaluating twenty.
    tiny.server["deadline_s"] = 10.0
    rows = probed(tiny, ProbeRequest(2, EVALUATE, is_opinion=True, belief=0.5))

    assert [(row.outcome, row.opinion, row.belief) for row in rows] == [("late", None, None)]
