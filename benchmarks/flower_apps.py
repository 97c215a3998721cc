"""Flower apps on fleetsim's clock beside Flower's own simulation: accuracy and host time.

    python -m benchmarks.flower_apps                                # the example apps of the tests
    python -m benchmarks.flower_apps path/to/app --clients 30 --runs 5 --rounds 20

Needs `pip install 'flwr[simulation]'`. Both run the app unchanged with as many clients, in turn,
each in a process of its own. fleetsim trains clients one at a time in its own process, Flower's
simulation in a process of Ray for every core. There draws are unseeded; here the seeds are 1, 2 ...
Both sides are watched in Flower's own code: when it begins rounds, and what it measures last.
"""

from __future__ import annotations

import argparse
import copy
import functools
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from scipy import stats

from benchmarks import processes

ROOT = Path(__file__).resolve().parents[1]
APPS = tuple(
    f"tests/flower/apps/{name}"
    for name in ("torch_quickstart", "adam_central", "federated_metrics")
)
OURS, FLOWERS = "fleetsim", "flower"
_FLEET = ("fleet.usage={trace: null}",)
_ROUNDS = "num-server-rounds"
_KJ = 1000.0
_TIMEOUT_S = 900.0

Figures = Mapping[str, Any]


@dataclass
class Seen:
    """Host times of rounds on Flower's server side, and what it measured last."""

    began_s: list[float] = field(default_factory=list)
    """Host time at which each round began to choose its clients."""
    ended_s: float = math.nan
    metrics: dict[str, Any] = field(default_factory=dict)
    """Metrics of the server app itself in the last round, or else those of the clients."""

    @property
    def round_s(self) -> list[float]:
        """Host seconds of each round."""
        marks = [*self.began_s, self.ended_s]
        return [after - before for before, after in itertools.pairwise(marks)]


@contextmanager
def watched() -> Iterator[Seen]:
    """Watch strategies of Flower within the block, those of before the message API too."""
    from fleetsim.flower import versions  # noqa: PLC0415

    seen = Seen()
    strategy_class = versions.module("flwr.serverapp.strategy.strategy").Strategy
    older = versions.module("flwr.server.compat.app")
    start, run_fl = strategy_class.start, older.run_fl

    def marking(configure: Callable[..., Any]) -> Callable[..., Any]:
        def marked(*args: Any, **kwargs: Any) -> Any:
            seen.began_s.append(time.perf_counter())
            return configure(*args, **kwargs)

        return marked

    @functools.wraps(start)
    def watching_start(strategy: Any, *args: Any, **kwargs: Any) -> Any:
        with mock.patch.object(strategy, "configure_train", marking(strategy.configure_train)):
            result = start(strategy, *args, **kwargs)
        seen.ended_s = time.perf_counter()
        found = result.evaluate_metrics_serverapp or result.evaluate_metrics_clientapp
        seen.metrics = dict(found[max(found)])
        return result

    def watching_run_fl(server: Any, config: Any) -> Any:
        with mock.patch.object(
            server.strategy, "configure_fit", marking(server.strategy.configure_fit)
        ):
            history = run_fl(server=server, config=config)
        seen.ended_s = time.perf_counter()
        found = history.metrics_centralized or history.metrics_distributed
        seen.metrics = {name: values[-1][1] for name, values in found.items()}
        return history

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(strategy_class, "start", watching_start))
        stack.enter_context(mock.patch.object(older, "run_fl", watching_run_fl))
        yield seen


