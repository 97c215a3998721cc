"""How long a client computes and what that draws: an affine model of batches, slowed by load.

Unloaded, a client with n samples in batches of B trains for

    T = epochs * (ceil(n / B) * (t_d + k_p * P) + 3 n * sum over c of F_c / (phi_c * R))

seconds: t_d to dispatch a batch, k_p per parameter of the model (P of them) for its update, and the
arithmetic. F_c is the FLOP of one sample's forward pass in operation class c, R the device's rate
of convolutions, phi_c that of class c over R; forward and backward together are 3 F. A last,
partial batch costs its overhead and its own samples. Forward passes over m samples take
ceil(m / B) * t_d + m * sum F_c / (phi_c R).

The form is that of measured on-device training, where the time of a batch is affine in its size
and the offset grows with the parameters (UbiquitousLearning/Benchmark-On-Device-Training@752659f,
MNN on a Snapdragon 855: 40 points, mean error 13.7 %). "Training is 3 inferences" fails on phone
engines (5.6x to 16.8x measured there), therefore R is a rate of training.

A background load l leaves a computation the share 1 - l of the device: it runs at speed 1 - l and
is charged train_above_idle_w * (1 - l). The joules of a computation hence do not depend on the
load, its seconds do; being awake for longer is charged elsewhere, at idle power.

Not modelled: thermal throttling, CPU credits of burstable instances, the spread between units of
one model, and memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from fleetsim.contracts import ModelCost, Work, WorkKind
from fleetsim.fleet.profile import ComputeProfile
from fleetsim.fleet.timeline import Timeline, empty

_TRAIN_PER_FORWARD = 3
"""FLOP of forward and backward pass over those of the forward pass."""


def unloaded_s(
    compute: ComputeProfile, cost: ModelCost, work: Work, *, num_samples: int, batch_size: int
) -> float:
    """Seconds that a client's work takes on an otherwise idle device.

    Args:
        compute: the device.
        cost: the model.
        work: what is asked for.
        num_samples: training samples of the client.
        batch_size: samples of a full batch.

    Raises:
        ValueError: an operation class that the device has no rate for, a batch size below 1, or
            training on part of the samples.

    >>> from fleetsim.fleet.profile import load_device
    >>> resnet18 = ModelCost({"conv": 1.1108e9}, num_parameters=11_170_000, payload_byte=44_700_000)
    >>> nano, train = load_device("jetson-nano-cpu").compute, Work(WorkKind.TRAIN, epochs=5)
    >>> round(unloaded_s(nano, resnet18, train, num_samples=500, batch_size=32) / 60, 2)
    28.24
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    passes, samples = _forward_passes(work, num_samples)
    if passes == 0:
        return 0.0
    batch_s = compute.dispatch_s
    if work.kind is not WorkKind.EVALUATE:
        batch_s += compute.parameter_s * cost.num_parameters
    epochs = work.epochs if work.kind is WorkKind.TRAIN else 1
    num_batches = epochs * -(-samples // batch_size)
    return num_batches * batch_s + passes * samples * _forward_s(compute, cost)


def work_flop(cost: ModelCost, work: Work, num_samples: int) -> float:
    """FLOP of a client's work: 3 F per sample and epoch trained, F per sample evaluated.

    Raises:
        ValueError: training on part of the samples.
    """
    passes, samples = _forward_passes(work, num_samples)
    return float(passes * samples * sum(cost.forward_flop.values()))


def _forward_passes(work: Work, num_samples: int) -> tuple[int, int]:
    """What a sample costs, in forward passes, and how many samples the work runs over."""
    samples = num_samples if work.num_samples is None else min(work.num_samples, num_samples)
    match work.kind:
        case WorkKind.NONE:
            return 0, 0
        case WorkKind.EVALUATE:
            return 1, samples
        case WorkKind.GRADIENT:
            return _TRAIN_PER_FORWARD, samples
        case WorkKind.TRAIN:
            if work.num_samples is not None:
                raise ValueError(f"training runs over all samples, got {work!r}")
            return _TRAIN_PER_FORWARD * work.epochs, samples


def _forward_s(compute: ComputeProfile, cost: ModelCost) -> float:
    """Seconds of arithmetic in one sample's forward pass, at the rates of training."""
    seconds = 0.0
    for op_class, flop in cost.forward_flop.items():
        if op_class not in compute.phi:
            raise ValueError(
                f"operation class {op_class!r} of the model has no rate on the device; "
                f"known are {', '.join(sorted(compute.phi))}"
            )
        seconds += flop / (compute.phi[op_class] * compute.conv_flop_per_s)
    return seconds


def compute_timeline(
    start_s: float,
    unloaded_s: float,
    train_above_idle_w: float,
    load_steps: Iterable[tuple[float, float]],
) -> Timeline:
    """A computation laid out under background load; progress in unloaded seconds.

    Args:
        start_s: virtual time at which it begins.
        unloaded_s: seconds that it takes without load.
        train_above_idle_w: power above idle without load.
        load_steps: consecutive (until_s, load): from the last step's end (at first `start_s`) to
            until_s the background load is `load`, in [0, 1). Read no further than needed.

    Raises:
        ValueError: negative work, a load outside [0, 1), a step that does not advance time, or
            steps that end before the computation does.

    >>> timeline = compute_timeline(0.0, 60.0, 4.0, [(30.0, 0.0), (float("inf"), 0.5)])
    >>> timeline.end_s, timeline.energy_until(timeline.end_s)
    (90.0, 240.0)
    """
    if not unloaded_s >= 0.0:
        raise ValueError(f"unloaded_s must be at least 0, got {unloaded_s}")
    if unloaded_s == 0.0:
        return empty(start_s)
    edges_s, progress, power_w = [start_s], [0.0], []
    now_s, now_load = start_s, -1.0
    for until_s, load in load_steps:
        if not 0.0 <= load < 1.0:
            raise ValueError(f"load must be in [0, 1), got {load} until {until_s} s")
        if not until_s > now_s:
            raise ValueError(f"load steps must advance time, got {until_s} s after {now_s} s")
        if load != now_load:
            # Equal steps are one segment, so that its end is computed once and from its start.
            if now_s > edges_s[-1]:
                done_s = progress[-1] + (now_s - edges_s[-1]) * (1.0 - now_load)
                edges_s.append(now_s)
                progress.append(min(done_s, unloaded_s))
            power_w.append(train_above_idle_w * (1.0 - load))
            now_load = load
        end_s = edges_s[-1] + (unloaded_s - progress[-1]) / (1.0 - load)
        if end_s <= until_s:
            # Work too short for the clock's resolution still takes one tick: edges increase.
            edges_s.append(max(end_s, math.nextafter(now_s, math.inf)))
            progress.append(unloaded_s)
            return Timeline(
                np.array(edges_s), np.array(progress), np.array(power_w), is_complete=True
            )
        now_s = until_s
    raise ValueError(f"load steps end at {now_s} s, before the computation does")
