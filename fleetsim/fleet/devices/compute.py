"""Duration and energy of computations: an affine model of batches, slowed by background load.

docs/devices.md has the equations of training and evaluation. All their factors are above 0, so a
model with more of anything never takes less time.

Measured on-device training has this form: the time of a batch is affine in its size, and the offset
grows with layers and parameters
(UbiquitousLearning/Benchmark-On-Device-Training@752659f, MNN on a Snapdragon 855: 40 points, mean
error 9.8 %; 14.2 % without k_l). PyTorch on Jetson GPUs has the same offset per layer
(NVIDIA-AI-IOT/torch2trt@353a703, 34 networks).

Heat, CPU credits and a lower clock slow a computation further (`Paces`): at speed v and the share p
of its power, under a load l, a device runs at v * (1 - l) and is charged train_above_idle_w *
(1 - l) * p. The longer time awake is charged elsewhere, at idle power.
"""

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from fleetsim.contracts import CountedWork, FloatArray, IntArray, ModelCost, Work, WorkKind
from fleetsim.counts import Batching
from fleetsim.fleet.devices.pace import Paces
from fleetsim.fleet.devices.profile import ComputeProfile
from fleetsim.fleet.timeline import Timelines
from fleetsim.rounding import ROUNDING_SLACK

LoadAfter = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]
"""Load of some rows at times (each [k]), and the moments until which it holds [k]."""

_TRAIN_PER_FORWARD = 3
"""FLOP and launches of forward and backward pass, divided by those of the forward pass."""
_FIRST_SEGMENTS = 4


def unloaded_s(
    compute: ComputeProfile,
    cost: ModelCost,
    work: Work,
    *,
    num_samples: IntArray,
    batching: Batching,
) -> FloatArray:
    """Return the seconds [n] of a work on the same device without load."""
    if work.kind is WorkKind.NONE:
        return np.zeros(num_samples.size)
    if work.counted is not None:
        return np.full(num_samples.size, _counted_s(compute, work.counted))
    passes, flop = _passes(cost, work, num_samples, batching)
    if work.kind is WorkKind.EVALUATE:
        batch_s = compute.dispatch_s + compute.layer_s * cost.num_layers / _TRAIN_PER_FORWARD
    else:
        batch_s = _trained_batch_s(compute, cost)
    if work.kind is WorkKind.TRAIN:
        batches = num_steps(work, num_samples, batching)
    else:
        # Only steps of training leave samples out or merge batches.
        batches = Batching(batching.size).num_batches(samples_of(work, num_samples))
    seconds = batches * batch_s + passes * _arithmetic_s(compute, flop.items())
    if work.kind is WorkKind.TRAIN:
        seconds = seconds * cost.train_factor
    return np.asarray(seconds, dtype=np.float64)


def num_steps(work: Work, num_samples: IntArray, batching: Batching) -> IntArray:
    """Return the SGD steps of training on these numbers of samples [n]."""
    if work.steps is None:
        return work.epochs * batching.num_batches(num_samples)
    return np.where(num_samples > 0, work.steps, 0)


def num_trained(work: Work, num_samples: IntArray, batching: Batching) -> IntArray:
    """Return the samples of all SGD steps of a training [n], with repetitions.

    A client of 100 samples takes 3 batches of 30 and one of 10 an epoch. Its fifth and sixth step
    are the first two of the second epoch:

    >>> num_trained(Work(WorkKind.TRAIN, steps=6), np.array([100]), Batching(30)).tolist()
    [160]
    """
    if work.steps is None:
        return work.epochs * batching.num_used(num_samples)
    epochs, rest = np.divmod(work.steps, np.maximum(batching.num_batches(num_samples), 1))
    trained: IntArray = epochs * batching.num_used(num_samples) + rest * batching.size
    return trained