def ours(app: str, clients: int, seed: int, rounds: int, scenario: str) -> dict[str, Any]:
    """Run the app on fleetsim's clock and return what it took."""
    from fleetsim import scenario as scenarios  # noqa: PLC0415
    from fleetsim.flower import running  # noqa: PLC0415
    from fleetsim.flower.app import read_app  # noqa: PLC0415
    from fleetsim.run_settings import RunFolderSettings  # noqa: PLC0415

    settings = [*_FLEET, f"fleet.size={clients}"]
    loaded = scenarios.load(scenario, settings, seed=seed)
    with tempfile.TemporaryDirectory() as folder, watched() as seen:
        out = Path(folder) / "run"
        run = running.run(
            app, loaded, RunFolderSettings(out=out), run_config=[f"{_ROUNDS}={rounds}"]
        )
        accuracy = read_app(app).settings.accuracy_of(seen.metrics)
        in_table = run.rounds["accuracy"].iloc[-1]
        if accuracy != in_table:
            raise ValueError(f"{app}: Flower says {accuracy!r}, the rounds table {in_table!r}")
        return {
            "accuracy": accuracy,
            "round_s": seen.round_s,
            "virtual_s": run.manifest.virtual_s,
            "energy_j": run.rounds["energy_total_j"].iloc[-1],
            "digest": run.manifest.digest,
        }


def flowers(app: str, clients: int, rounds: int) -> dict[str, Any]:
    """Run the app in Flower's simulation and return what it took."""
    from flwr.clientapp import ClientApp  # noqa: PLC0415
    from flwr.serverapp import ServerApp  # noqa: PLC0415
    from flwr.simulation import run_simulation  # noqa: PLC0415

    from fleetsim.flower import versions  # noqa: PLC0415
    from fleetsim.flower.app import read_app  # noqa: PLC0415

    described = read_app(app, [f"{_ROUNDS}={rounds}"])
    load = versions.module("flwr.supercore.object_ref", "flwr.common.object_ref").load_app
    server_app = load(described.server_app, ImportError, described.folder)
    config, path, reference = described.config, str(described.folder), described.client_app

    class Client(ClientApp):  # type: ignore[misc]  # flwr is an extra
        """The app's client with its configuration, loaded in Ray's process."""

        def __call__(self, message: Any, context: Any) -> Any:
            # Flower refuses a changed configuration; the state is shared with the copy.
            configured = copy.copy(context)
            configured.run_config = config
            return load(reference, ImportError, path)(message, configured)

    server = ServerApp()

    @server.main()  # type: ignore[untyped-decorator]  # flwr is an extra
    def main(grid: Any, context: Any) -> None:
        context.run_config = config
        server_app(grid, context)

    with watched() as seen:
        run_simulation(
            server_app=server,
            client_app=Client(),
            num_supernodes=clients,
            backend_config={"client_resources": {"num_cpus": 1}},
        )
    accuracy = described.settings.accuracy_of(seen.metrics)
    return {"accuracy": accuracy, "round_s": seen.round_s}


