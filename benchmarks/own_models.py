"""Networks from a user's file: trainer, proof, FLOP beside torch's counter, time beside serial.

    python -m benchmarks.own_models                       # all three, on made-up images
    python -m benchmarks.own_models VisionTransformer --dataset fashion-mnist

Trains `benchmarks/user_networks.py` as a plug-in, and prints a line of each. Times are CPU seconds
of one process for ten clients with two batches each, the least of three.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import fleetsim
from benchmarks import user_networks
from fleetsim.contracts import Job, SampleForm, Work, WorkKind
from fleetsim.kernels.base import Kernel, TrainerData
from fleetsim.learning.local.optimizer_settings import SgdSettings
from fleetsim.learning.local.settings import LocalSettings
from fleetsim.learning.models.flat_vector import flatten
from fleetsim.learning.models.synthetic_samples import drawn_samples
from fleetsim.training.settings import TrainerSettings
from fleetsim.training.trainer_choice import TrainerQuestion, kernel_class
from fleetsim.user.models.trainer_choice import choose_user_trainer
from fleetsim.user.models.user_cost import counted_cost

NETWORKS = ("VisionTransformer", "MobileNetV3Small", "TemporalConvNet")
FORMS = {"fashion-mnist": (1, 28, 28), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
_CLIENTS = 10


def torch_flop(module: nn.Module, shape: Sequence[int]) -> int:
    """Return what torch counts for a forward pass of one sample, attention by its definition."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as seen:
            module.eval()(torch.zeros(1, *shape))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    return int(seen.get_total_flops())


def cpu_s(
    kind: Any, module: nn.Module, samples: SampleForm, batch_size: int, repeats: int
) -> float:
    """Return the least CPU seconds for training ten clients, two batches each."""
    num = 2 * batch_size
    inputs, labels = drawn_samples(samples, _CLIENTS * num)
    shares = np.split(np.arange(_CLIENTS * num), _CLIENTS)
    data = TrainerData(inputs, labels, shares, inputs[:1], labels[:1])
    local = LocalSettings(
        epochs=1, batch_size=batch_size, optimizer=SgdSettings(learning_rate=0.01)
    )
    kernel: Kernel = kernel_class(kind)(copy.deepcopy(module), data, local_settings=local, seed=0)
    base = flatten(module)
    jobs = [Job(k, Work(WorkKind.TRAIN, epochs=1), base, (1,)) for k in range(_CLIENTS)]
    taken = []
    for _ in range(repeats):
        began = time.process_time()
        for chunk in kernel.chunks(jobs):
            kernel.compute([jobs[index] for index in chunk])
        taken.append(time.process_time() - began)
    return min(taken)


def row(name: str, samples: SampleForm, *, batch_size: int, repeats: int = 3) -> dict[str, Any]:
    """Return trainer, reason, FLOP by both counters and times of a network."""
    torch.default_generator.manual_seed(1)
    module = getattr(user_networks, name)(samples)
    for layer in module.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.num_batches_tracked = None
    cost = counted_cost(module, samples)
    sgd = SgdSettings(learning_rate=0.01)
    local = LocalSettings(epochs=1, batch_size=batch_size, optimizer=sgd)
    num_samples = np.array([batch_size])
    trainer, reason = choose_user_trainer(
        TrainerQuestion(TrainerSettings(), module, samples, cost, num_samples, local, "cpu")
    )
    serial_s = cpu_s("serial", module, samples, batch_size, repeats)
    return {
        "network": name,
        "parameters": cost.num_parameters,
        "trainer": trainer,
        "reason": reason,
        "flop": int(sum(cost.forward_flop.values())),
        "torch_flop": torch_flop(module, samples.input_shape),
        "serial_s": serial_s,
        "fast_s": serial_s
        if trainer == "serial"
        else cpu_s(trainer, module, samples, batch_size, repeats),
    }


def trained(
    name: str, dataset: str, rounds: int, *, clients: int = 100, cohort: int = 4
) -> fleetsim.Run:
    """Return a run of the network from the user's file as a plug-in."""
    with tempfile.TemporaryDirectory() as folder:
        run = fleetsim.run(
            "quickstart",
            {
                "task.dataset": {"kind": dataset},
                # A BatchNorm's running statistics need alike clients, and more than a few steps.
                "task.partition": {"kind": "iid"},
                "task.local.epochs": 1,
                "fleet.size": clients,
                "server.cohort": cohort,
                # quickstart's three seconds are for its own model; MobileNetV3 takes up to ten.
                "server.deadline_s": None,
                "stop.rounds": rounds,
                "task.local.batch_size": 8,
                "task.local.optimizer.learning_rate": 0.05,
            },
            plugin=f"model=benchmarks.user_networks:{name}",
            out=Path(folder) / "run",
            progress=False,
            workers=1,
        )
        run.rounds  # noqa: B018 - read before the folder goes
        return run


def main() -> None:
    """Print a line of every network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help=", ".join(NETWORKS))
    parser.add_argument("--dataset", choices=sorted(FORMS), help="train on it, too")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    options = parser.parse_args()
    samples = SampleForm(FORMS.get(options.dataset, (3, 32, 32)), 10)
    for name in options.networks:
        found = row(name, samples, batch_size=options.batch_size)
        print(
            f"{name}: {found['parameters']:,} parameters; {found['trainer']} ({found['reason']});"
            f" FLOP {found['flop']:,}, torch {found['torch_flop']:,}; {found['fast_s']:.3f} s,"
            f" serial {found['serial_s']:.3f} s, {found['serial_s'] / found['fast_s']:.2f} times",
            flush=True,
        )
        if options.dataset:
            run = trained(name, options.dataset, options.rounds)
            accuracy = [round(float(value), 3) for value in run.rounds["accuracy"].dropna()]
            print(f"  {options.dataset}: trainer {run.manifest.trainer}, accuracy {accuracy}")


if __name__ == "__main__":
    main()
