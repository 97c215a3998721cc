"""Training and evaluation of a round on a torch device: what a run chooses, beside other ways.

    python -m benchmarks.gpu
    python -m benchmarks.gpu --works w1 --torch-device cpu --clients 2 --samples 20 --block-s 0

The works are W1, W4, W7 and W8 of the benchmark: networks, settings and cohorts are those of their
scenarios. Samples are noise of the same shapes, because the time depends on the shapes alone. The
ways take turns in blocks of several seconds; about ten minutes on one GPU:

- one client at a time: the serial kernel, the reference;
- as chosen: the kernel that `fleetsim run --torch-device` chooses for the work;
- many at once: the vectorised kernel, where the network has one, in float32 and in bfloat16;
- as chosen, samples copied: the samples move to the device in every round;
- as chosen, then evaluated: the model is evaluated after the round, as in a run;
- as chosen, evaluated beside: the model before is evaluated meanwhile, by a thread with a stream of
  its own. No run does so; the difference to the way before is what it would gain.

Printed are the median over the blocks of the seconds per round, the most clients of one launch, the
utilisation by nvidia-smi (share of the time in which a kernel ran), the ratio to one client at a
time, and the largest distance of a client's weights to the reference, relative to the update. With
`--torch-device cpu` it is a trial of this program, no measurement. Exits with 2 on wrong input, or
if there is no CUDA device.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.works import WORKS, scenario_of
from fleetsim import __version__, rng
from fleetsim.contracts import Job, JobResult, Parameters, SampleForm, Work, WorkKind
from fleetsim.errors import FleetsimError
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.networks import build_model
from fleetsim.scenario import SynchronousServerSettings
from fleetsim.training.settings import TrainerKind, TrainerSettings
from fleetsim.training.trainer_choice import TRAINS, choose_trainer, kernel_class

_SEED = 1
_NUM_TEST = 500
_SAMPLE_PERIOD_MS = 200
_MIN_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of a work: their form, and the number of each client."""

    form: SampleForm
    num: int


SAMPLES = {
    "w1": Samples(SampleForm((1, 28, 28), 10), 600),
    "w4": Samples(SampleForm((3, 32, 32), 10), 100),
    # The mean over the clients of the scenario.
    "w7": Samples(SampleForm((80,), 80, 80, is_sequence=True), 47),
    "w8": Samples(SampleForm((64,), 256, 256, is_sequence=True), 263),
}


class Bench:
    """Work on a device: its samples, jobs, and kernels."""

    def __init__(
        self, name: str, torch_device: str, *, clients: int | None, samples: int | None
    ) -> None:
        """Draw the samples; numbers of clients and samples replace those of the work."""
        scenario = scenario_of(next(work for work in WORKS if work.name == name), [])
        self.task = scenario.task
        self.form = SAMPLES[name].form
        self.torch_device = torch_device
        server = scenario.server
        assert isinstance(server, SynchronousServerSettings)
        self.num_clients: int = clients or server.cohort
        self.num_samples = samples or SAMPLES[name].num
        self.data = self._drawn()
        self.base: Parameters = flatten(self._module())
        epochs = self.task.local.epochs
        assert epochs is not None
        work = Work(WorkKind.TRAIN, epochs=epochs)
        self.jobs = [Job(client, work, self.base, (1,)) for client in range(self.num_clients)]
        self.chosen = choose_trainer(
            TrainerSettings(), self.task.model, self.task.local, torch_device=torch_device
        )

    def kernel(self, kind: TrainerKind, **options: Any) -> Kernel:
        """Return a new kernel, with its own network and copy of the samples on the device."""
        return kernel_class(kind)(
            self._module(),
            self.data,
            local_settings=self.task.local,
            seed=_SEED,
            torch_device=self.torch_device,
            **options,
        )

    def train(self, kernel: Kernel) -> list[JobResult]:
        """Train a round; results are on the host, in the order of the jobs."""
        results: dict[int, JobResult] = {}
        for chunk in kernel.chunks(self.jobs):
            results |= zip(chunk, kernel.compute([self.jobs[i] for i in chunk]), strict=True)
        return [results[i] for i in range(len(self.jobs))]

    def evaluate(self, kernel: Kernel) -> None:
        """Evaluate the model before the round on the server's samples."""
        kernel.evaluate(self.base, "test", 0, _NUM_TEST)

    def ways(self) -> dict[str, tuple[int, Callable[[], list[JobResult]]]]:
        """Return the most clients of one launch, and a function that computes a round, by label."""
        serial, chosen, beside = (
            self.kernel(kind) for kind in ("serial", self.chosen, self.chosen)
        )
        label = f"as chosen ({self.chosen})"
        most = self._most_at_once(chosen)

        def evaluated_after() -> list[JobResult]:
            results = self.train(chosen)
            self.evaluate(chosen)
            return results

        found = {
            "one client at a time": (1, lambda: self.train(serial)),
            label: (most, lambda: self.train(chosen)),
            "as chosen, samples copied": (most, lambda: self.train(self.kernel(self.chosen))),
            "as chosen, then evaluated": (most, evaluated_after),
            "as chosen, evaluated beside": (most, lambda: self._train_beside(chosen, beside)),
        }
        if self.task.model.kind in TRAINS["vectorised"]:
            for precision in ("float32", "mixed"):
                stacked = self.kernel("vectorised", precision=precision)
                at_once = self._most_at_once(stacked)
                found[f"many at once, {precision}"] = at_once, partial(self.train, stacked)
        return found

    def _train_beside(self, kernel: Kernel, evaluating: Kernel) -> list[JobResult]:
        """Train a round while another kernel evaluates in a stream of its own."""
        with ThreadPoolExecutor(1) as thread:
            evaluation = thread.submit(self._evaluate_in_stream, evaluating)
            results = self.train(kernel)
            evaluation.result()
        return results

    def _evaluate_in_stream(self, kernel: Kernel) -> None:
        on_cuda = self.torch_device == "cuda"
        with torch.cuda.stream(_new_stream()) if on_cuda else nullcontext():
            self.evaluate(kernel)

    def _most_at_once(self, kernel: Kernel) -> int:
        return max(map(len, kernel.chunks(self.jobs)))

    def _module(self) -> torch.nn.Module:
        return build_model(self.task.model, self.form, seed=_SEED)

    def _drawn(self) -> TrainerData:
        draw = rng.stream(_SEED, "benchmark/samples")
        num = self.num_clients * self.num_samples
        inputs: list[NDArray[Any]] = []
        labels: list[NDArray[Any]] = []
        for size in (num, _NUM_TEST):
            shape = (size, *self.form.input_shape)
            if self.form.vocabulary_size is None:
                inputs.append(draw.standard_normal(size=shape, dtype=np.float32))
            else:
                inputs.append(draw.integers(self.form.vocabulary_size, size=shape))
            wanted = shape if self.form.is_sequence else (size,)
            labels.append(draw.integers(self.form.num_classes, size=wanted))
        return TrainerData(
            train_inputs=inputs[0],
            train_labels=labels[0],
            shares=np.split(np.arange(num), self.num_clients),
            test_inputs=inputs[1],
            test_labels=labels[1],
        )