def difference_interval(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the difference of two means, one less other (Welch's t)."""
    found = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    return float(found.low), float(found.high)


def tables(results: Sequence[Figures]) -> str:
    """Return the Markdown tables of accuracies and of times, a row for each app in both."""
    accuracies = [
        "| app | accuracy, fleetsim | accuracy, Flower | difference, 95 % | virtual s | kJ |",
        "|---|---|---|---|---|---|",
    ]
    times = [
        "| app | s a round, fleetsim | Flower | s in all, fleetsim | Flower | CPU s, fleetsim |"
        " Flower |",
        "|---|---|---|---|---|---|---|",
    ]
    for app in dict.fromkeys(result["app"] for result in results):
        sides = [
            [each for each in results if each["app"] == app and each["of"] == side]
            for side in (OURS, FLOWERS)
        ]
        found = [[each["accuracy"] for each in side] for side in sides]
        low, high = difference_interval(*found)
        cells = [
            Path(app).name,
            *(f"{statistics.mean(each):.3f} +- {statistics.stdev(each):.3f}" for each in found),
            f"{low:+.3f} to {high:+.3f}",
            f"{statistics.mean(each['virtual_s'] for each in sides[0]):.0f}",
            f"{statistics.mean(each['energy_j'] for each in sides[0]) / _KJ:.2f}",
        ]
        accuracies.append(_row(cells))
        rounds_s = [[second for each in side for second in each["round_s"]] for side in sides]
        cells = [
            Path(app).name,
            *(f"{statistics.median(seconds):.2f}" for seconds in rounds_s),
            *(_median(side, name) for name in ("process_s", "cpu_s") for side in sides),
        ]
        times.append(_row(cells))
    return "\n".join([*accuracies, "", *times])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _median(results: Sequence[Figures], name: str) -> str:
    return f"{statistics.median(each[name] for each in results):.0f}"


def check_repeated(results: Sequence[Figures]) -> None:
    """Check that runs of one app and seed have the same digest.

    Raises:
        ValueError: they have not.
    """
    digests: dict[tuple[str, int], str] = {}
    for each in results:
        if each["of"] == OURS:
            digest = digests.setdefault((each["app"], each["seed"]), each["digest"])
            if digest != each["digest"]:
                raise ValueError(f"{each['app']}, seed {each['seed']}: two digests")


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of an app on one side."""

    app: str
    of: str
    seed: int
    repeat: int
    clients: int
    rounds: int
    scenario: str


def plans(apps: Sequence[str], num_runs: int, **shared: Any) -> list[Plan]:
    """Return all runs: both sides in turn with each seed, and the first seed here once more."""
    found = []
    for app in apps:
        for seed in range(1, num_runs + 1):
            found += [Plan(app, side, seed, 1, **shared) for side in (OURS, FLOWERS)]
        found.append(Plan(app, OURS, 1, 2, **shared))
    return found


def measured(plan: Plan) -> dict[str, Any]:
    """Return what a run took, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.flower_apps", plan.app, "--only", plan.of]
    command += ["--clients", str(plan.clients), "--rounds", str(plan.rounds)]
    command += ["--scenario", plan.scenario, "--seed", str(plan.seed)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(plan.app))])}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        ended = processes.run(
            command, environment=environment, folder=ROOT, log=log, timeout_s=_TIMEOUT_S
        )
        said = log.read_text("utf-8", errors="replace")
    lines = [line for line in said.splitlines() if line.startswith("RESULT ")]
    if ended.returncode != 0 or not lines:
        raise SystemExit(f"{plan.app} on {plan.of} failed:\n{said[-3000:]}")
    found: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
    return {
        **asdict(plan),
        "load": load,
        "process_s": ended.ended_at_s - ended.started_at_s,
        "cpu_s": ended.samples[-1].cpu_s,
        **found,
    }


def main() -> None:
    """Run all apps on both sides, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("apps", nargs="*", default=list(APPS))
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5, help="runs of each app on each side, from 2")
    parser.add_argument("--scenario", default="quickstart")
    parser.add_argument(
        "--results", type=Path, default="flower-apps.jsonl", help="runs in it are not repeated"
    )
    parser.add_argument("--only", choices=(OURS, FLOWERS), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        [app] = given.apps
        done = (
            ours(app, given.clients, given.seed, given.rounds, given.scenario)
            if given.only == OURS
            else flowers(app, given.clients, given.rounds)
        )
        print("RESULT", json.dumps(done))
        return
    path: Path = given.results
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    results = []
    for plan in plans(
        given.apps, given.runs, clients=given.clients, rounds=given.rounds, scenario=given.scenario
    ):
        found = next((each for each in kept if asdict(plan).items() <= each.items()), None)
        if found is None:
            found = measured(plan)
            with path.open("a") as file:
                file.write(json.dumps(found) + "\n")
        results.append(found)
    check_repeated(results)
    loads = [result["load"] for result in results]
    print(f"{tables([result for result in results if result['repeat'] == 1])}\n")
    print(
        f"All digests of seed 1 are the same twice. Load before a run: {min(loads)} to {max(loads)}"
    )


if __name__ == "__main__":
    main()
