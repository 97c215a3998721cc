"""Training of many clients at once on a CUDA device, compared with one client at a time.

    python benchmarks/gpu.py [--works w1 w2 w3 w4] [--block-s 3] [--blocks 3]

A round trains all clients of a work from one model. Samples are noise of the right shapes, because
the time depends on the shapes alone. The ways of training take turns in blocks of several seconds.
Printed are the median over the blocks of the seconds per round, and the utilisation by nvidia-smi
(share of the time in which a kernel ran). Exits with 2 if there is no CUDA device.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from fleetsim import rng
from fleetsim.contracts import JobResult, Parameters
from fleetsim.kernels.batches import StackJob
from fleetsim.kernels.vmap.vmap_sgd import STACK_BYTE, footprint, stacks, train_stack
from fleetsim.learning.local import local_sgd
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.local.step_settings import Precision
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.learning.models.settings import (
    FedGraCnnSettings,
    LogisticSettings,
    ModelSettings,
    ResNet18Settings,
    TwoNNSettings,
)

_SEED = 1
_NUM_CLASSES = 10
_SAMPLE_PERIOD_MS = 200
_MIN_ROUNDS = 2


def _stream(client: int) -> np.random.Generator:
    return rng.stream(_SEED, "benchmark/client", client)


@dataclass(frozen=True, slots=True)
class Work:
    """Network and data that one round trains."""

    title: str
    model: ModelSettings
    shape: tuple[int, ...]
    clients: int
    samples: int
    """Number of samples of each client."""
    epochs: int
    batch_size: int


WORKS = {
    "w1": Work("2NN", TwoNNSettings(), (1, 28, 28), 10, 600, 5, 50),
    "w2": Work("FedGRA CNN", FedGraCnnSettings(), (1, 28, 28), 10, 600, 1, 50),
    "w3": Work("logistic regression", LogisticSettings(), (60,), 100, 60, 5, 10),
    "w4": Work("ResNet-18, GroupNorm", ResNet18Settings(norm="group"), (3, 32, 32), 20, 100, 1, 20),
}


class Bench:
    """Work on a device: the network, its samples, and the ways to train them."""

    def __init__(self, work: Work, device: torch.device) -> None:
        """Build the network and the samples on a device."""
        self.module: nn.Module = build_model(
            work.model, input_shape=work.shape, num_classes=_NUM_CLASSES, seed=_SEED
        ).to(device)
        draw = rng.stream(_SEED, "benchmark/samples")
        num = work.clients * work.samples
        inputs = draw.standard_normal(size=(num, *work.shape), dtype=np.float32)
        self.inputs: Tensor = torch.from_numpy(inputs).to(device)
        self.labels: Tensor = torch.from_numpy(draw.integers(_NUM_CLASSES, size=num)).to(device)
        self.base: Parameters = flatten(self.module)
        self.settings = LocalSettings(
            epochs=work.epochs,
            batch_size=work.batch_size,
            optimizer=SgdSettings(learning_rate=0.01),
        )
        self._rows = np.split(np.arange(num), work.clients)
        self._epochs = work.epochs

    def jobs(self) -> list[StackJob]:
        """Return the jobs of a round, equal in each call."""
        return [
            StackJob(self.base, rows, local_sgd.orders(_stream(client), self._epochs, len(rows)))
            for client, rows in enumerate(self._rows)
        ]

    def num_at_once(self) -> int:
        """Return the number of clients of the largest stack."""
        return max(map(len, self._stacks()))

    def one_by_one(self) -> list[JobResult]:
        """Train a round by `local_sgd.train`."""
        return [
            local_sgd.train(
                self.module,
                job.base,
                self.inputs[job.rows[0] : job.rows[-1] + 1],
                self.labels[job.rows[0] : job.rows[-1] + 1],
                self.settings,
                local_sgd.Passes(epochs=len(job.orders), stream=_stream(client)),
            )
            for client, job in enumerate(self.jobs())
        ]

    def at_once(self, precision: Precision) -> list[JobResult]:
        """Train a round in stacks; "mixed" is bfloat16 arithmetic."""
        return [
            result
            for jobs in self._stacks()
            for result in train_stack(
                self.module, jobs, self.inputs, self.labels, self.settings, precision=precision
            )
        ]

    def _stacks(self) -> list[list[StackJob]]:
        """Return the stacks, in the order of the jobs, which are of one length."""
        size, jobs = footprint(self.module, self.inputs), self.jobs()
        lengths = [job.length for job in jobs]
        cut = stacks(size, lengths, self.settings, STACK_BYTE["cuda"])
        return [[jobs[i] for i in members] for members in cut]


@dataclass(slots=True)
class Measured:
    """Measurements of one way of training, over its blocks."""

    round_s: list[float] = field(default_factory=list)
    utilisation: list[float] = field(default_factory=list)
    """Utilisation, fractions."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--works", nargs="+", choices=sorted(WORKS), default=sorted(WORKS))
    parser.add_argument("--block-s", type=float, default=3.0, help="shortest length of a block")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of each way of training")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks/gpu.py: torch sees no cuda device on this machine", file=sys.stderr)
        sys.exit(2)
    # As in a run: cuDNN kernels chosen by rule and not by trial, in full float32.
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)
    device = torch.cuda.get_device_properties(0)
    print(f"{device.name}, torch {torch.__version__}, CUDA {torch.version.cuda}")
    if shutil.which("nvidia-smi") is None:
        print("nvidia-smi is not on the PATH: utilisation is unknown")
    for name in options.works:
        report(name, WORKS[name], options.block_s, options.blocks)


