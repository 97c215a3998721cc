"""Single runs of contestants: a sampled process and the result sheet that it writes."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import processes
from benchmarks.contestants import Contestant, Setting
from benchmarks.results import Result, Simulator, Store
from benchmarks.works import SCENARIOS, Work
from fleetsim import open_run

ROOT = Path(__file__).parents[1]
_MAX_ERROR = 400
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Interrupt): \S")
_SILENCE = "it printed nothing"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Request of one run."""

    work: Work
    contestant: str
    """Name, for fleetsim with that of the variant, for a peer with that of the setting."""
    repeat: int
    rounds: int
    timeout_s: float


def run_ours(
    request: RunRequest, changes: Sequence[str], *, sample_flop: float, workers: int, store: Store
) -> Result:
    """Run fleetsim's command on the scenario of a work; the log goes to the store.

    `sample_flop`: floating-point operations of training on one sample once.
    """
    with tempfile.TemporaryDirectory() as folder:
        sheet, out = Path(folder) / "times.json", Path(folder) / "run"
        command = [sys.executable, "-m", "benchmarks.timed_run", str(sheet)]
        command += [str(SCENARIOS / f"{request.work.name}.yaml"), "--out", str(out)]
        command += ["--workers", str(workers)]
        for change in changes:
            command += ["--set", change]
        result = _measured(request, command, dict(os.environ), sheet, store)
        if result.error is not None:
            return result
        times = json.loads(sheet.read_text(encoding="utf-8"))
        done = open_run(out)
        tasks = done.tasks[done.tasks["purpose"] == "train"]
        used = tasks[tasks["outcome"] == "delivered"]
        passes = int(used["num_samples"].sum()) * done.scenario["task"]["local"]["epochs"]
        simulator = Simulator(
            training_s=tuple(times["training_s"]),
            evaluation_s=tuple(times["evaluation_s"]),
            num_steps=tuple(times["num_steps"]),
            num_tasks=len(tasks),
            used_flop=passes * sample_flop,
            trainer=done.manifest.trainer,
        )
    return replace(result, simulator=simulator)


def run_peer(
    request: RunRequest,
    contestant: Contestant,
    setting: Setting,
    worksheet: dict[str, object],
    *,
    python: Path,
    cores: int,
    store: Store,
) -> Result:
    """Run a peer's adapter by its environment's interpreter; the log goes to the store."""
    threads = 1 if setting.has_one_thread else contestant.threads(request.work, cores)
    with tempfile.TemporaryDirectory() as folder:
        sheet, given = Path(folder) / "sheet.json", Path(folder) / "work.json"
        whole = worksheet | {
            "seed": request.repeat,
            "threads": threads,
            "processes": contestant.processes(cores),
            "is_channels_last": setting.is_channels_last,
            "result": str(sheet),
        }
        given.write_text(json.dumps(whole), encoding="utf-8")
        command = [str(python)]
        if contestant.is_launched:
            command += ["-m", "torch.distributed.run", "--standalone"]
            command += ["--nproc-per-node", str(contestant.processes(cores))]
        command += ["-m", contestant.module, str(given)]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": str(threads),
            "FLWR_TELEMETRY_ENABLED": "0",
        }
        return _measured(request, command, environment, sheet, store)


def failed(request: RunRequest, error: str) -> Result:
    """Return the result of a run that failed."""
    return Result(
        request.work.name, request.contestant, request.repeat, request.rounds, error=error
    )


def _measured(
    request: RunRequest, command: list[str], environment: dict[str, str], sheet: Path, store: Store
) -> Result:
    """Run a command and return what it wrote into its sheet, without figures of the simulator."""
    log = store.log(request.work.name, request.contestant, request.repeat)
    log.parent.mkdir(parents=True, exist_ok=True)
    finished = processes.run(
        command, environment=environment, folder=ROOT, log=log, timeout_s=request.timeout_s
    )
    error = _error(request, finished, sheet, log)
    if error is not None:
        return failed(request, error)
    times = json.loads(sheet.read_text(encoding="utf-8"))
    return Result(
        work=request.work.name,
        contestant=request.contestant,
        repeat=request.repeat,
        rounds=request.rounds,
        started_at_s=finished.started_at_s,
        ended_at_s=finished.ended_at_s,
        began_at_s=times["began_at_s"],
        round_ended_at_s=tuple(times["round_ended_at_s"]),
        accuracy=times["accuracy"],
        samples=tuple((x.at_s, x.memory_mib, x.cpu_s) for x in finished.samples),
    )


def _error(
    request: RunRequest, finished: processes.FinishedCommand, sheet: Path, log: Path
) -> str | None:
    """Return the last error message of a run; None if it succeeded."""
    if finished.returncode is None:
        return f"stopped by the benchmark after {request.timeout_s:g} s"
    if finished.returncode == 0 and sheet.is_file():
        return None
    # Paths of this machine do not belong into the results.
    said = log.read_text(errors="replace").replace(f"{ROOT}/", "").replace(str(Path.home()), "~")
    return f"exit code {finished.returncode}: {last_words(said)}"


def last_words(said: str) -> str:
    r"""Return the last line with an exception and a message, else the last line with any text.

    >>> last_words("Traceback ...\nValueError: no luck\nLauncherError:\n=====\n")
    'ValueError: no luck'
    >>> last_words("Signal 6 received\n=====\n")
    'Signal 6 received'
    """
    lines = [line.strip() for line in said.splitlines() if any(map(str.isalnum, line))]
    named = [line for line in lines if _EXCEPTION.match(line)]
    return [_SILENCE, *lines, *named][-1][:_MAX_ERROR]
