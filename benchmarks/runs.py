"""Single runs of contestants: a sampled process and the result sheet that it writes."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import processes
from benchmarks.contestants import OURS, Contestant
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
    """Name, for fleetsim with that of the variant."""
    repeat: int
    rounds: int
    timeout_s: float


def contestant_name(variant: str) -> str:
    """Return the name of a variant of fleetsim in the results.

    >>> contestant_name(""), contestant_name("third")
    ('fleetsim', 'fleetsim-third')
    """
    return f"{OURS}-{variant}" if variant else OURS


def run_ours(
    request: RunRequest, changes: Sequence[str], *, sample_flop: float, workers: int, store: Store
) -> Result:
    """Run fleetsim's command on the scenario of a work.

    Args:
        request: run to make.
        changes: overrides, `KEY=VALUE` each, as for `--set`.
        sample_flop: floating-point operations of training on one sample once.
        workers: processes that train.
        store: store that takes the log.
    """
    with tempfile.TemporaryDirectory() as folder:
        sheet, out = Path(folder) / "times.json", Path(folder) / "run"
        command = [sys.executable, "-m", "benchmarks.timed_run", str(sheet)]
        command += [str(SCENARIOS / f"{request.work.name}.yaml"), "--out", str(out)]
        command += ["--workers", str(workers)]
        for change in changes:
            command += ["--set", change]
        finished = _run_command(request, command, dict(os.environ), store)
        error = _error(request, finished, sheet, store)
        if error is not None:
            return _failed(request, error)
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
    return _result(request, finished, times, simulator)


def run_peer(
    request: RunRequest,
    contestant: Contestant,
    worksheet: dict[str, object],
    *,
    python: Path,
    cores: int,
    store: Store,
) -> Result:
    """Run a peer's adapter in the peer's environment.

    Args:
        request: run to make.
        contestant: peer in one of its settings.
        worksheet: work, as `works.worksheet_of` returns it.
        python: interpreter of its environment.
        cores: processes or threads that it may use.
        store: store that takes the log.
    """
    threads = contestant.threads(request.work, cores)
    with tempfile.TemporaryDirectory() as folder:
        sheet, given = Path(folder) / "sheet.json", Path(folder) / "work.json"
        whole = worksheet | {
            "seed": request.repeat,
            "threads": threads,
            "processes": contestant.processes(cores),
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
        finished = _run_command(request, command, environment, store)
        error = _error(request, finished, sheet, store)
        if error is not None:
            return _failed(request, error)
        times = json.loads(sheet.read_text(encoding="utf-8"))
    return _result(request, finished, times, None)


def failed_to_install(request: RunRequest, says: str) -> Result:
    """Return the result of a run whose peer is not installed."""
    return _failed(request, f"not installed: {says}")


def _run_command(
    request: RunRequest, command: list[str], environment: dict[str, str], store: Store
) -> processes.FinishedCommand:
    log = store.log(request.work.name, request.contestant, request.repeat)
    log.parent.mkdir(parents=True, exist_ok=True)
    return processes.run(
        command, environment=environment, folder=ROOT, log=log, timeout_s=request.timeout_s
    )


def _error(
    request: RunRequest, finished: processes.FinishedCommand, sheet: Path, store: Store
) -> str | None:
    """Return the last error message of a run; None if it succeeded."""
    if finished.returncode is None:
        return f"stopped by the benchmark after {request.timeout_s:g} s"
    if finished.returncode == 0 and sheet.is_file():
        return None
    log = store.log(request.work.name, request.contestant, request.repeat)
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


def _failed(request: RunRequest, error: str) -> Result:
    return Result(
        request.work.name, request.contestant, request.repeat, request.rounds, error=error
    )


def _result(
    request: RunRequest,
    finished: processes.FinishedCommand,
    times: dict[str, Any],
    simulator: Simulator | None,
) -> Result:
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
        simulator=simulator,
    )
