"""Small fleet for calculations by hand: boards on a constant channel, one-second transfers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from fleetsim.contracts import (
    Aggregator,
    Evaluation,
    Job,
    JobResult,
    ModelCost,
    Parameters,
    ProbeRequest,
    Screen,
    Selector,
    State,
    StopReason,
    TaskRow,
    Trainer,
    Work,
    WorkKind,
)
from fleetsim.counts import Batching
from fleetsim.engine.servers.buffered import BufferedServer, BufferedSettings
from fleetsim.engine.servers.global_model import Learning
from fleetsim.engine.servers.parts import Parts
from fleetsim.engine.servers.server import Server
from fleetsim.engine.servers.stop import StopSettings
from fleetsim.engine.servers.synchronous import SynchronousServer, SynchronousSettings
from fleetsim.engine.servers.user_part import UserPart
from fleetsim.engine.servers.waiting_clients import EnergySettings
from fleetsim.fleet.devices.compute import unloaded_s
from fleetsim.fleet.devices.profile import load_device
from fleetsim.fleet.population import Fleet, build_fleet
from fleetsim.fleet.settings import FleetSettings
from fleetsim.learning.aggregation.asynchronous import FedBuffSettings
from fleetsim.learning.aggregation.uploads import (
    CompressedUplink,
    UncompressedSettings,
    refusal_reasons,
)
from fleetsim.learning.aggregation.weighted_mean import FedAvgSettings
from fleetsim.settings import Settings
from fleetsim.training.trainers import NullTrainer
from tests.engine.memory_recorder import MemoryRecorder

COST = ModelCost({"conv": 1e9}, num_parameters=1_000_000, payload_byte=1_000_000)
CONSTANT = {"kind": "constant", "down_bit_per_s": 8e6, "up_bit_per_s": 8e6}
PLAIN_RADIO = str(Path(__file__).parents[1] / "plain-radio.yaml")
"""Radio with the device's Wi-Fi watts at any rate, over `channel`."""
NANO_FILE = str(Path(__file__).with_name("jetson-nano-cpu.yaml"))
"""The Nano of timelines by hand, whatever the bundled file says."""
NANO = {NANO_FILE: 1.0}


def task_energies(row: Any) -> tuple[Any, ...]:
    """Return the joules of a task, or of the tasks of clients, in the order of `Component`."""
    parts = ("compute", "receive", "transmit", "tail", "idle")
    return tuple(getattr(row, f"energy_{part}_j") for part in parts)


def epochs_s(num: int = 1, num_samples: int = 100) -> float:
    """Time of local epochs on the Nano, in batches of 50."""
    work, samples = Work(WorkKind.TRAIN, epochs=num), np.array([num_samples])
    nano = load_device(NANO_FILE).compute
    return float(unloaded_s(nano, COST, work, num_samples=samples, batching=Batching(50))[0])


class FirstCome:
    """Selects the candidates with the lowest numbers, after given probes."""

    needs_losses = False
    needs_probes = False

    def __init__(self, probes: dict[int, list[ProbeRequest]] | None = None) -> None:
        self.probes = probes or {}
        self.views: list[Any] = []
        self.outcomes: list[Any] = []

    def setup(self, fleet):
        return []

    def probe(self, view):
        return self.probes.get(view.round, []) if view.stage == 0 else []

    def select(self, view):
        self.views.append(view)
        return view.candidates[: view.wanted]

    def observe(self, outcome):
        self.outcomes.append(outcome)

    def state(self):
        return {}

    def restore(self, state):
        pass


