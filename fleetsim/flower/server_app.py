"""The server app on our clock: its sleep, its waiting for nodes, and what it measures itself."""

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest import mock

from fleetsim.errors import ScenarioError
from fleetsim.flower import versions
from fleetsim.flower.grid import VirtualGrid

_STRATEGY = "flwr.serverapp.strategy"
POLL_S = 1.0
"""Seconds between two looks of Flower's strategies for nodes, as in flwr itself."""
_OLD_START = "start_update_client_manager_thread"
_OLD_MODULES = ("flwr.server.compat.app", "flwr.server.workflow.default_workflows")
"""Beginning of all server apps of before the message API, and the modules that call it."""


@contextmanager
def on_virtual_clock(grid: VirtualGrid) -> Iterator[None]:
    """Let Flower's server side use the grid's clock within the block."""
    host_sleep, thread = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:
        if threading.current_thread() is thread and not grid.is_in_call:
            grid.sleep(seconds)
        else:
            host_sleep(seconds)

    strategies = versions.module(f"{_STRATEGY}.strategy_utils")
    strategy = versions.module(f"{_STRATEGY}.strategy").Strategy
    nodes = _waiting_sample(grid, strategies.sample_nodes)
    samplers = ("fedavg", "fedxgb_cyclic", "strategy_utils")
    with ExitStack() as stack:
        for owner, name, value in (
            (time, "sleep", sleep),
            *((versions.module(f"{_STRATEGY}.{name}"), "sample_nodes", nodes) for name in samplers),
            (strategy, "start", _telling_start(strategy.start)),
            *((versions.module(name), _OLD_START, _refuse_old_app) for name in _OLD_MODULES),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        yield


def _waiting_sample(grid: VirtualGrid, sample: Callable[..., Any]) -> Callable[..., Any]:
    """Return Flower's sampling of nodes, which waits for them in virtual time."""

    @functools.wraps(sample)
    def sample_nodes(of: Any, min_available_nodes: int, sample_size: int) -> Any:
        if of is grid:
            grid.wait_for(max(min_available_nodes, sample_size), every_s=POLL_S)
        return sample(of, min_available_nodes, sample_size)

    return sample_nodes


def _telling_start(start: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Strategy.start`, which tells the grid what was measured and aggregated."""
    signature = inspect.signature(start)

    @functools.wraps(start)
    def telling(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        grid, evaluate = given.arguments.get("grid"), given.arguments.get("evaluate_fn")
        if not isinstance(grid, VirtualGrid):
            return start(*args, **kwargs)
        if evaluate is not None:
            evaluate = _tells(grid, evaluate, of_clients=False)
            given.arguments["evaluate_fn"] = evaluate
        strategy = given.arguments["self"]
        aggregate = _tells(grid, strategy.aggregate_evaluate, of_clients=True)
        with mock.patch.object(strategy, "aggregate_evaluate", aggregate):
            return start(*given.args, **given.kwargs)

    return telling


def _tells(grid: VirtualGrid, call: Callable[..., Any], *, of_clients: bool) -> Callable[..., Any]:
    """Return a call that tells the grid the metrics in its result, if it has any."""

    def telling(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        if result is not None:
            grid.tell(dict(result), of_clients=of_clients)
        return result

    return telling


def _refuse_old_app(*_: Any) -> NoReturn:
    """Refuse a server app of before the message API, whose threads follow the host's clock."""
    raise ScenarioError(
        "the ServerApp is of before Flower's message API (server_fn, or flwr.server.strategy); give"
        " it an @app.main() that starts a strategy of flwr.serverapp.strategy, which flwr"
        f" {versions.TESTED[0]} and later have"
    )