def steps_done(
    compute: ComputeProfile,
    cost: ModelCost,
    work: Work,
    *,
    num_samples: IntArray,
    batching: Batching,
    share: FloatArray,
) -> IntArray:
    """Return the whole SGD steps in the first part of a local training [n].

    A step takes t_d + k_l L + k_p P and the arithmetic of its batch; the last of an epoch may
    differ. `share` is the part of the whole training's time [n], in [0, 1].
    """
    per_epoch = batching.num_batches(num_samples)
    batch_s = _trained_batch_s(compute, cost)
    passes, flop = _trained_sample(cost)
    sample_s = passes * _arithmetic_s(compute, flop.items())
    epoch_s = per_epoch * batch_s + batching.num_used(num_samples) * sample_s
    step_s = batch_s + np.minimum(batching.size, num_samples) * sample_s
    if work.steps is None:
        done_s = share * work.epochs * epoch_s
    else:
        whole_epochs, rest = np.divmod(work.steps, per_epoch)
        done_s = share * (whole_epochs * epoch_s + rest * step_s)
    epochs = np.floor(done_s / epoch_s + ROUNDING_SLACK)
    steps = np.floor((done_s - epochs * epoch_s) / step_s + ROUNDING_SLACK)
    whole = np.minimum(
        epochs * per_epoch + np.clip(steps, 0, per_epoch - 1),
        num_steps(work, num_samples, batching),
    )
    return np.asarray(whole, dtype=np.int64)


def work_flop(
    cost: ModelCost, work: Work, *, num_samples: IntArray, batching: Batching
) -> FloatArray:
    """Return the FLOP of work [n]: 3 F for a sample in training, F for one in evaluation.

    With frozen weights a sample in training takes F and the backward pass of the model. Training is
    multiplied by the model's `train_factor`.
    """
    if work.counted is not None:
        return np.full(num_samples.size, work.counted.total_flop)
    passes, flop_by_class = _passes(cost, work, num_samples, batching)
    flop = passes * sum(flop_by_class.values())
    if work.kind is WorkKind.TRAIN:
        flop = flop * cost.train_factor
    return np.asarray(flop, dtype=np.float64)


def samples_of(work: Work, num_samples: IntArray) -> IntArray:
    """Return the samples that a work uses [n] of those that clients have [n]."""
    if work.kind is WorkKind.NONE:
        return np.zeros_like(num_samples)
    if work.counted is not None:
        return np.full_like(num_samples, work.counted.num_samples)
    if work.num_samples is None:
        return num_samples
    return np.minimum(num_samples, work.num_samples)


def _passes(
    cost: ModelCost, work: Work, num_samples: IntArray, batching: Batching
) -> tuple[IntArray, Mapping[str, float]]:
    """Return the passes of one sample in a work [n], and the FLOP of each by operation class."""
    match work.kind:
        case WorkKind.NONE:
            return np.zeros_like(num_samples), cost.forward_flop
        case WorkKind.EVALUATE:
            return samples_of(work, num_samples), cost.forward_flop
        case WorkKind.GRADIENT:
            used = samples_of(work, num_samples)
        case WorkKind.TRAIN:
            if work.num_samples is not None:
                raise ValueError(f"training runs over all samples, got {work!r}")
            used = num_trained(work, num_samples, batching)
    passes, flop = _trained_sample(cost)
    return passes * used, flop


def _trained_sample(cost: ModelCost) -> tuple[int, Mapping[str, float]]:
    """Return the passes of one sample in a step of training, and the FLOP of each."""
    if cost.backward is None:
        return _TRAIN_PER_FORWARD, cost.forward_flop
    backward = cost.backward.flop
    return 1, {kind: flop + backward.get(kind, 0.0) for kind, flop in cost.forward_flop.items()}


def _counted_s(compute: ComputeProfile, counted: CountedWork) -> float:
    """Return the seconds of a computation that was counted as a whole.

    The overhead of a layer is that of its three launches in a trained batch: forward pass, and
    gradients of inputs and weights. So a launch costs a third of it.
    """
    return (
        counted.batches * compute.dispatch_s
        + counted.launches * compute.layer_s / _TRAIN_PER_FORWARD
        + counted.updated_parameters * compute.parameter_s
        + _arithmetic_s(compute, counted.flop)
    )


def _trained_batch_s(compute: ComputeProfile, cost: ModelCost) -> float:
    """Return the overhead of a trained batch of any size in seconds."""
    layers: float = cost.num_layers
    if cost.backward is not None:
        layers = (cost.num_layers + cost.backward.num_launches) / _TRAIN_PER_FORWARD
    return compute.dispatch_s + compute.layer_s * layers + compute.parameter_s * cost.num_parameters


