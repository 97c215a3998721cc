import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.contracts import (
    BackwardCost,
    CountedWork,
    FloatArray,
    IntArray,
    ModelCost,
    Work,
    WorkKind,
)
from fleetsim.counts import Batching, LastBatch
from fleetsim.fleet.devices import compute
from fleetsim.fleet.devices.compute import (
    lay_out_computations,
    num_trained,
    steps_done,
    unloaded_s,
    work_flop,
)
from fleetsim.fleet.devices.profile import ComputeProfile
from tests.fleet.alone import compute_timeline
from tests.fleet.one_timeline import row_of

# 1 kFLOP/s of convolutions, half of that for gemm; 2 s a batch, and 0.25 s for each parameter.
DEVICE = ComputeProfile(
    backend="cpu",
    conv_flop_per_s=1000.0,
    phi={"conv": 1.0, "depthwise": 0.1, "gemm": 0.5, "rnn": 0.5},
    dispatch_s=0.8,
    parameter_s=0.25,
    layer_s=0.6,
)
# A sample's forward pass: 100 / 1000 + 50 / 500 = 0.2 s. Eight parameters: 2 s a trained batch.
# Two layers: 1.2 s a trained batch, 0.4 s a forward pass.
MODEL = ModelCost({"conv": 100.0, "gemm": 50.0}, num_parameters=8, payload_byte=32, num_layers=2)


def seconds(
    work: Work, num_samples: int = 10, batch_size: int = 4, last: LastBatch = "keep"
) -> float:
    samples, batching = np.array([num_samples]), Batching(batch_size, last)
    return float(unloaded_s(DEVICE, MODEL, work, num_samples=samples, batching=batching)[0])


TRAIN, EVALUATE, GRADIENT = WorkKind.TRAIN, WorkKind.EVALUATE, WorkKind.GRADIENT


@pytest.mark.parametrize(
    ("work", "num_samples", "expected_s"),
    [
        # 2 epochs x (3 batches of 4, 4, 2 x (2 s + 2 s) + 10 samples x 0.6 s) = 2 x (12 + 6)
        (Work(TRAIN, epochs=2), 10, 36.0),
        # Batches of 4, 4, 2, 4, 4: 5 x (2 s + 2 s) + 18 samples x 0.6 s
        (Work(TRAIN, steps=5), 10, 30.8),
        # Fewer than an epoch: 2 x 4 s + 8 samples x 0.6 s
        (Work(TRAIN, steps=2), 10, 12.8),
        # Of three samples every batch has all: 5 x 4 s + 15 samples x 0.6 s
        (Work(TRAIN, steps=5), 3, 29.0),
        # No update, and a third of the launches: 3 batches x (0.8 s + 0.4 s) + 10 samples x 0.2 s
        (Work(EVALUATE), 10, 5.6),
        # 2 batches x (0.8 s + 0.4 s) + 5 samples x 0.2 s
        (Work(EVALUATE, num_samples=5), 10, 3.4),
        # More than the client has: all of them
        (Work(EVALUATE, num_samples=99), 10, 5.6),
        # One epoch over its samples: 2 batches x (2 s + 2 s) + 5 samples x 0.6 s
        (Work(GRADIENT, num_samples=5), 10, 11.0),
        (Work(WorkKind.NONE), 10, 0.0),
        (Work(TRAIN, epochs=5), 0, 0.0),
        (Work(TRAIN, steps=5), 0, 0.0),
    ],
)
def test_work_takes_the_overhead_of_batches_and_the_passes_of_samples(
    work, num_samples, expected_s
):
    assert seconds(work, num_samples) == pytest.approx(expected_s)


def test_a_last_batch_that_is_dropped_costs_nothing_and_a_merged_one_no_step() -> None:
    """Epochs of 2 x 4 s and 8 or 10 samples x 0.6 s; evaluations use all samples as they do."""
    works = Work(TRAIN, epochs=2), Work(EVALUATE)
    assert [seconds(work, last="drop") for work in works] == pytest.approx([25.6, 5.6])
    assert [seconds(work, last="merge") for work in works] == pytest.approx([28.0, 5.6])
    ten, dropping = np.array([10]), Batching(4, "drop")
    flop = [work_flop(MODEL, work, num_samples=ten, batching=dropping)[0] for work in works]
    assert flop == [3 * 150 * 16, 150 * 10]


@pytest.mark.parametrize("kind", [WorkKind.TRAIN, WorkKind.EVALUATE])
def test_counted_work_takes_what_the_same_work_of_the_model_takes(kind):
    is_training = kind is WorkKind.TRAIN
    passes, launches = (3, 3) if is_training else (1, 1)
    counted = CountedWork(
        flop=(("conv", passes * 10 * 100.0), ("gemm", passes * 10 * 50.0)),
        batches=3,
        launches=3 * launches * 2,
        updated_parameters=3 * 8 if is_training else 0,
        num_samples=10,
    )
    plain, of_model = Work(kind, counted=counted), Work(kind, epochs=int(is_training))

    assert math.isclose(seconds(plain, num_samples=99), seconds(of_model))
    flop = [
        work_flop(MODEL, work, num_samples=np.array([size]), batching=Batching(4)).tolist()
        for work, size in ((plain, 99), (of_model, 10))
    ]
    assert flop[0] == flop[1]
    assert compute.samples_of(plain, np.array([99])).tolist() == [10]


