"""Adapter of FLGo (https://github.com/WwZzz/easyFL): its FedAvg and FedBuff, horizontal scene.

    python -m benchmarks.peers.flgo_ WORK.json

The adapter works around two faults of FLGo 0.4.4:

- its data set class overrides `__getitem__` alone, which torch's `Subset` refuses ("TaskDataset
  overrides __getitem__ but not __getitems__"), so the missing method is added;
- its generator of tasks draws the partition class by class, which does not end for labels that are
  tensors, so the adapter writes the task's two JSON files.

As set, FLGo draws clients with replacement and trains one that is drawn twice once, so it would
train fewer than the others. Here it draws without replacement.
"""

from __future__ import annotations

import json
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

import flgo
import torch
from flgo.algorithm import fedavg, fedbuff
from flgo.benchmark.toolkits.cv.classification import FromDatasetPipe, GeneralCalculator
from flgo.experiment.logger.simple_logger import SimpleLogger
from torch.utils.data import TensorDataset

from benchmarks.peers.worksheet import Sheet, Worksheet, loss

_TASK = "exported_task"
_LATENCY = "LN-100-10"
"""Lognormal virtual time of an update in the asynchronous work: mean 100, variance 10."""


class Share(FromDatasetPipe.TaskDataset):
    """FLGo's data set of one client, with the method that torch requires."""

    def __getitems__(self, rows: list[int]) -> list[Any]:
        """Return several samples."""
        return [self[row] for row in rows]


class Calculator(GeneralCalculator):
    """FLGo's calculator with a loss that takes sequences, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.criterion = loss


def register_task(work: Worksheet) -> None:
    """Register the exported data as a benchmark that FLGo can import by name."""
    train = TensorDataset(*(torch.from_numpy(_array(work, f"train_{x}")) for x in _PARTS))
    test = TensorDataset(*(torch.from_numpy(_array(work, f"test_{x}")) for x in _PARTS))

    class TaskPipe(FromDatasetPipe):
        TaskDataset = Share

        def __init__(self, task_path: str) -> None:
            super().__init__(task_path, train_data=train, test_data=test)

    package: Any = types.ModuleType(_TASK)
    core: Any = types.ModuleType(f"{_TASK}.core")
    core.TaskPipe, core.TaskCalculator = TaskPipe, Calculator
    package.core = core
    sys.modules.update({_TASK: package, f"{_TASK}.core": core})


_PARTS = ("inputs", "labels")


def _array(work: Worksheet, name: str) -> Any:
    return work.array(name).copy()


def write_task(work: Worksheet, home: Path) -> None:
    """Write the files of a task, which FLGo's generator would otherwise write."""
    offsets = work.array("offsets").tolist()
    names = [f"Client{number:04d}" for number in range(work.num_clients)]
    shares = {
        name: {"data": list(range(start, stop))}
        for name, start, stop in zip(names, offsets, offsets[1:], strict=False)
    }
    for folder in ("record", "log"):
        (home / folder).mkdir(parents=True)
    info = {"benchmark": _TASK, "scene": "horizontal", "num_clients": len(names)}
    (home / "info").write_text(json.dumps(info), encoding="utf-8")
    (home / "data.json").write_text(json.dumps({"client_names": names, **shares}), encoding="utf-8")


class QuietLogger(SimpleLogger):
    """Logger that evaluates nothing."""

    def log_once(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing where FLGo would evaluate."""


def timed(algorithm: Any, work: Worksheet, sheet: Sheet) -> Any:
    """Return an algorithm of FLGo whose server notes the time of each new model."""

    class Server(algorithm.Server):
        def sample(self) -> Any:
            if work.takes_turns:
                return work.turn(len(sheet.round_ended_at_s))
            return super().sample()

        def iterate(self) -> Any:
            is_new = super().iterate()
            if is_new is None or is_new:
                sheet.end_round()
            return is_new

    class Client(algorithm.Client):
        pass

    module: Any = types.ModuleType(algorithm.__name__)
    module.Server, module.Client = Server, Client
    return module


def main() -> None:
    """Run the work that the command line names."""
    work, sheet = Worksheet.read(sys.argv[1]), Sheet()
    sys.argv = sys.argv[:1]
    register_task(work)
    at_once = work.concurrency or work.cohort
    options: dict[str, Any] = {
        "num_rounds": work.rounds,
        # FLGo rounds the cohort down.
        "proportion": (at_once + 0.5) / work.num_clients,
        "sample": "uniform",
        # "other" is FLGo's word for weights in proportion to the numbers of samples.
        "aggregate": "other" if work.takes_turns else "uniform",
        "num_epochs": work.epochs,
        "batch_size": work.batch_size,
        "learning_rate": work.learning_rate,
        "train_holdout": 0.0,
        "eval_interval": 0,
        "seed": work.seed,
        "torch_num_threads": work.threads,
        "no_log_console": True,
        "no_tqdm": True,
    }
    algorithm = fedavg
    if work.concurrency is not None and work.buffer_size is not None:
        algorithm = fedbuff
        options["algo_para"] = [(work.buffer_size + 0.5) / work.num_clients, 1.0]
        options["responsiveness"] = _LATENCY
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "task"
        write_task(work, home)

        def network() -> Any:
            return work.network()

        # FLGo treats anything but a plain function as a class.
        model = flgo.convert_model(network, "exported")
        runner = flgo.init(
            str(home), timed(algorithm, work, sheet), options, model=model, Logger=QuietLogger
        )
        sheet.begin()
        runner.run()
        sheet.accuracy = work.accuracy(runner.model)
    sheet.write(work)


if __name__ == "__main__":
    main()
