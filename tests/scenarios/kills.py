"""Runs that are killed and resumed, against runs that were never killed.

    python -m tests.scenarios.kills --kills 100

Processes of `fleetsim run` with two processes that train and a checkpoint after every round are
killed by SIGKILL at addressed random moments, resumed, and maybe killed again. The digests of all
tables must be those of a run of one process that was left alone.
"""

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fleetsim import rng
from fleetsim.record.manifest import read_manifest
from fleetsim.scenario import load
from fleetsim.simulate import run

ROOT = Path(__file__).parents[2]
ROUNDS = 6
MOST_S = 240.0
"""Most seconds of a process, and of the end of what it started."""

_PEOPLE = "fleet.usage={trace: people-week, starts_at_s: 25200}"
_SLOW = "task.local.epochs=40"
BATTERY = (
    "fleet.battery={capacity_wh: 0.5, charge_w: 2.5, charging: {kind: cc-cv}, everyday: {},"
    " discharging: {kind: resistive}}"
)
HEAT = "fleet.thermal={kind: skin, time_constant_s: 0.2, ambient_c: 35}"
PARTIAL = ("server.interruption={kind: partial, weight: processed}",)
PAUSE = (
    "server={mode: buffered, concurrency: 6, buffer_size: 3}",
    "server.interruption={kind: pause, max_pause_s: 300, resume_s: 1, transfers: restart}",
)


class Kind(NamedTuple):
    """Scenario, changes of its keys, and parts of the user's own."""

    scenario: str
    changes: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def _learned(selector: str) -> Kind:
    changes = (f"server.selector={{kind: {selector}}}", "evaluate.validation_fraction=0.1")
    return Kind("quickstart", changes)


def _buffered(concurrency: int, size: int, *more: str) -> Kind:
    changes = (f"server.concurrency={concurrency}", f"server.buffer_size={size}", *more)
    return Kind("quickstart-fedbuff", changes)


KINDS = {
    "fedavg, deadline, over-commit": Kind("quickstart", ("server.over_commit=1.5",)),
    "fedbuff": _buffered(6, 3),
    "fedasync": _buffered(5, 1, "server.aggregator={kind: fedasync}"),
    "scaffold": Kind("digits-scaffold", (_SLOW,)),
    "feddyn": Kind("digits-feddyn", (_SLOW,)),
    "ditto": Kind("digits-ditto", (_SLOW,)),
    "fedgcs": _learned("fedgcs, warm_up_rounds: 2, refit_rounds: 1, hidden: 16, embedding: 8"),
    "fedmarl": _learned("fedmarl, batch_size: 2, sync_every_rounds: 2"),
    "favor": _learned(
        "favor, batch_size: 2, components: 3, hidden: 16, sync_in: rounds, sync_every: 2"),
    "autofl": _learned("autofl, exploration: 0.5"),
    "fedcor": _learned("fedcor"),
    "gpfl": _learned("gpfl"),
    "central privacy": Kind("quickstart-private", ("server.cohort=10",)),
    "secagg": Kind("quickstart", ("server.secure_aggregation={kind: secagg}",)),
    "top-k, error feedback, fedadam": Kind("quickstart", (
        "server.compression={kind: top-k, fraction: 0.1, error_feedback: true}",
        "server.aggregator={kind: fedadam, learning_rate: 0.01}")),
    "8 bit, fedyogi, buffered oort": Kind("quickstart-fedbuff", (
        "server.selector={kind: oort}", "server.compression={kind: quantise-8bit}",
        "server.aggregator={kind: fedyogi, learning_rate: 0.01}")),
    "own selector, network, loss, aggregator": Kind("quickstart", plugins=tuple(
        f"tests.scenarios.user_parts:{part}" for part in ("LeastAsked", "Net", "brier", "Momentum")
    )),
    "own training": Kind("digits-feddyn", (_SLOW,), ("tests.scenarios.user_parts:Drift",)),
    "batteries of people": Kind("quickstart", (
        _PEOPLE, BATTERY, "server.deadline_s=60", "task.partition.min_samples=2")),
    "heat, doubt about devices": _buffered(
        6, 3, HEAT, "fleet.uncertainty={inferred: 0.3, measured: 0.05}"),
    "interruptions, partial updates": Kind("interruptions", (*PARTIAL, "task.local.batch_size=8")),
    "interruptions, fedbuff, pause": Kind("interruptions", (*PAUSE, "task.local.batch_size=8")),
}  # fmt: skip


class Kill(NamedTuple):
    """Moment and extent of a kill."""

    after_round: int
    """Rounds in the newest checkpoint; -1: before the run began."""
    while_writing: bool
    """True: after that, a file under its temporary name is waited for."""
    delay_s: float
    is_group: bool
    """True: processes that train are killed with the one that started them."""


class Result(NamedTuple):
    """Kills and digests of one run."""

    kills: tuple[Kill, ...]
    """Those that met the run at work."""
    digests: dict[str, str]


def moments(kind: str, number: int) -> list[Kill]:
    """Return the kills of the run of this number, in their order."""
    draws = rng.stream(number, f"kills/{kind}")
    done, kills = -1, []
    for _ in range(int(draws.integers(1, 5))):
        done = int(draws.integers(done, ROUNDS - 1))
        while_writing = bool(draws.random() < 0.4)
        most_s = 0.003 if while_writing else 6.0 if done < 0 else 0.05
        kills.append(Kill(done, while_writing, draws.uniform(0.0, most_s), draws.random() < 0.5))
    return kills


