"""Training of a run by the workers of a Dask cluster, if its settings name one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from fleetsim.contracts import Progress
from fleetsim.errors import ScenarioError
from fleetsim.host.plugin_sources import source_of
from fleetsim.run_settings import RunSettings
from fleetsim.scenario import Scenario

if TYPE_CHECKING:
    from fleetsim.training.dask_pool import DaskWorkers


@contextmanager
def trained_by(scenario: Scenario, settings: RunSettings) -> Iterator[DaskWorkers | None]:
    """Yield the workers that train within the block; None: processes of this host do.

    Raises:
        ScenarioError: other settings contradict, or no scheduler answers.
        DataError: a worker has other versions or another numerical platform.
    """
    if settings.dask is None:
        yield None
        return
    message = _contradiction(settings)
    if message is not None:
        raise ScenarioError(f"--dask {settings.dask}: {message}")
    from fleetsim.training.dask_pool import connected  # noqa: PLC0415 - of an extra

    names = [f"{plugin.kind.name}={plugin.name}" for plugin in scenario.plugins]
    # What a script defines itself has no module, and travels with its code.
    sources = tuple(source_of(name) for name in names if "=__main__:" not in name)
    with connected(settings.dask, sources, settings.on_note or (lambda line: None)) as workers:
        yield workers


def _contradiction(settings: RunSettings) -> str | None:
    if not settings.train:
        return "--no-train leaves nothing to its workers; leave one of both out"
    if settings.workers is not None:
        return "--workers counts processes of this machine; leave it out with --dask"
    if settings.torch_device != "cpu":
        return f"workers train on CPUs; leave --torch-device {settings.torch_device} out"
    if settings.results_cache is not None:
        return "workers cannot see --results-cache, a folder of this machine; leave one of both out"
    return None


def with_workers(
    on_progress: Callable[[Progress], None] | None, cluster: DaskWorkers | None
) -> Callable[[Progress], None] | None:
    """Return the callback of a run, which is told the number of the cluster's workers, too."""
    if on_progress is None or cluster is None:
        return on_progress
    return lambda progress: on_progress(replace(progress, num_workers=cluster.num_workers))
