"""Contestants of the benchmark: fleetsim and its peers in their fastest settings.

The settings come from trials on two cores:

- Flower: one actor per core with one thread each;
- pfl: one process, and one process per core;
- FedLab and FLGo: one process; two threads are faster for the larger networks only;
- BlazeFL: one Python thread per core with one torch thread each, as its documentation recommends.

Where trials left open which setting is faster, several are measured, and the fastest counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.works import Work


@dataclass(frozen=True, slots=True)
class Peer:
    """Peer that pip can install."""

    name: str
    """Name, also that of its environment."""
    requirement: str
    """Requirement for pip."""
    distributions: tuple[str, ...]
    """Distributions whose versions the page names."""
    interpreter: str | None = None
    """Command of the Python that it needs; None: the one that runs fleetsim."""


PEERS = (
    Peer("flower", "flwr[simulation]==1.41.0", ("flwr", "ray")),
    Peer("pfl", "pfl[pytorch]==0.6.0", ("pfl",)),
    Peer("fedlab", "fedlab==1.3.0", ("fedlab",)),
    Peer("flgo", "flgo==0.4.4", ("flgo",)),
    Peer("blazefl", "blazefl[contrib,reproducibility]==3.0.0", ("blazefl",), "python3.14t"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """Setting of a peer, of which several may be measured in a work."""

    name: str = ""
    label: str = ""
    is_channels_last: bool = False
    """True if images are stored in NHWC."""
    has_one_thread: bool = False
    """True if torch has one thread; False: as many as `Contestant.threads`."""


PLAIN = Setting()
NHWC = Setting("nhwc", "NHWC", is_channels_last=True)
ONE_THREAD = Setting("one-thread", "1 thread", has_one_thread=True)


@dataclass(frozen=True, slots=True)
class Contestant:
    """Peer in one setting."""

    name: str
    label: str
    peer: str
    module: str
    """Module of its adapter."""
    uses_all_cores: bool
    """True if one process per core trains, False if a single process trains."""
    is_launched: bool = False
    """True if torchrun starts its processes."""
    slow_threads: frozenset[str] = frozenset()
    """Names of the works in which it is faster on one thread."""
    async_note: str | None = None
    """Reason why it has no asynchronous server; None if it has one."""

    def processes(self, cores: int) -> int:
        """Number of processes that train."""
        return cores if self.uses_all_cores else 1

    def threads(self, work: Work, cores: int) -> int:
        """Number of torch threads in each process."""
        return 1 if self.uses_all_cores or work.name in self.slow_threads else cores

    def settings(self, work: Work) -> tuple[Setting, ...]:
        """Return the settings that are measured in a work."""
        if work.has_images:
            return PLAIN, NHWC
        if work.has_text and not self.uses_all_cores:
            return PLAIN, ONE_THREAD
        return (PLAIN,)

    def name_in(self, setting: Setting) -> str:
        """Return the name in the results of this contestant in a setting."""
        return f"{self.name}-{setting.name}" if setting.name else self.name

    def label_in(self, setting: Setting) -> str:
        """Return the label in the tables of this contestant in a setting."""
        return f"{self.label}, {setting.label}" if setting.label else self.label


CONTESTANTS = (
    Contestant(
        "flower",
        "Flower",
        "flower",
        "benchmarks.peers.flower",
        uses_all_cores=True,
        async_note="its simulation engine and strategies are synchronous",
    ),
    Contestant(
        "pfl-1",
        "pfl, 1 process",
        "pfl",
        "benchmarks.peers.pfl_research",
        uses_all_cores=False,
        slow_threads=frozenset({"w3"}),
        async_note="its simulated backend is synchronous",
    ),
    Contestant(
        "pfl-n",
        "pfl, 1 process per core",
        "pfl",
        "benchmarks.peers.pfl_research",
        uses_all_cores=True,
        is_launched=True,
        async_note="its simulated backend is synchronous",
    ),
    Contestant(
        "fedlab",
        "FedLab",
        "fedlab",
        "benchmarks.peers.fedlab_",
        uses_all_cores=False,
        slow_threads=frozenset({"w3"}),
        async_note="it has FedAsync over a network of processes, but no FedBuff",
    ),
    Contestant(
        "flgo",
        "FLGo",
        "flgo",
        "benchmarks.peers.flgo_",
        uses_all_cores=False,
        slow_threads=frozenset({"w1", "w3", "w5", "w6"}),
    ),
    Contestant(
        "blazefl",
        "BlazeFL",
        "blazefl",
        "benchmarks.peers.blazefl_",
        uses_all_cores=True,
        async_note="its server is synchronous",
    ),
)
