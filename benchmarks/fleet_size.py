"""Host time and memory of a large fleet: at rest, by round, by function and by array.

    python benchmarks/fleet_size.py --devices 1000000 --cohort 1000 --rounds 100 --at-rest
    python benchmarks/fleet_size.py [--boards] [--profile] [--set KEY=VALUE]
    python benchmarks/fleet_size.py --scenario quickstart --rounds 30000 --every 1000

Runs a scenario, hundred-thousand-devices unless named, without training but with the whole
simulator (clock, channel, people, batteries, meters, recording). --every prints time and memory
of a long run as it goes on, which shows memory that grows with the rounds. With --boards the fleet
consists of mains-powered boards without owners, and the server waits for all updates. --at-rest
lists the memory by array after the set-up, when the first round has determined which clients are
eligible. Rounds are timed by wall time, disk included, and by processor time. Host times hold for
this machine; compare them within one run only. Memory is read from Linux's /proc.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fleetsim.contracts import ProbeRequest, Progress, RoundView, Selector
from fleetsim.engine.world import World
from fleetsim.scenario import load
from fleetsim.simulate import run

_KIB_PER_MIB = 1024
_BYTE_PER_MIB = 1 << 20
_LEAST_MIB = 0.5
_BOARDS = (
    "fleet.devices={jetson-nano-gpu: 0.4, jetson-nano-cpu: 0.3, jetson-tx2: 0.3}",
    "fleet.usage={}",
    "server.over_commit=1.0",
    "server.deadline_s=null",
    "server.eligibility={}",
)


def memory_mib(key: str) -> float:
    """Return the memory of this process by Linux: VmRSS, VmHWM (its peak) or Pss."""
    name = "smaps_rollup" if key == "Pss" else "status"
    for line in Path(f"/proc/self/{name}").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / _KIB_PER_MIB
    raise LookupError(f"/proc/self/{name} has no {key}")


def arrays_in(
    thing: object, path: str, seen: set[int]
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yield the arrays below an object with their paths; each memory block once."""
    if isinstance(thing, np.ndarray):
        owner = thing
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        if id(owner) not in seen:
            seen.add(id(owner))
            yield path, owner
        return
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, list | tuple):
        for index, part in enumerate(thing):
            yield from arrays_in(part, f"{path}[{index}]", seen)
        return
    names = [field.name for field in fields(thing)] if is_dataclass(thing) else []
    for name in names or vars(thing) if hasattr(thing, "__dict__") or names else ():
        yield from arrays_in(getattr(thing, name), f"{path}.{name}", seen)


def measured_at_rest(selector: Selector) -> list[str]:
    """Measure the memory before the first choice of a selector; return the lines, empty till then.

    The selector's `probe` is replaced, which the server calls first in every round.
    """
    lines: list[str] = []
    probe = selector.probe

    def measuring(view: RoundView) -> Sequence[ProbeRequest]:
        if not lines:
            lines.extend(_at_rest())
        return probe(view)

    selector.probe = measuring  # type: ignore[method-assign]
    return lines


