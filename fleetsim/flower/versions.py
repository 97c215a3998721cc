"""Versions of flwr that are tested, and what differs between them.

Not public are the identity of the running task (since 1.30 or so), the record of a run, and the
beginning of server apps of before the message API, which are refused.
"""

import importlib
import os
from importlib import metadata
from typing import Any

from fleetsim.errors import ScenarioError

TESTED = ("1.29", "1.33", "1.38", "1.41", "1.42")
"""Minor versions of flwr on which the tests of `tests/flower` pass."""
INSTALL = "pip install 'fleetsim[flower]'"
RUN_ID = 1
SERVER_NODE = 1
"""Node of the server app, as in Flower; clients have the nodes after it."""


def require() -> str:
    """Return the version of flwr after a check that it is one of the tested ones."""
    try:
        version = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        raise ScenarioError(
            f"flwr is not installed; install it with: {INSTALL}, best in an environment of its own"
        ) from None
    require_tested(version)
    # Read when flwr is imported: a simulation tells nobody that it runs.
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    return version


def require_tested(version: str) -> None:
    """Check that a version of flwr is one of the tested ones."""
    if ".".join(version.split(".")[:2]) not in TESTED:
        raise ScenarioError(
            f"flwr {version}: is not a tested version, these are: {', '.join(TESTED)}; install one"
            f" of them, with: pip install 'flwr=={TESTED[-1]}.*'"
        )


def module(*names: str) -> Any:
    """Return the first of these modules of flwr that this version has."""
    for name in names[:-1]:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as fault:
            if fault.name is None or not name.startswith(fault.name):
                raise
    return importlib.import_module(names[-1])


def empty_run() -> Any:
    """Return Flower's record of the run."""
    return module("flwr.supercore.run", "flwr.common.typing").Run.create_empty(run_id=RUN_ID)


def set_task_identity() -> None:
    """Set the identity of the running task, which a `Message` asks for, where there is one."""
    try:
        identity = importlib.import_module("flwr.supercore.task_identity").TaskIdentity
    except ModuleNotFoundError:
        return
    identity.task_id, identity.run_id, identity.node_id = 1, RUN_ID, SERVER_NODE
