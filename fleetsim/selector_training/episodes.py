"""Selectors that learn over episodes: runs in a row, each of which continues what the last learned.

Episode e runs the scenario with seed `first_seed` + e. Weights that name clients by number are
learned on the scenario's own clients (`fleet.seed`), others on new clients in every episode. All
that was learned is saved after each as `FILE.training`, from which a training can go on.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fleetsim.contracts import FleetView, LearningSelector, ProbeRequest, Progress, State
from fleetsim.contracts.recording import joined, part_of
from fleetsim.errors import ScenarioError
from fleetsim.quoting import quoted
from fleetsim.record import atomic_files
from fleetsim.record.saved_run import Run
from fleetsim.scenario import Scenario
from fleetsim.schema import overrides
from fleetsim.selector_training.weight_writing import existing_file, write_weights
from fleetsim.selectors.learned_weights import ANY_CLIENTS, WeightFile

_RESTART = "delete it to begin anew, or choose another file with --out"


class Episode(NamedTuple):
    """Result of one episode."""

    seed: int
    rounds: int
    virtual_s: float
    energy_j: float
    accuracy: float | None
    """Accuracy on the test set after the last round; None without training."""
    host_s: float


@dataclass(frozen=True, slots=True)
class Training:
    """Training of a selector."""

    episodes: tuple[Episode, ...]
    file: WeightFile


def train_by_episodes(
    scenario: Scenario,
    *,
    episodes: int,
    first_seed: int,
    out: Path,
    command: str,
    workers: int | None = None,
    on_progress: Callable[[int, Progress], None] = lambda number, progress: None,
    on_episode: Callable[[int, Episode], None] = lambda number, episode: None,
) -> Training:
    """Train the scenario's selector over episodes, and write its weights.

    `episodes` includes finished ones of an earlier call. `command` is the command line, for the
    record. The callbacks get the number of the episode from 1.
    """
    kind = scenario.server.selector.kind
    base = learning(scenario)
    clients = ANY_CLIENTS
    if getattr(type(base.server.selector), "weights_are_for", "") != "any clients":
        # Clients that stay the same when the seed changes.
        base = base.with_clients_seed(base.clients_seed)
        clients = base.clients_hash
    saved = out.with_name(f"{out.name}.training")
    identity = overrides.content_hash(
        {"scenario": base.with_seed(0).content_hash, "first_seed": first_seed}
    )
    done, learned, policy = _saved(saved, kind, clients, identity)
    for number in range(len(done), episodes):
        inner: Any = base.build_selector()
        scenario_of_episode = base.with_seed(first_seed + number)
        selector = _Continued(inner, learned)
        run = _run_episode(scenario_of_episode, selector, workers, partial(on_progress, number + 1))
        learned, policy = inner.learned(), inner.policy()
        done.append(_episode_of(run))
        state = learned | joined({"policy": policy})
        facts = {"identity": identity, "episodes": json.dumps(done)}
        data = WeightFile(kind, {clients: state}, facts).encoded()
        atomic_files.write(saved, data, hint="choose another file with --out")
        on_episode(number + 1, done[-1])
    facts = {
        "command": command,
        "scenario": base.name,
        "scenario_hash": base.content_hash,
        "first_seed": str(first_seed),
        "episodes": str(len(done)),
        "training_virtual_s": repr(sum(episode.virtual_s for episode in done)),
        "training_energy_j": repr(sum(episode.energy_j for episode in done)),
        "training_host_s": repr(sum(episode.host_s for episode in done)),
    }
    return Training(tuple(done), write_weights(out, kind, {clients: policy}, facts))


def learning(scenario: Scenario) -> Scenario:
    """Return the scenario with its selector learning, and without weights from before."""
    settings = scenario.server.selector
    if "learning" not in type(settings).model_fields:
        raise ScenarioError(
            f"server.selector.kind = {quoted(settings.kind)} does not learn over episodes; choose"
            " favor, fedmarl or autofl"
        )
    return scenario.with_selector_settings({"learning": True, "weights": None})


def _run_episode(
    scenario: Scenario,
    selector: Any,
    workers: int | None,
    on_progress: Callable[[Progress], None],
) -> Run:
    # Imported here: it loads torch, which the check of arguments does not need.
    from fleetsim.simulate import run  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="fleetsim-episode-") as home:
        made = run(
            scenario,
            out=Path(home) / "run",
            workers=workers,
            selector=selector,
            on_progress=on_progress,
        )
        made.rounds  # noqa: B018  (read before the folder goes)
        return made


def _episode_of(run: Run) -> Episode:
    rounds = run.rounds
    accuracy = rounds["accuracy"].dropna()
    return Episode(
        seed=run.manifest.seed,
        rounds=len(rounds),
        virtual_s=run.manifest.virtual_s,
        energy_j=float(rounds["energy_total_j"].iloc[-1]) if len(rounds) else 0.0,
        accuracy=float(accuracy.iloc[-1]) if len(accuracy) else None,
        host_s=run.manifest.host_s,
    )


def _saved(
    path: Path, kind: str, clients: str, identity: str
) -> tuple[list[Episode], State | None, State]:
    """Return the finished episodes of an earlier call, what they have learned, and the policy."""
    file = existing_file(path, kind)
    if file is None:
        return [], None, {}
    if file.facts.get("identity") != identity or clients not in file.weights:
        raise ScenarioError(f"{path}: is of a training with other settings or seeds; {_RESTART}")
    episodes = [Episode(*row) for row in json.loads(file.facts["episodes"])]
    state = file.weights[clients]
    learned = {key: array for key, array in state.items() if not key.startswith("policy/")}
    return episodes, learned, part_of(state, "policy")


class _Continued:
    """Selector that takes up what earlier episodes have learned; the rest is the inner one's."""

    def __init__(self, inner: LearningSelector, learned: State | None) -> None:
        self._inner, self._learned = inner, learned

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def setup(self, fleet: FleetView) -> Sequence[ProbeRequest]:
        requests = self._inner.setup(fleet)
        if self._learned is not None:
            self._inner.take_up(self._learned)
        return requests