def _at_rest() -> Iterator[str]:
    rss_mib, pss_mib, peak_mib = map(memory_mib, ("VmRSS", "Pss", "VmHWM"))
    gc.unfreeze()  # frozen objects are not listed
    (world,) = (thing for thing in gc.get_objects() if type(thing) is World)
    gc.freeze()
    found = sorted(arrays_in(world, "world", set()), key=lambda item: -item[1].nbytes)
    all_mib = sum(array.nbytes for _, array in found) / _BYTE_PER_MIB
    yield f"at rest       {rss_mib:.0f} MiB resident (PSS {pss_mib:.0f}), {peak_mib:.0f} at most"
    yield f"arrays        {all_mib:.0f} MiB in {len(found)}, of which"
    for path, array in found:
        mib = array.nbytes / _BYTE_PER_MIB
        if mib >= _LEAST_MIB:
            yield f"  {mib:6.1f} MiB  {path} {array.dtype} {list(array.shape)}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenario", default="hundred-thousand-devices", help="name or file")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--devices", type=int, help="instead of those of the scenario")
    parser.add_argument("--cohort", type=int, help="updates wanted in a round, likewise")
    parser.add_argument("--every", type=int, default=0, help="print a line after so many rounds")
    parser.add_argument("--boards", action="store_true", help="boards without people and batteries")
    parser.add_argument("--set", action="append", default=[], help="override, as for fleetsim run")
    parser.add_argument("--at-rest", action="store_true", help="list the memory at rest by array")
    parser.add_argument(
        "--profile", action="store_true", help="profile by function; slows the run down by half"
    )
    options = parser.parse_args()
    before_mib = memory_mib("VmRSS")
    changes = [
        f"stop.rounds={options.rounds}",
        *([] if options.devices is None else [f"fleet.size={options.devices}"]),
        *([] if options.cohort is None else [f"server.cohort={options.cohort}"]),
        *(_BOARDS if options.boards else ()),
        *options.set,
    ]
    scenario = load(options.scenario, changes)
    selector = scenario.server.selector.build()
    at_rest = measured_at_rest(selector) if options.at_rest else []
    wall_s, busy_s, rounds_peak_mib = [], [], []
    since_s = [time.perf_counter(), time.process_time()]

    def note(progress: Progress) -> None:
        wall_s.append(time.perf_counter())
        busy_s.append(time.process_time())
        if options.every and progress.round % options.every == 0:
            took_s, used_s = wall_s[-1] - since_s[0], busy_s[-1] - since_s[1]
            since_s[:] = wall_s[-1], busy_s[-1]
            print(
                f"round {progress.round:<8}{took_s:.2f} s, {used_s:.2f} s of processor time,"
                f" {memory_mib('VmRSS'):.0f} MiB resident, {memory_mib('VmHWM'):.0f} at most",
                flush=True,
            )
        if progress.round == options.rounds:
            rounds_peak_mib.append(memory_mib("VmHWM"))

    profiler = cProfile.Profile()
    with tempfile.TemporaryDirectory() as home:
        began_s = time.perf_counter()
        if options.profile:
            profiler.enable()
        done = run(
            scenario,
            out=Path(home) / "run",
            train=False,
            selector=selector if options.at_rest else None,
            on_progress=note,
        )
        profiler.disable()
        all_s = time.perf_counter() - began_s
        peak_mib = memory_mib("VmHWM")
        num_tasks = len(done.tasks)  # imports pandas, which running a scenario does not
        rounds_s = done.manifest.host_s
    print(f"devices       {scenario.fleet.size}")
    print(f"rounds        {done.manifest.rounds}, {num_tasks} tasks")
    print(f"digest        {done.manifest.digest}")
    print(f"set-up        {all_s - rounds_s:.2f} s")
    print(
        f"rounds        {rounds_s:.2f} s = {1e3 * rounds_s / done.manifest.rounds:.2f} ms a round"
        f" with the set-up of the first round and the final tables"
    )
    print(f"              {1e6 * rounds_s / num_tasks:.0f} us a task")
    for what, times_s in (("wall", wall_s), ("processor", busy_s)):
        took_ms = 1e3 * np.diff(times_s)
        if took_ms.size:
            print(
                f"  {what:<12}{took_ms.mean():.2f} ms a round in the mean,"
                f" {statistics.median(took_ms.tolist()):.2f} in the median,"
                f" {took_ms.max():.2f} at most"
            )
    print(f"modules       {before_mib:.0f} MiB resident before the set-up")
    for line in at_rest:
        print(line)
    for mib in rounds_peak_mib:
        print(f"peak memory   {mib:.0f} MiB up to the last round")
    print(f"peak memory   {peak_mib:.0f} MiB with the tables of the run")
    if options.profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
