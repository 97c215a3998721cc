"""Computation of chunks of jobs in a worker of a Dask cluster.

A worker builds the kernel of a run from its recipe, as the run itself does, and keeps it. It
computes under the settings of a run, one order at a time.
"""

import pickle
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fleetsim.host.numerics import OneBlasThread
from fleetsim.host.plugin_sources import PluginSource, place_plugin
from fleetsim.host.turns import Environment, turn
from fleetsim.kernels.base import Kernel
from fleetsim.kernels.cpu.numerical_platform import resolve
from fleetsim.learning.global_generators import GlobalGenerators
from fleetsim.learning.torch_settings import TorchSettings
from fleetsim.training.content_parts import HeldParts, unpack
from fleetsim.training.ipc import packed, unpacked

_MOST_KERNELS = 2
_HELD = HeldParts()
_KERNELS: dict[str, Kernel] = {}
"""Kernels that were used last, by the digests of their recipes."""


class Recipe(NamedTuple):
    """Construction of the kernel of a run."""

    plugins: tuple[PluginSource, ...]
    platform: dict[str, str]
    """Numerical platform of the run: a worker of another one never receives this recipe."""
    build: bytes
    """Function that builds the kernel, by `content_parts.pack`."""


class Order(NamedTuple):
    """Calls of a kernel."""

    recipe: str
    """Name of the part that holds the recipe."""
    parts: tuple[str, ...]
    """Names of all parts that are needed."""
    verb: str
    """`compute` or `evaluate`."""
    calls: bytes
    """Arguments of the calls, by `content_parts.pack`."""


class Standing(NamedTuple):
    """State of a worker before it computes."""

    platform: dict[str, str]
    lacking: list[str]
    """Names of the parts that it does not hold."""


@cache
def _platform() -> dict[str, str]:
    return resolve(torch_device="cpu")


def standing(names: Sequence[str]) -> Standing:
    """Return the numerical platform of this worker, and the parts that it does not hold."""
    return Standing(_platform(), _HELD.lacking(names))


def receive(name: str, num_byte: int, start: int, piece: bytes, needed: Sequence[str]) -> None:
    """Take a piece of a part, see `HeldParts`."""
    _HELD.receive(name, num_byte, start, piece, needed)


def carry_out(order: bytes) -> bytes | None:
    """Return the results of the calls of a pickled `Order`; None: parts of it are not held."""
    asked: Order = pickle.loads(order)
    parts = _HELD.take(asked.parts)
    if parts is None:
        return None
    with turn(Environment, GlobalGenerators, TorchSettings, OneBlasThread):
        kernel = _kernel(asked.recipe, parts)
        calls = [unpacked(call) for call in unpack(asked.calls, parts)]
        results: list[Any]
        if asked.verb == "evaluate":
            results = [kernel.evaluate(*call) for call in calls]
        else:
            results = [packed(kernel.compute(call)) for call in calls]
    return pickle.dumps(results, protocol=5)


def _kernel(name: str, parts: Mapping[str, bytearray]) -> Kernel:
    kernel = _KERNELS.pop(name, None)
    if kernel is None:
        recipe: Recipe = pickle.loads(parts[name])
        for plugin in recipe.plugins:
            place_plugin(plugin)
        kernel = unpack(recipe.build, parts)()
    _KERNELS[name] = kernel
    for other in list(_KERNELS)[:-_MOST_KERNELS]:
        del _KERNELS[other]
    return kernel