def undisturbed(kind: str, out: Path) -> dict[str, str]:
    """Return the digests of a run that is left alone, in this process."""
    chosen = KINDS[kind]
    scenario = load(chosen.scenario, _changes(chosen), plugin=chosen.plugins)
    return _digests(run(scenario, out=out, workers=1).folder)


def killed(kind: str, number: int, out: Path) -> Result:
    """Kill a run at its moments, and resume it until it ends.

    Raises:
        AssertionError: a process failed, or left another one behind.
    """
    met, sessions = [], set()
    for kill in (*moments(kind, number), None):
        with _started(kind, out) as process:
            sessions.add(process.pid)
            if kill is None:
                process.wait(MOST_S)
            else:
                _wait(process, out, kill)
            if kill is not None and process.poll() is None:
                (os.killpg if kill.is_group else os.kill)(process.pid, signal.SIGKILL)
        if kill is None or process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, f"{kind}, number {number}: {_log(out).read_text()}"
            break
        met.append(kill)
    _wait_for_the_end_of(sessions)
    return Result(tuple(met), _digests(out))


def num_rounds_saved(out: Path) -> int:
    """Rounds in the newest checkpoint: 0 of a run that has begun, -1 of one that has not."""
    newest = out / "checkpoint" / "latest.json"
    if newest.exists():
        state = json.loads(newest.read_text())["state"]["file"]
        return int(state.removeprefix("state-").removesuffix(".npz"))
    return 0 if (out / "manifest.json").exists() else -1


def _changes(kind: Kind) -> list[str]:
    """Return changes that make a run small; the kind's own are the last."""
    small = ["fleet.size=24", "checkpoint.every_rounds=1", f"stop={{rounds: {ROUNDS}}}"]
    if "digits" not in kind.scenario:
        small.append("task.partition.min_samples=2")
    if "fedbuff" not in kind.scenario:
        small.append("server.cohort=4")
    return [*small, *kind.changes]


@contextmanager
def _started(kind: str, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Process of a run, the leader of a session, which begins or resumes; ended with the block."""
    chosen = KINDS[kind]
    words = [*(sys.executable, "-m", "fleetsim", "run", chosen.scenario, "--out", str(out))]
    words += ["--workers", "2", "--no-report", "--resume"]
    words += [f"--set={change}" for change in _changes(chosen)]
    words += [f"--plugin={name}" for name in chosen.plugins]
    with _log(out).open("w") as log:
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True, cwd=ROOT
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _log(out: Path) -> Path:
    return out.with_name(f"{out.name}.txt")


def _wait(process: subprocess.Popen[bytes], out: Path, kill: Kill) -> None:
    """Wait for the moment of a kill, or the end of the process."""
    until_s = time.monotonic() + MOST_S
    while process.poll() is None and num_rounds_saved(out) < kill.after_round:
        assert time.monotonic() < until_s
        time.sleep(0.001)
    while kill.while_writing and process.poll() is None and not _is_writing(out):
        assert time.monotonic() < until_s
    time.sleep(kill.delay_s)


def _is_writing(out: Path) -> bool:
    folders = [folder for folder in (out, out / "checkpoint") if folder.is_dir()]
    return any(path.suffix == ".tmp" for folder in folders for path in folder.iterdir())


def _wait_for_the_end_of(sessions: set[int]) -> None:
    """Wait until no process of these sessions is left, such as one that trained for a dead one."""
    until_s = time.monotonic() + MOST_S
    while any(
        _session_of(int(path.name)) in sessions
        for path in Path("/proc").iterdir()
        if path.name.isdigit()
    ):
        assert time.monotonic() < until_s, "processes are left behind"
        time.sleep(0.05)


def _session_of(pid: int) -> int:
    """Return the session of a process; 0 if it has ended in the meantime."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _digests(folder: Path) -> dict[str, str]:
    manifest = read_manifest(folder)
    assert manifest.status == "done"
    tables = {str(name): text for name, text in (manifest.table_digests or {}).items()}
    return {"all": str(manifest.digest), **tables}


def main() -> None:
    """Kill until there are as many kills as asked for; exit with 1 if a digest is another one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    arguments = parser.parse_args()
    num_runs = num_kills = num_equal = 0
    with tempfile.TemporaryDirectory() as home:
        expected = {kind: undisturbed(kind, Path(home) / f"{kind}") for kind in arguments.kinds}
        for number, kind in ((n, kind) for n in itertools.count() for kind in arguments.kinds):
            if num_kills >= arguments.kills:
                break
            result = killed(kind, number, Path(home) / f"{kind}-{number}")
            is_equal = result.digests == expected[kind]
            num_runs, num_equal = num_runs + 1, num_equal + is_equal
            num_kills += len(result.kills)
            verdict = "equal" if is_equal else "DIFFERENT"
            print(f"{kind}, {number}: {verdict}, {result.kills}", flush=True)
    print(f"{num_kills} kills; {num_equal} of {num_runs} runs are equal")
    sys.exit(int(num_equal < num_runs))


if __name__ == "__main__":
    main()