class KnownTrainer:
    """Client c adds c + 1 to every weight, whatever its data; keeps its jobs and results."""

    def __init__(self) -> None:
        self.given: list[Job] = []
        self.jobs: dict[int, Job] = {}
        self.computed: list[int] = []
        self.steps: list[int | None] = []

    def submit(self, job):
        ticket = len(self.given) + 1_000_000 * job.client
        self.given.append(job)
        self.jobs[ticket] = job
        return ticket

    def start(self, tickets):
        assert all(ticket in self.jobs for ticket in tickets)

    def results(self, tickets):
        done = []
        for ticket in tickets:
            job = self.jobs.pop(ticket)
            self.computed.append(job.client)
            self.steps.append(job.most_steps)
            vector = job.base + self.change(job)
            epoch_losses = (1.5, 0.5) if job.work.tells_epoch_losses else None
            done.append(JobResult(1, 0.5, 0.5, vector=vector, epoch_losses=epoch_losses))
        return done

    def change(self, job):
        """Return the change of a client."""
        return np.float32(job.client + 1)

    def cancel(self, ticket):
        del self.jobs[ticket]

    def evaluate(self, parameters):
        return Evaluation(accuracy=None, loss=float(parameters[0]))

    def validate(self, parameters):
        return None


class RateTrainer(KnownTrainer):
    """Every client adds the learning rate that its job has."""

    def change(self, job):
        return np.float32(job.learning_rate)


