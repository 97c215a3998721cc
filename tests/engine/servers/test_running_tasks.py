"""Running tasks keep every field of what they were asked in a checkpoint."""

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.contracts import Job, Work, WorkKind
from fleetsim.engine.servers.running_tasks import saved_tasks, state_of_running
from fleetsim.engine.tasks.task import Task, TrainingRequest

WORKS = st.builds(
    lambda amount, number, **more: Work(WorkKind.TRAIN, **{amount: number}, **more),
    st.sampled_from(["epochs", "steps"]),
    st.integers(1, 100),
    clock_fraction=st.floats(0.0, 1.0, exclude_min=True),
    tells_epoch_losses=st.booleans(),
)
REQUESTS = st.builds(
    TrainingRequest,
    client=st.integers(0, 10**6),
    work=WORKS,
    upload_fraction=st.floats(0.0, 1.0, exclude_min=True),
    weight=st.none() | st.floats(1e-9, 1e9),
    is_share=st.booleans(),
    continues=st.none(),
)
BASE = np.arange(3, dtype=np.float32)


def running(number: int, request: TrainingRequest) -> Task:
    job = Job(request.client, request.work, BASE, (0, 7))
    at_s = 1.5 * number
    return Task(number, 4, request, request.work, job, (0, 7), 2, 8, 8, at_s)


@given(st.lists(REQUESTS, max_size=4))
def test_flights_come_back_from_a_checkpoint_as_they_were(requests):
    several = [running(number, request) for number, request in enumerate(requests)]
    saved = saved_tasks(state_of_running(reversed(several)))

    assert [one.request for one in saved] == requests
    for one, number in zip(saved, range(len(requests)), strict=True):
        assert (one.number, one.dispatched_at_s) == (number, 1.5 * number)
        assert (one.round, one.selection, one.version) == (4, 7, 2)
        assert (one.base == BASE).all()


def test_every_field_of_a_request_has_a_column_of_its_name():
    state = state_of_running([running(0, TrainingRequest(0, Work(WorkKind.TRAIN, epochs=1)))])
    # Work that was counted is that of messages, which a server does not save.
    names = set(TrainingRequest._fields) - {"work", "continues"}
    names |= {field.name for field in fields(Work)} - {"kind", "num_samples", "counted"}

    assert names <= {key.removeprefix("running/") for key in state}
