"""Flower apps on fleetsim's clock beside Flower's own simulation: accuracy and host time.

    python -m benchmarks.flower_apps tests/flower/apps/torch_quickstart --clients 30

Both run the app unchanged with the same number of clients, each in a process of its own. Flower's
simulation needs `pip install 'flwr[simulation]'`. It trains clients in Ray's processes and has no
virtual time. It draws nodes and weights unseeded, so that several runs show its spread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_FLEET = ("fleet.usage={trace: null}",)


def ours(app: str, clients: int, seed: int, scenario: str) -> dict[str, Any]:
    """Run the app on fleetsim's clock and return what it took."""
    from fleetsim import scenario as scenarios  # noqa: PLC0415
    from fleetsim.flower import running  # noqa: PLC0415

    settings = [*_FLEET, f"fleet.size={clients}"]
    with tempfile.TemporaryDirectory() as folder:
        begun_s = time.perf_counter()
        run = running.run(
            app, scenarios.load(scenario, settings, seed=seed), out=Path(folder) / "run"
        )
        return {
            "accuracy": run.rounds["accuracy"].iloc[-1],
            "rounds": len(run.rounds),
            "host_s": run.manifest.host_s,
            "whole_s": time.perf_counter() - begun_s,
            "virtual_s": run.manifest.virtual_s,
            "energy_j": run.rounds["energy_total_j"].iloc[-1],
            "digest": run.manifest.digest,
        }


def flowers(app: str, clients: int) -> dict[str, Any]:
    """Run the app in Flower's simulation and return what it took."""
    from flwr.clientapp import ClientApp  # noqa: PLC0415
    from flwr.serverapp import ServerApp  # noqa: PLC0415
    from flwr.simulation import run_simulation  # noqa: PLC0415

    from fleetsim.flower import versions  # noqa: PLC0415
    from fleetsim.flower.app import read_app  # noqa: PLC0415

    described = read_app(app)
    load = versions.module("flwr.supercore.object_ref", "flwr.common.object_ref").load_app
    server_app = load(described.server_app, ImportError, described.folder)
    config, path = described.config, str(described.folder)
    reference = described.client_app
    found: dict[str, Any] = {}

    class Client(ClientApp):  # type: ignore[misc]  # flwr is an extra
        """The app's client with its configuration, loaded in Ray's process."""

        def __call__(self, message: Any, context: Any) -> Any:
            context.run_config = config
            return load(reference, ImportError, path)(message, context)

    server = ServerApp()

    @server.main()  # type: ignore[untyped-decorator]  # flwr is an extra
    def main(grid: Any, context: Any) -> None:
        context.run_config = config
        strategy_module = versions.module("flwr.serverapp.strategy.strategy")
        start = strategy_module.Strategy.start

        def telling(*args: Any, **kwargs: Any) -> Any:
            result = start(*args, **kwargs)
            of = result.evaluate_metrics_serverapp or result.evaluate_metrics_clientapp
            found["accuracy"] = described.settings.accuracy_of(dict(of[max(of)]))
            return result

        strategy_module.Strategy.start = telling
        begun_s = time.perf_counter()
        server_app(grid, context)
        found["host_s"] = time.perf_counter() - begun_s

    begun_s = time.perf_counter()
    run_simulation(
        server_app=server,
        client_app=Client(),
        num_supernodes=clients,
        backend_config={"client_resources": {"num_cpus": 1}},
    )
    return {
        "rounds": config["num-server-rounds"],
        **found,
        "whole_s": time.perf_counter() - begun_s,
    }


def main() -> None:
    """Run both, and print one line of JSON for each run."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("app")
    parser.add_argument("--clients", type=int, default=30)
    parser.add_argument("--scenario", default="quickstart")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=("ours", "flowers"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.only:
        done = (
            ours(given.app, given.clients, given.seed, given.scenario)
            if given.only == "ours"
            else flowers(given.app, given.clients)
        )
        print("RESULT", json.dumps({"of": given.only, "seed": given.seed, **done}))
        return
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), given.app])}
    for only in ("ours", "flowers"):
        for seed in range(1, given.runs + 1):
            command = [sys.executable, "-m", "benchmarks.flower_apps", given.app]
            command += ["--only", only, "--clients", str(given.clients), "--seed", str(seed)]
            command += ["--scenario", given.scenario]
            ended = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            lines = [line for line in ended.stdout.splitlines() if line.startswith("RESULT")]
            print(lines[0].removeprefix("RESULT ") if lines else ended.stderr[-2000:], flush=True)


if __name__ == "__main__":
    main()