def batches(steps: int, num_samples: int, batch_size: int, last: LastBatch) -> list[int]:
    """Samples of each batch in order."""
    sizes: list[int] = []
    left = 0
    for _ in range(steps):
        left = left or num_samples
        sizes.append(min(batch_size, left))
        left -= sizes[-1]
        if left < batch_size and last != "keep":
            sizes[-1] += left if last == "merge" else 0
            left = 0
    return sizes


@given(
    steps=st.integers(1, 40),
    num_samples=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    last=st.sampled_from(["keep", "drop", "merge"]),
    share=st.floats(0.0, 1.0),
)
def test_steps_are_laid_out_batch_by_batch(steps, num_samples, batch_size, last, share):
    work, sizes = Work(WorkKind.TRAIN, steps=steps), batches(steps, num_samples, batch_size, last)
    batching = Batching(batch_size, last)
    ends_s = np.cumsum([4.0 + 0.6 * size for size in sizes])
    [done] = steps_done(
        DEVICE,
        MODEL,
        work,
        num_samples=np.array([num_samples]),
        batching=batching,
        share=np.array([share]),
    )

    assert seconds(work, num_samples, batch_size, last) == pytest.approx(ends_s[-1])
    assert num_trained(work, np.array([num_samples]), batching).tolist() == [sum(sizes)]
    # A step that ends at that very moment, but for rounding, may or may not be counted.
    assert (ends_s < share * ends_s[-1] - 1e-6).sum() <= done
    assert done <= (ends_s < share * ends_s[-1] + 1e-6).sum()


@given(st.integers(1, 5), st.integers(1, 300), st.integers(1, 64))
def test_steps_that_are_whole_epochs_are_those_epochs_to_the_last_bit(epochs, size, batch_size):
    steps = Work(WorkKind.TRAIN, steps=epochs * math.ceil(size / batch_size))

    assert seconds(Work(TRAIN, epochs=epochs), size, batch_size) == seconds(steps, size, batch_size)


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        (TRAIN, {"steps": 0}, "at least 1"),
        (TRAIN, {"steps": 2, "epochs": 1}, "instead of epochs"),
        (EVALUATE, {"steps": 2}, "of training"),
        (TRAIN, {"epochs": 1, "num_samples": 3}, "training runs over all samples"),
    ],
)
def test_work_that_contradicts_itself_is_refused(kind, parts, message):
    with pytest.raises(ValueError, match=message):
        seconds(Work(kind, **parts))


def test_flop_are_three_forward_passes_per_trained_sample_and_one_per_evaluated():
    ten = np.array([10, 1])

    def flop(work: Work) -> list[float]:
        return list(work_flop(MODEL, work, num_samples=ten, batching=Batching(4)))

    assert flop(Work(WorkKind.TRAIN, epochs=2)) == [2 * 10 * 3 * 150, 2 * 1 * 3 * 150]
    # Four steps: batches of 4, 4, 2 and 4 of the first, and four of the second client's one sample.
    assert flop(Work(WorkKind.TRAIN, steps=4)) == [14 * 3 * 150, 4 * 3 * 150]
    assert flop(Work(WorkKind.EVALUATE, num_samples=4)) == [4 * 150, 150]
    assert (flop(Work(WorkKind.GRADIENT)), flop(Work(WorkKind.NONE))) == ([4500, 450], [0, 0])


def test_frozen_weights_leave_the_backward_pass_that_is_needed():
    """Of 100 conv and 50 gemm FLOP forward, 50 gemm backward in one launch; 3 trained weights."""
    model = replace(MODEL, num_parameters=3, backward=BackwardCost({"gemm": 50.0}, 1))
    work, ten = Work(WorkKind.TRAIN, epochs=2), np.array([10])
    seconds = unloaded_s(DEVICE, model, work, num_samples=ten, batching=Batching(4))
    # A sample: 0.1 s of conv and 0.2 s of gemm. A batch: 0.8 s, three of six launches, 0.75 s.
    batch_s = 0.8 + 0.6 * 3 / 3 + 0.75

    assert seconds[0] == pytest.approx(2 * (3 * batch_s + 10 * 0.3))
    assert work_flop(model, work, num_samples=ten, batching=Batching(4)).tolist() == [2 * 10 * 200]
    half = np.array([0.5])
    four = Batching(4)
    assert steps_done(DEVICE, model, work, num_samples=ten, batching=four, share=half)[0] == 3


def test_an_operation_class_without_a_rate_is_named():
    model, one = ModelCost({"attention": 1.0}, num_parameters=1, payload_byte=4), np.array([1])

    with pytest.raises(ValueError, match=r"'attention'.*known are conv, depthwise, gemm, rnn$"):
        unloaded_s(DEVICE, model, Work(EVALUATE), num_samples=one, batching=Batching(1))