def report(name: str, work: Work, block_s: float, num_blocks: int) -> None:
    """Measure one work and print the results."""
    bench = Bench(work, torch.device("cuda"))
    ways: dict[str, Callable[[], list[JobResult]]] = {
        "one client at a time": bench.one_by_one,
        "at once, float32": partial(bench.at_once, "float32"),
        "at once, mixed": partial(bench.at_once, "mixed"),
    }
    first = {label: way() for label, way in ways.items()}  # also warms up
    measured = {label: Measured() for label in ways}
    for _ in range(num_blocks):
        for label, way in ways.items():
            measure_block(way, block_s, measured[label])
    plain_label = next(iter(ways))
    plain_s = statistics.median(measured[plain_label].round_s)
    print(f"\n{name}: {work.title}, {work.clients} clients x {work.samples} samples")
    print(f"{'':22}{'s/round':>10}{'at once':>9}{'util.':>7}{'ratio':>8}{'apart':>10}")
    for label, found in measured.items():
        round_s = statistics.median(found.round_s)
        num_at_once = 1 if label == plain_label else bench.num_at_once()
        used = f"{statistics.mean(found.utilisation):.0%}" if found.utilisation else "?"
        apart = distance(first[label], first[plain_label], bench.base)
        print(
            f"{label:22}{round_s:10.4f}{num_at_once:9}{used:>7}{plain_s / round_s:7.1f}x"
            f"{apart:10.1e}"
        )
    print("apart: largest distance to the weights of one client at a time, relative to the update")


def measure_block(way: Callable[[], list[JobResult]], block_s: float, found: Measured) -> None:
    """Measure rounds for a given time; each round ends when its results are on the host."""
    with sampled_utilisation(found.utilisation):
        rounds, began_s = 0, time.perf_counter()
        while rounds < _MIN_ROUNDS or time.perf_counter() - began_s < block_s:
            way()
            rounds += 1
        found.round_s.append((time.perf_counter() - began_s) / rounds)


@contextmanager
def sampled_utilisation(samples: list[float]) -> Iterator[None]:
    """Append the utilisation of the device by nvidia-smi while the context is open."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        yield
        return
    command = [
        smi,
        f"--id=GPU-{torch.cuda.get_device_properties(0).uuid}",
        "--query-gpu=utilization.gpu",
        "--format=csv,noheader,nounits",
        f"--loop-ms={_SAMPLE_PERIOD_MS}",
    ]
    sampler = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        sampler.terminate()
        lines = sampler.communicate()[0].split()
    samples += [float(line) / 100 for line in lines if line.isdecimal()]


def distance(found: Sequence[JobResult], expected: Sequence[JobResult], base: Parameters) -> float:
    """Return the largest distance of a client's weights to the expected, relative to its update."""
    return max(
        float(np.linalg.norm(one.vector - other.vector) / np.linalg.norm(other.vector - base))
        for one, other in zip(found, expected, strict=True)
        if one.vector is not None and other.vector is not None
    )


if __name__ == "__main__":
    main()
