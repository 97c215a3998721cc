"""Processor time and memory of rounds with and without shared links.

    python benchmarks/shared_links.py [--cohort 1000] [--rounds 5] [--up 1e9] [--profile]

Boards on fading channels send 0.2 MB each way, without training; every client is selected in every
round. Processor times hold for this machine; compare them within one run only.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import tempfile
import time
from pathlib import Path

from fleetsim.scenario import load
from fleetsim.simulate import run

_KIB_PER_MIB = 1024


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohort", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--up", type=float, default=1e9, help="bit/s of the server's link")
    parser.add_argument(
        "--profile", action="store_true", help="profile by function; slows the run down by half"
    )
    options = parser.parse_args()
    changes = [
        f"stop.rounds={options.rounds}",
        f"fleet.size={options.cohort}",
        f"server.cohort={options.cohort}",
        "fleet.devices={jetson-nano-gpu: 0.4, jetson-nano-cpu: 0.3, jetson-tx2: 0.3}",
        "fleet.channel={kind: fading}",
        "task.dataset={kind: blank, input_shape: [64], num_classes: 10, median_samples: 30}",
        "task.partition={kind: iid}",
    ]
    server = f"server_in_bit_per_s: {options.up:g}, server_out_bit_per_s: {options.up:g}"
    kinds = {
        "alone": "null",
        "wide": "{server_in_bit_per_s: 1e15}",
        "full": f"{{{server}}}",
        "bands": "{cells: 10}",
        "both": f"{{cells: 10, {server}}}",
    }
    profiler = cProfile.Profile()
    for name, links in kinds.items():
        scenario = load("crowded-cell", [*changes, f"fleet.shared_links={links}"])
        with tempfile.TemporaryDirectory() as home:
            began_s = time.process_time()
            if options.profile and name == "both":
                profiler.enable()
            done = run(scenario, out=Path(home) / "run", train=False)
            profiler.disable()
            host_s = time.process_time() - began_s
            num_tasks, virtual_s = len(done.tasks), done.manifest.virtual_s
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MIB
        print(
            f"{name:6}{num_tasks} tasks, {1e3 * host_s / options.rounds:.0f} ms a round of"
            f" {virtual_s / options.rounds:.1f} virtual s, set-up included, peak {peak_mib:.0f} MiB"
        )
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