@pytest.mark.parametrize(
    ("begin_s", "work_s", "steps", "edges_s"),
    [
        (0.0, 10.0, [(20.0, 0.5), (math.inf, 0.9)], [0.0, 20.0]),
        # 10 s at full speed, 20 s at half speed, the last 5 s of work at a quarter of the speed
        (0.0, 25.0, [(10.0, 0.0), (30.0, 0.5), (math.inf, 0.75)], [0.0, 10.0, 30.0, 50.0]),
        # ten steps of a tenth, which add up to less in binary
        (0.0, 1.0, [*((k / 10, 0.0) for k in range(1, 11)), (math.inf, 0.0)], [0.0, 1.0]),
        (7.0, 0.0, [], [7.0]),
        # below the resolution of the clock: one tick
        (1e9, 1e-9, [(math.inf, 0.0)], [1e9, math.nextafter(1e9, math.inf)]),
    ],
)
def test_load_slows_the_work_and_thins_its_power(begin_s, work_s, steps, edges_s):
    timeline = compute_timeline(begin_s, work_s, 1.0, steps)

    assert timeline.edges_s.tolist() == edges_s
    # At 1 W: no work costs nothing at all, and one tick of the clock at 1e9 s is 1.2e-7 s.
    assert timeline.energy_until(math.inf) == pytest.approx(work_s, rel=1e-9, abs=work_s and 2e-7)


widths_s = st.integers(1, 10_000).map(lambda tenths: tenths / 10)
loads = st.sampled_from([0.0, 0.1, 0.5, 0.9]) | st.floats(0.0, 0.95)
load_steps = st.lists(st.tuples(widths_s, loads), min_size=1, max_size=20)


def laid_out(start_s: float, steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Absolute steps from (width, load) pairs; the last one lasts for ever."""
    ends_s = list(start_s + np.cumsum([width for width, _ in steps]))
    return list(zip([*ends_s[:-1], math.inf], [load for _, load in steps], strict=True))


@pytest.mark.slow
@given(st.floats(0.0, 1e6), st.floats(1e-3, 1e5), st.floats(0.1, 50.0), load_steps)
def test_a_computation_takes_the_same_joules_at_any_load(start_s, work_s, power_w, steps):
    timeline = compute_timeline(start_s, work_s, power_w, laid_out(start_s, steps))

    assert (timeline.progress[0], timeline.progress[-1]) == (0.0, work_s)
    assert (np.diff(timeline.progress) >= 0.0).all()
    assert (np.diff(timeline.edges_s) > 0.0).all()
    # an edge is known to half a unit in its last place, and there are 21 at most
    tolerance_j = 21 * power_w * math.ulp(timeline.end_s)
    assert timeline.energy_until(math.inf) == pytest.approx(
        power_w * work_s, rel=1e-12, abs=tolerance_j
    )


class Alternating:
    """Load 0 and 0.5 in turn, a second each; counts how often it is asked."""

    def __init__(self) -> None:
        self.num_asked = 0

    def __call__(self, rows: IntArray, t_s: FloatArray) -> tuple[FloatArray, FloatArray]:
        self.num_asked += 1
        return np.where(np.floor(t_s) % 2 == 0, 0.0, 0.5), np.floor(t_s) + 1.0


def test_a_computation_is_asked_for_no_load_after_it_is_cut_off():
    load = Alternating()
    done = lay_out_computations(
        np.zeros(2), np.array([1e9, 30.0]), np.ones(2), load, None, np.array([100.0, 100.0])
    )

    assert load.num_asked == 101
    assert done.end_s[0] > 100.0
    assert done.progress_until(np.full(2, 100.0)).tolist() == [75.0, 30.0]
    assert done.energy_until(np.full(2, 100.0)).tolist() == [75.0, 30.0]
    assert done.progress[:, -1].tolist() == [1e9, 30.0]


# An example takes 4 ms: the load changes every second.
@settings(max_examples=40)
@given(work_s=st.lists(st.floats(0.0, 60.0), min_size=1, max_size=5), limit_s=st.floats(0.0, 120.0))
def test_what_ends_before_the_limit_is_laid_out_as_without_one(work_s, limit_s):
    size = len(work_s)
    whole, cut = (
        lay_out_computations(
            np.zeros(size), np.array(work_s), np.ones(size), Alternating(), None, limit
        )
        for limit in (None, np.full(size, limit_s))
    )

    for row in range(size):
        ours, others = row_of(cut, row), row_of(whole, row)
        if others.end_s <= limit_s:
            assert ours.edges_s.tobytes() == others.edges_s.tobytes()
            assert ours.progress.tobytes() == others.progress.tobytes()
            assert ours.power_w.tobytes() == others.power_w.tobytes()
        else:
            assert ours.end_s > limit_s
            assert ours.energy_until(limit_s) == pytest.approx(others.energy_until(limit_s))
            assert ours.progress_until(limit_s) == pytest.approx(others.progress_until(limit_s))
