"""Works of the benchmark: eight scenarios, and their description for the peers."""

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
    has_images: bool = False
    """True if convolutions dominate, whose speed depends on the layout of images."""
    has_text: bool = False
    """True if samples are texts; clients then have different numbers of them, and take turns."""

    @property
    def base(self) -> str:
        """Name in the results of the variant of fleetsim with which peers are compared."""
        return contestant_name(self.variants[0].name)


OURS = "fleetsim"


def contestant_name(variant: str) -> str:
    """Return the name of a variant of fleetsim in the results.

    >>> contestant_name(""), contestant_name("third")
    ('fleetsim', 'fleetsim-third')
    """
    return f"{OURS}-{variant}" if variant else OURS


WORKS = (
    Work("w1", "W1: 2NN, 10 of 100 clients x 600 Fashion-MNIST pictures, 5 epochs", 20, 0.02),
    Work(
        "w2",
        "W2: FedGRA CNN (1,663,370 parameters), data of W1, 1 epoch",
        6,
        0.15,
        has_images=True,
    ),
    Work("w3", "W3: logistic regression, 100 of 1,000 clients x 60 vectors, 5 epochs", 50, 0.03),
    Work(
        "w4",
        "W4: ResNet-18, 4 of 20 clients x 100 CIFAR-10 pictures, 1 epoch",
        4,
        None,
        has_images=True,
    ),
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
    Work(
        "w7",
        "W7: LSTM (two layers of 256), 20 of 100 roles of Shakespeare's plays, 1 epoch",
        6,
        0.05,
        has_text=True,
    ),
    Work(
        "w8",
        "W8: GPT-2 (two blocks of width 64), 10 of 50 articles of WikiText-2, bytes, 1 epoch",
        6,
        0.05,
        has_text=True,
    ),
)


@dataclass(frozen=True, slots=True)
class DataFolders:
    """Data folders that a scenario of the benchmark cannot name by itself."""

    own_data: Path
    """Folder for data that the benchmark generates."""
    cifar10: Path | None
    """Folder with CIFAR-10, as the published archive or as pictures; None: as fleetsim finds it."""
    wikitext2: Path | None
    """Folder with `valid.txt` and `test.txt` of WikiText-2; None: as fleetsim finds it."""


def changes_of(work: Work, folders: DataFolders, rounds: int) -> list[str]:
    """Return the `--set` overrides of a work; write the data that the benchmark generates."""
    changes = [f"stop.rounds={rounds}"]
    if work.name == "w3":
        changes.append(f"task.dataset.folder={write_w3(folders.own_data / W3_FOLDER)}")
    given = {"w4": folders.cifar10, "w8": folders.wikitext2}.get(work.name)
    if given is not None:
        changes.append(f"task.dataset.folder={given.resolve()}")
    return changes


def scenario_of(work: Work, changes: Sequence[str]) -> Scenario:
    """Load the scenario of a work."""
    return load(SCENARIOS / f"{work.name}.yaml", changes)


def sizes_of(work: Work, scenario: Scenario) -> dict[str, int]:
    """Return the sizes of a network for text, by the keys of the scenario; else an empty dict."""
    return scenario.task.model.model_dump(exclude={"kind"}) if work.has_text else {}


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
    if work.has_text:
        sheet |= {"sizes": sizes_of(work, scenario), "takes_turns": True}
    if isinstance(server, BufferedServerSettings):
        return sheet | {
            "cohort": server.buffer_size,
            "concurrency": server.concurrency,
            "buffer_size": server.buffer_size,
        }
    return sheet | {"cohort": work.cohort or server.cohort}
