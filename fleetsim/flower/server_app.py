"""The server app on our clock: its sleep, its waiting for nodes, and what it measures itself.

Within the block of `on_virtual_clock` some functions of Flower and `time.sleep` are replaced. What
a strategy computes is untouched.
"""

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fleetsim.flower import legacy, versions
from fleetsim.flower.grid import VirtualGrid

POLL_S = 1.0
"""Seconds between two looks of Flower's strategies for nodes, as in flwr itself."""


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute within the block."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def on_virtual_clock(grid: VirtualGrid) -> Iterator[None]:
    """Let Flower's server side use the grid's clock within the block."""
    host_sleep, thread = time.sleep, threading.current_thread()

    def sleep(seconds: float) -> None:
        if threading.current_thread() is thread and not grid.is_in_call:
            grid.sleep(seconds)
        else:
            host_sleep(seconds)

    strategies = versions.module("flwr.serverapp.strategy.strategy_utils")
    strategy = versions.module("flwr.serverapp.strategy.strategy").Strategy
    with ExitStack() as stack:
        stack.enter_context(replaced(time, "sleep", sleep))
        nodes = _waiting_sample(grid, strategies.sample_nodes)
        for name in ("fedavg", "fedxgb_cyclic", "strategy_utils"):
            module = versions.module(f"flwr.serverapp.strategy.{name}")
            stack.enter_context(replaced(module, "sample_nodes", nodes))
        stack.enter_context(replaced(strategy, "start", _telling_start(strategy.start)))
        for owner, name, value in legacy.replacements(grid):
            stack.enter_context(replaced(owner, name, value))
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

            def evaluate_fn(server_round: int, arrays: Any) -> Any:
                metrics = evaluate(server_round, arrays)
                if metrics is not None:
                    grid.measured(dict(metrics))
                return metrics

            given.arguments["evaluate_fn"] = evaluate_fn
        strategy = given.arguments["self"]
        aggregate = strategy.aggregate_evaluate

        def aggregate_evaluate(*args: Any, **kwargs: Any) -> Any:
            metrics = aggregate(*args, **kwargs)
            if metrics is not None:
                grid.aggregated(dict(metrics))
            return metrics

        with replaced(strategy, "aggregate_evaluate", aggregate_evaluate):
            return start(*given.args, **given.kwargs)

    return telling