def _new_stream() -> Any:
    stream: Any = torch.cuda.Stream  # not typed in torch
    return stream()


@dataclass(slots=True)
class Measured:
    """Measurements of one way, over its blocks."""

    round_s: list[float] = field(default_factory=list)
    utilisation: list[float] = field(default_factory=list)
    """Utilisation, fractions."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--works", nargs="+", choices=sorted(SAMPLES), default=sorted(SAMPLES))
    parser.add_argument("--torch-device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--block-s", type=float, default=3.0, help="shortest length of a block (3)")
    parser.add_argument("--blocks", type=int, default=3, help="blocks of each way (3)")
    parser.add_argument("--clients", type=int, help="clients of a round (the work's cohort)")
    parser.add_argument("--samples", type=int, help="samples of a client (the work's number)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        for name in options.works:
            bench = Bench(
                name, options.torch_device, clients=options.clients, samples=options.samples
            )
            report(name, bench, options.block_s, options.blocks)
    except FleetsimError as fault:
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(2)


def machine(torch_device: str) -> str:
    """Return a line on the device and the versions."""
    versions = f"fleetsim {__version__}, torch {torch.__version__}"
    if torch_device == "cpu":
        return f"CPU, {versions}: a trial of this program, no measurement"
    unknown = "" if shutil.which("nvidia-smi") else "; no nvidia-smi: utilisation is unknown"
    return f"{torch.cuda.get_device_name()}, {versions}, CUDA {torch.version.cuda}{unknown}"


def report(name: str, bench: Bench, block_s: float, num_blocks: int) -> None:
    """Measure one work and print the results."""
    ways = bench.ways()
    first = {label: way() for label, (_, way) in ways.items()}  # also warms up
    measured = {label: Measured() for label in ways}
    for block in range(num_blocks):
        for label, (_, way) in ways.items():
            line = f"\r{name}: block {block + 1} of {num_blocks}, {label:30}"
            print(line, end="", file=sys.stderr, flush=True)
            measure_block(way, block_s, measured[label])
    plain_label = next(iter(ways))
    plain_s = statistics.median(measured[plain_label].round_s)
    print(f"\r{'':60}\r", end="", file=sys.stderr, flush=True)
    size = f"{bench.num_clients} clients x {bench.num_samples} samples"
    print(machine(bench.torch_device))
    print(f"{name}: {bench.task.model.kind}, {size}, {bench.task.local.epochs} epochs")
    print(f"{'':30}{'s/round':>10}{'at once':>9}{'util.':>7}{'ratio':>8}{'apart':>10}")
    for label, found in measured.items():
        round_s = statistics.median(found.round_s)
        used = f"{statistics.mean(found.utilisation):.0%}" if found.utilisation else "?"
        apart = distance(first[label], first[plain_label], bench.base)
        print(
            f"{label:30}{round_s:10.4f}{ways[label][0]:9}{used:>7}{plain_s / round_s:7.1f}x"
            f"{apart:10.1e}"
        )


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