def _arithmetic_s(compute: ComputeProfile, flop_by_class: Iterable[tuple[str, float]]) -> float:
    """Return the seconds of FLOP by operation class, at rates of training."""
    seconds = 0.0
    for op_class, flop in flop_by_class:
        if op_class not in compute.phi:
            raise ValueError(
                f"operation class {op_class!r} of the model has no rate on the device; "
                f"known are {', '.join(sorted(compute.phi))}"
            )
        seconds += flop / (compute.phi[op_class] * compute.conv_flop_per_s)
    return seconds


def lay_out_computations(
    start_s: FloatArray,
    unloaded_s: FloatArray,
    train_above_idle_w: FloatArray,
    load_after: LoadAfter,
    paces: Paces | None = None,
    matters_until_s: FloatArray | None = None,
) -> Timelines:
    """Return timelines of computations under background load; progress is in unloaded seconds.

    Power is that above idle without load. `load_after` returns loads in [0, 1); `paces` slow the
    computations further. `matters_until_s` is the latest time at which each is cut off or lost [n];
    None: never. A longer computation keeps its last pace after that time: its timeline is exact
    until then, and ends later.
    """
    num_segments = np.zeros(start_s.size, dtype=np.int64)
    edges_s, progress = start_s[:, np.newaxis].copy(), np.zeros((start_s.size, 1))
    power_w = np.empty((start_s.size, 0))
    now_s, now_speed = start_s.copy(), np.zeros(start_s.size)
    now_w = np.full(start_s.size, -1.0)
    limit_s = np.full(start_s.size, np.inf) if matters_until_s is None else matters_until_s
    rows = np.flatnonzero(unloaded_s > 0.0)
    while rows.size:
        load, until_s = load_after(rows, now_s[rows])
        speed = 1.0 - load
        at_w = train_above_idle_w[rows] * speed
        if paces is not None:
            slowed, thinned, change_s = paces.at(rows, now_s[rows])
            speed, at_w = speed * slowed, at_w * thinned
            until_s = np.minimum(until_s, change_s)
        until_s = np.where(until_s > limit_s[rows], np.inf, until_s)
        # Equal steps are one segment, so that its end is computed once and from its start.
        fresh = rows[(speed != now_speed[rows]) | (at_w != now_w[rows])]
        begun = fresh[num_segments[fresh] > 0]
        last = num_segments[begun] - 1
        done_s = (now_s[begun] - edges_s[begun, last]) * now_speed[begun]
        done_s += progress[begun, last]
        if fresh.size and num_segments[fresh].max() == power_w.shape[1]:
            edges_s, progress, power_w = _wider(edges_s, progress, power_w)
        edges_s[begun, last + 1] = now_s[begun]
        progress[begun, last + 1] = np.minimum(done_s, unloaded_s[begun])
        num_segments[fresh] += 1
        now_speed[rows], now_w[rows] = speed, at_w
        last = num_segments[rows] - 1
        power_w[rows, last] = at_w
        end_s = edges_s[rows, last] + (unloaded_s[rows] - progress[rows, last]) / speed
        is_done = end_s <= until_s
        done = rows[is_done]
        # Work shorter than the resolution of a float still takes one tick: edges increase.
        ends_s = np.maximum(end_s[is_done], np.nextafter(now_s[done], np.inf))
        after = np.arange(edges_s.shape[1]) >= num_segments[done, np.newaxis]
        edges_s[done] = np.where(after, ends_s[:, np.newaxis], edges_s[done])
        progress[done] = np.where(after, unloaded_s[done, np.newaxis], progress[done])
        now_s[rows] = until_s
        rows = rows[~is_done]
    most = int(num_segments.max(initial=0))
    return Timelines(
        edges_s[:, : most + 1].copy(),
        progress[:, : most + 1].copy(),
        power_w[:, :most].copy(),
        num_segments,
        np.ones(start_s.size, dtype=np.bool_),
    )


def _wider(
    edges_s: FloatArray, progress: FloatArray, power_w: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return arrays for twice the segments: edges and progress repeat their last column."""
    more = max(power_w.shape[1], _FIRST_SEGMENTS)
    # Not by np.pad, which takes five times as long.
    return (
        np.concatenate([edges_s, edges_s[:, -1:].repeat(more, axis=1)], axis=1),
        np.concatenate([progress, progress[:, -1:].repeat(more, axis=1)], axis=1),
        np.concatenate([power_w, np.zeros((len(power_w), more))], axis=1),
    )
