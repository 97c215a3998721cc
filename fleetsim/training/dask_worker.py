"""Computation of chunks of jobs in a worker of a Dask cluster.

A worker builds the kernel of a run from its recipe, as the run itself does, and holds it, so that
a later run with the same samples, network and local training sends none of them. It computes under
the settings of a run, one order at a time.
"""

import pickle
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from numpy.typing import NDArray

from fleetsim.errors import DataError
from fleetsim.host.dask_connection import refusal, versions_here
from fleetsim.host.memory import give_back_freed, keep_freed
from fleetsim.host.numerics import OneBlasThread
from fleetsim.host.plugin_sources import PluginSource, place_plugin
from fleetsim.host.turns import Environment, turn
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.cpu.numerical_platform import resolve
from fleetsim.learning.global_generators import GlobalGenerators
from fleetsim.learning.torch_settings import TorchSettings
from fleetsim.training.ipc import packed, unpacked


class Recipe(NamedTuple):
    """Construction of the kernel of a run, and what a worker must be like."""

    versions: dict[str, str]
    platform: dict[str, str]
    """Numerical platform of the run."""
    plugins: tuple[PluginSource, ...]
    build: bytes
    """Function that builds the kernel, pickled without its large arrays."""
    arrays: list[NDArray[Any]]


_MOST_HELD = 2
_KERNELS: dict[str, Kernel] = {}
"""Kernels that were used last, by the SHA-256 of their recipes."""
_RECIPES: dict[str, Recipe] = {}
"""The same of recipes, until their kernels are built."""


@cache
def platform_here() -> dict[str, str]:
    """Return the numerical platform of this process, on the CPU."""
    return resolve(torch_device="cpu")


def misfit(versions: Mapping[str, str], platform: Mapping[str, str]) -> str | None:
    """Return why this process cannot compute for a run of these; None if it can."""
    here = platform_here()
    pairs = {key: (platform.get(key), here.get(key)) for key in sorted({*platform, *here})}
    others = [f"{key} ({a}, {b})" for key, (a, b) in pairs.items() if a != b]
    message = (
        "computes on another numerical platform than this process, so that results would depend on"
        f" the place: {', '.join(others)}; take machines like this one, or --numerics portable for"
        " this process and all workers"
    )
    return refusal(versions, versions_here()) or (message if others else None)


def holds(name: str) -> bool:
    """Return whether this process holds a recipe, or the kernel of it."""
    return name in _KERNELS or name in _RECIPES


def keep(name: str, recipe: Recipe) -> None:
    """Hold a recipe until orders ask for its kernel."""
    if not holds(name):
        _hold(_RECIPES, name, recipe)


def carry_out(
    name: str, recipe: Recipe | None, verb: str, calls: bytes, models: Sequence[NDArray[Any]]
) -> bytes:
    """Return the pickled results of pickled calls of a kernel; nothing: no recipe is known.

    Jobs hold the number of their model in the place of the model.

    Raises:
        DataError: this worker, which has joined lately, does not fit.
        PluginError: code of the user's own failed.
    """
    results: list[Any]
    with turn(Environment, GlobalGenerators, TorchSettings, OneBlasThread):
        recipe = _RECIPES.pop(name, recipe)
        kernel = _KERNELS.pop(name, None) or (recipe and _built(recipe))
        if kernel is None:
            return b""
        _hold(_KERNELS, name, kernel)
        if verb == "evaluate":
            results = [kernel.evaluate(models[0], *call) for call in pickle.loads(calls)]
        else:
            results = []
            for call in pickle.loads(calls):
                jobs = [job._replace(base=models[job.base]) for job in unpacked(call)]
                results.append(packed(kernel.compute(jobs)))
            if not kernel.computes_together:
                give_back_freed()
    return pickle.dumps(results, protocol=5)


def _hold(held: dict[str, Any], name: str, value: object) -> None:
    """Hold a value, and let go of those that were used longest ago."""
    held[name] = value
    for oldest in list(held)[:-_MOST_HELD]:
        del held[oldest]


def _built(recipe: Recipe) -> Kernel:
    message = misfit(recipe.versions, recipe.platform)
    if message is not None:
        raise DataError(f"a Dask worker {message}")
    for plugin in recipe.plugins:
        place_plugin(plugin)
    keep_freed()
    kernel: Kernel = pickle.loads(recipe.build, buffers=recipe.arrays)()
    return kernel
