"""Works of the benchmark: six scenarios, and their description for the peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.own_data import W3_FOLDER, write_w3
from fleetsim.scenario import BufferedServerSettings, Scenario, load

SCENARIOS = Path(__file__).parent / "scenarios"


@dataclass(frozen=True, slots=True)
class Variant:
    """Variant of a work in fleetsim; peers have one variant only."""

    name: str
    label: str
    changes: tuple[str, ...] = ()
    """Overrides, `KEY=VALUE` each, as for `--set`."""


PLAIN = Variant("", "fleetsim")


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the benchmark: a scenario and the number of its rounds."""

    name: str
    """Name, also that of its scenario."""
    title: str
    rounds: int
    """Number of rounds, unless the command line gives another."""
    tolerance: float | None
    """Largest difference of final accuracies of equal work; None: the run is too short to tell."""
    variants: tuple[Variant, ...] = (PLAIN,)
    cohort: int | None = None
    """Clients that a peer trains in a round; None: the scenario's cohort."""
    is_asynchronous: bool = False
    """True if the work needs a server that aggregates updates as they arrive."""


WORKS = (
    Work("w1", "W1: 2NN, 10 of 100 clients x 600 Fashion-MNIST pictures, 5 epochs", 20, 0.02),
    Work("w2", "W2: FedGRA CNN (1,663,370 parameters), data of W1, 1 epoch", 6, 0.15),
    Work("w3", "W3: logistic regression, 100 of 1,000 clients x 60 vectors, 5 epochs", 50, 0.03),
    Work("w4", "W4: ResNet-18, 4 of 20 clients x 100 CIFAR-10 pictures, 1 epoch", 4, None),
    Work(
        "w5",
        "W5: W1 with 15 clients dispatched, of which some are dropped",
        20,
        None,
        variants=(
            Variant("0", "fleetsim, none dropped", ("server.cohort=15", "server.over_commit=1.0")),
            Variant(
                "fifth", "fleetsim, 1/5 dropped", ("server.cohort=12", "server.over_commit=1.25")
            ),
            Variant(
                "third", "fleetsim, 1/3 dropped", ("server.cohort=10", "server.over_commit=1.5")
            ),
        ),
        cohort=15,
    ),
    Work(
        "w6",
        "W6: FedBuff, 50 of 200 clients at work, buffers of 10, 2NN",
        30,
        None,
        is_asynchronous=True,
    ),
)


@dataclass(frozen=True, slots=True)
class DataFolders:
    """Data folders that a scenario of the benchmark cannot name by itself."""

    own_data: Path
    """Folder for data that the benchmark generates."""
    cifar10: Path | None
    """Folder with CIFAR-10, as the published archive or as pictures; None: as fleetsim finds it."""


def changes_of(work: Work, folders: DataFolders, rounds: int) -> list[str]:
    """Return the `--set` overrides of a work; write the data that the benchmark generates."""
    changes = [f"stop.rounds={rounds}"]
    if work.name == "w3":
        changes.append(f"task.dataset.folder={write_w3(folders.own_data / W3_FOLDER)}")
    if work.name == "w4" and folders.cifar10 is not None:
        changes.append(f"task.dataset.folder={folders.cifar10.resolve()}")
    return changes


def scenario_of(work: Work, changes: Sequence[str]) -> Scenario:
    """Load the scenario of a work."""
    return load(SCENARIOS / f"{work.name}.yaml", changes)


def worksheet_of(work: Work, scenario: Scenario, *, data: Path) -> dict[str, object]:
    """Return the fields of `peers.worksheet.Worksheet` that do not depend on the contestant."""
    local, server = scenario.task.local, scenario.server
    sheet: dict[str, object] = {
        "data": str(data),
        "model": scenario.task.model.kind,
        "epochs": local.epochs,
        "batch_size": local.batch_size,
        "learning_rate": local.optimizer.learning_rate,
        "rounds": scenario.stop.rounds,
    }
    if isinstance(server, BufferedServerSettings):
        return sheet | {
            "cohort": server.buffer_size,
            "concurrency": server.concurrency,
            "buffer_size": server.buffer_size,
        }
    return sheet | {"cohort": work.cohort or server.cohort}
