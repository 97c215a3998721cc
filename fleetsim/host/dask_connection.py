"""Connection to the scheduler of a Dask cluster, and what its workers must have.

A worker fits if its versions and its numerical mode are those of this process.

Sources: distributed.dask.org, API (`Client`, `Client.run`).
"""

import asyncio
import logging
import platform
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from fleetsim.errors import DataError, FleetsimError, ScenarioError
from fleetsim.host import numerics
from fleetsim.host.numerics import Numerics
from fleetsim.quoting import one_line, quoted

_CONNECT_S = 8.0
"""Seconds in which a scheduler must answer."""
_PACKAGES = ("fleetsim", "torch", "distributed")
"""Packages whose versions must be those of this process."""
_LOGGERS = ("client", "comm", "core", "batched", "utils", "utils_perf")


def client_of(address: str) -> Any:
    """Return a client of the scheduler of a Dask cluster; ScenarioError: none answers there."""
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ScenarioError(
            f"--dask {address}: needs Dask's distributed; install it with: pip install"
            " 'fleetsim[dask]'"
        ) from None
    import dask  # noqa: PLC0415 - it comes with distributed

    # Lost connections are reported in one line, and orders may hold files of 64 MiB.
    for name in _LOGGERS:
        logging.getLogger(f"distributed.{name}").setLevel(logging.CRITICAL + 1)
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"})
    try:
        asyncio.run(_reach(address))
        with warnings.catch_warnings():
            # Versions are checked below, by what runs need.
            warnings.simplefilter("ignore")
            return distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, ImportError) as fault:
        reason = one_line(str(fault)) or type(fault).__name__
        raise ScenarioError(
            f"--dask {quoted(address)}: no Dask scheduler answers there ({reason}); start one with"
            " `dask scheduler`, and give the address that it prints, such as tcp://10.0.0.1:8786"
        ) from None


async def _reach(address: str) -> None:
    """Open and close a connection; a client whose scheduler does not answer takes long to end."""
    from distributed.comm import connect as open_  # noqa: PLC0415 - an extra
    from distributed.security import Security  # noqa: PLC0415

    connecting = open_(address, timeout=_CONNECT_S, **Security().get_connection_args("client"))
    # Another kind of server may accept the connection and never answer.
    connection = await asyncio.wait_for(connecting, _CONNECT_S)
    connection.abort()


def check_workers(
    client: Any, address: str, workers: Sequence[str], required: Mapping[str, str]
) -> None:
    """Check workers by functions of the standard library: fleetsim may be missing there.

    `required` are the `versions_here` of this process. DataError: a worker does not fit.
    """

    def ask(function: Any, *arguments: str) -> dict[str, Any]:
        """Return what workers answer, by their address; exceptions are answers."""
        answers: dict[str, Any] = client.run(
            function, *arguments, workers=list(workers), on_error="return"
        )
        return answers

    def require(worker: str, message: str | None) -> None:
        if message is not None:
            raise DataError(f"--dask {address}: worker {worker} {message}")

    if not workers:
        return
    answers_of = {name: ask(metadata.version, name) for name in _PACKAGES}
    answers_of["Python"] = ask(platform.python_version)
    for worker in workers:
        # An exception says that it is not there.
        texts = {name: answers.get(worker) for name, answers in answers_of.items()}
        versions = {name: one if isinstance(one, str) else None for name, one in texts.items()}
        require(worker, refusal(required, versions))
    modes, faults = ask(numerics.chosen), ask(numerics.require_settled)
    for worker in workers:
        require(worker, numerics_refusal(numerics.chosen(), modes.get(worker), faults.get(worker)))


def versions_here() -> dict[str, str]:
    """Return the versions of this process that those of a worker must be equal to."""
    versions = {"Python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _PACKAGES}
    return {name: _compared(name, version) for name, version in versions.items()}


def refusal(required: Mapping[str, str], versions: Mapping[str, str | None]) -> str | None:
    """Return why a worker with these versions cannot carry out runs; None if it can."""
    for name, version in required.items():
        there = versions.get(name)
        needed = f"Python {version}" if name == "Python" else f"{name}=={version}"
        if there is None:
            return f"has no {name}; install {needed} there"
        if _compared(name, there) != version:
            return f"has {name} {there}, and this process has {version}; install {needed} there"
    return None


def _compared(name: str, version: str) -> str:
    """Return the part of a version that must be equal: torch's end with their build of CUDA.

    >>> _compared("torch", "2.13.0+cu126"), _compared("Python", "3.11.9")
    ('2.13.0', '3.11')
    """
    return ".".join(version.split(".")[:2]) if name == "Python" else version.partition("+")[0]


def numerics_refusal(here: Numerics, there: Any, fault: Any) -> str | None:
    """Return why a worker's numerical mode does not fit; None if it does.

    `fault` is the exception with which the mode is not in effect there.
    """
    if isinstance(there, Numerics) and there is not here:
        return (
            f"computes with {numerics.VARIABLE}={there}, and this process with {here}; set the same"
            " in both environments"
        )
    return f"says: {one_line(str(fault))}" if isinstance(fault, FleetsimError) else None