@dataclass
class Tiny:
    """Run with simple defaults; a test changes what it is about, then calls `run()`.

    All clients transfer over `channel` with a plain radio, unless it names another, and without a
    transport protocol.
    """

    folder: Path
    devices: dict[str, float] = field(default_factory=lambda: dict(NANO))
    size: int = 4
    samples: list[int] | None = None
    channel: dict[str, Any] = field(default_factory=lambda: dict(CONSTANT))
    shared_links: dict[str, Any] | None = None
    network: dict[str, Any] | None = field(default_factory=lambda: {"kind": "by-usage"})
    wifi: dict[str, Any] = field(default_factory=dict)
    heterogeneity: dict[str, Any] = field(default_factory=dict)
    transport: dict[str, Any] = field(default_factory=lambda: {"kind": "none"})
    usage: dict[str, Any] = field(default_factory=dict)
    battery: dict[str, Any] = field(default_factory=dict)
    thermal: dict[str, Any] = field(default_factory=lambda: {"kind": "none"})
    memory: dict[str, Any] = field(default_factory=lambda: {"kind": "unchecked"})
    crash_per_hour: float = 0.0
    server: dict[str, Any] | Settings = field(default_factory=lambda: {"cohort": 2})
    stop: dict[str, Any] | Settings = field(default_factory=lambda: {"rounds": 1})
    selector: Selector = field(default_factory=FirstCome)
    user: UserPart | None = None
    """Name of the selector if it counts as one of the user's own."""
    idle: str = "not_charged"
    """Charge for waiting; most tests are about tasks alone."""
    seed: int = 1
    cost: ModelCost = COST
    screen: Screen = refusal_reasons
    epochs: int = 1
    steps: int | None = None
    partial_fraction: float = 0.0
    parameters: Parameters = field(default_factory=lambda: np.zeros(3, dtype=np.float32))
    learning_rate_at: Callable[[int], float] = lambda _: 0.1
    trainer: Trainer | None = None
    aggregator: Aggregator = field(default_factory=lambda: FedBuffSettings().build())
    recorder: MemoryRecorder = field(default_factory=MemoryRecorder)

    def trace(self, text: str, span_s: int) -> None:
        """Give all clients the states of one user.

        A line is `t_s,online,charging,unmetered,load`, then `ram_byte` if in all of them.
        """
        self.traces({"u": text}, span_s)

    def traces(self, texts: Mapping[str, str], span_s: int) -> None:
        """Give clients the states of several users, by name; lines are as for `trace`."""
        home = self.folder / "trace"
        home.mkdir(exist_ok=True)
        rows = [f"{user},{line}" for user, text in texts.items() for line in text.split()]
        columns = ["user", "t_s", "online", "charging", "unmetered", "load", "ram_byte"]
        header = ",".join(columns[: rows[0].count(",") + 1])
        (home / "states.csv").write_text("\n".join([header, *rows, ""]), encoding="utf-8")
        users = ["user,span_s", *(f"{user},{span_s}" for user in texts), ""]
        (home / "users.csv").write_text("\n".join(users), encoding="utf-8")
        self.usage = {"trace": str(home), "shift": "none", "kinds": ["phone", "board", "vm"]}

    def varied(self) -> None:
        """Give the run eight phones and boards of different speed, whose owners come and go."""
        self.devices = {"pixel-6": 0.5, NANO_FILE: 0.5}
        self.channel = {"kind": "fading"}
        self.size, self.samples = 8, [50, 400, 120, 80, 300, 60, 90, 200]
        self.crash_per_hour = 4.0
        self.trace("0,1,0,1,0 130,1,1,1,0.3 500,0,0,1,0 560,1,0,0,0.1", span_s=700)

    def fleet(self) -> Fleet:
        keys = "size devices network transport heterogeneity shared_links usage battery thermal"
        given = {key: getattr(self, key) for key in (*keys.split(), "memory", "crash_per_hour")}
        given["channel"] = {"unmetered_radio": PLAIN_RADIO, **self.channel}
        given["wifi"] = {"kind": "indoor", **self.wifi}
        settings = FleetSettings.model_validate(given)
        samples = self.samples or [100] * self.size
        return build_fleet(settings, seed=self.seed, num_samples=np.array(samples, dtype=np.int64))

    def parts(self, trainer: Trainer | None, aggregator: Aggregator) -> Parts:
        fleet = self.fleet()
        return Parts(
            fleet=fleet,
            learning=Learning(
                parameters=self.parameters,
                cost=self.cost,
                training=Work(WorkKind.TRAIN, epochs=self.epochs, steps=self.steps),
                partial_fraction=self.partial_fraction,
                batching=Batching(50),
                learning_rate_at=self.learning_rate_at,
                upload_byte=self.cost.payload_byte,
                trainer=trainer or NullTrainer(fleet.num_samples),
                uplink=CompressedUplink(UncompressedSettings(), seed=self.seed),
                screen=self.screen,
                aggregator=aggregator,
            ),
            selector=self.selector,
            user_selector=self.user,
            recorder=self.recorder,
            energy=EnergySettings.model_validate({"idle": self.idle}),
            seed=self.seed,
        )

    def build(self, state: State | None = None) -> SynchronousServer:
        return SynchronousServer(
            SynchronousSettings.model_validate(self.server),
            StopSettings.model_validate(self.stop),
            self.parts(self.trainer, FedAvgSettings().build()),
            state=state,
        )

    def build_buffered(self, state: State | None = None) -> BufferedServer:
        return BufferedServer(
            BufferedSettings.model_validate(self.server),
            StopSettings.model_validate(self.stop),
            self.parts(self.trainer or KnownTrainer(), self.aggregator),
            state=state,
        )

    def run(self, **changes: Any) -> StopReason:
        """Change some of these attributes, then run."""
        for name, value in changes.items():
            assert hasattr(self, name)
            setattr(self, name, value)
        is_buffered = isinstance(self.server, BufferedSettings) or "concurrency" in dict(
            self.server
        )
        self.server_ran = self.build_buffered() if is_buffered else self.build()
        return self.server_ran.run()

    def rows(self, **changes: Any) -> list[TaskRow]:
        """Change some of these attributes and run; return the rows of all tasks so far."""
        self.run(**changes)
        return self.recorder.tasks


def goes_on(
    tiny: Tiny, new: Callable[[State | None], Server], after: Sequence[int]
) -> MemoryRecorder:
    """Check that runs resumed after these rounds record the rest, and return the whole record.

    `new` builds a server at a state, anew with all that a run changes.
    """
    whole = tiny.recorder = MemoryRecorder()
    server = new(None)
    server.run()
    clients = next(server.clients())
    for round_ in after:
        rest = tiny.recorder = MemoryRecorder()
        resumed = new(whole.states[round_ - 1])
        resumed.run()
        again = next(resumed.clients())

        assert rest.rounds == whole.rounds[round_:]
        assert rest.tasks == [row for row in whole.tasks if row.round > round_]
        for column in fields(clients):
            name = column.name
            np.testing.assert_array_equal(getattr(again, name), getattr(clients, name), name)
    return whole
