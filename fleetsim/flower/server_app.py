"""The server app on our clock: its sleep, its waiting for nodes, and what it measures itself."""

import functools
import importlib
import inspect
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from fleetsim.flower import versions
from fleetsim.flower.grid import VirtualGrid

_STRATEGY = "flwr.serverapp.strategy"
POLL_S = 1.0
"""Seconds between two looks of Flower's strategies for nodes, as in flwr itself."""
_OLD_POLL_S = 5.0
"""The same of strategies of before the message API."""


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
            *_old_replacements(grid),
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
            evaluate = _tells(grid, evaluate, _plain, of_clients=False)
            given.arguments["evaluate_fn"] = evaluate
        strategy = given.arguments["self"]
        aggregate = _tells(grid, strategy.aggregate_evaluate, _plain, of_clients=True)
        with mock.patch.object(strategy, "aggregate_evaluate", aggregate):
            return start(*given.args, **given.kwargs)

    return telling


def _plain(metrics: Any) -> dict[str, Any] | None:
    return None if metrics is None else dict(metrics)


# --- server apps of before the message API ------------------------------------------------------


class _Collected(Exception):  # noqa: N818  # no error: the message is there, and goes no further
    """End of the making of a message."""


class _Desk:
    """Grid for one proxy of a client, which first takes its message, then hands it the reply."""

    def __init__(self, run: Any) -> None:
        self.run = run
        self.message: Any = None
        self.replies: list[Any] | None = None

    def send_and_receive(self, messages: Sequence[Any], **_: Any) -> list[Any]:
        """Take the message and break off, or return the reply to it."""
        if self.replies is None:
            [self.message] = messages
            raise _Collected
        return self.replies


def _old_replacements(grid: VirtualGrid) -> Iterator[tuple[Any, str, Any]]:
    """Return what is replaced for server apps of before the message API: owner, name, value.

    Flower runs these with threads whose order depends on the host's time. Here all messages of a
    step are sent together, and answers come in the order of arrival in virtual time.
    """
    server = versions.module("flwr.server.server")
    for name, method in (("fit_clients", "fit"), ("evaluate_clients", "evaluate")):
        yield server, name, _together(grid, method)
    app = versions.module("flwr.server.compat.app")
    workflows = importlib.import_module("flwr.server.workflow.default_workflows")
    for module in (app, workflows):
        yield module, "start_update_client_manager_thread", _node_updates
    yield app, "run_fl", _telling(grid, app.run_fl, lambda server, config: server.strategy)
    workflow = workflows.DefaultWorkflow
    of_workflow = _telling(grid, workflow.__call__, lambda self, of, context: context.strategy)
    yield workflow, "__call__", of_workflow


def _together(grid: VirtualGrid, method: str) -> Callable[..., Any]:
    """Return `fit_clients` or `evaluate_clients` that send all messages together."""

    def clients(
        client_instructions: Sequence[tuple[Any, Any]],
        max_workers: int | None,
        timeout: float | None,
        group_id: int,
    ) -> tuple[list[Any], list[Any]]:
        messages = []
        for proxy, instruction in client_instructions:
            desk = _Desk(grid.run)
            proxy.grid = desk
            try:
                getattr(proxy, method)(instruction, timeout=timeout, group_id=group_id)
            except _Collected:
                messages.append(desk.message)
            else:
                raise AssertionError("a proxy answers only what was sent")
            finally:
                proxy.grid = grid
        replies = grid.send_and_receive(messages, timeout=timeout)
        asked = {
            message.metadata.message_id: sent
            for message, sent in zip(messages, client_instructions, strict=True)
        }
        results: list[Any] = []
        failures: list[Any] = []
        for reply in replies:
            proxy, instruction = asked.pop(reply.metadata.reply_to_message_id)
            proxy.grid = desk = _Desk(grid.run)
            desk.replies = [reply]
            try:
                res = getattr(proxy, method)(instruction, timeout=timeout, group_id=group_id)
            except ValueError as fault:  # the reply is the error of a lost client
                failures.append(fault)
                continue
            finally:
                proxy.grid = grid
            is_ok = int(res.status.code.value) == 0
            (results if is_ok else failures).append((proxy, res))
        for proxy, _ in asked.values():
            failures.append(TimeoutError(f"node {proxy.node_id} was late"))
        return results, failures

    return clients


def _node_updates(
    grid: Any, client_manager: Any
) -> tuple[threading.Thread, threading.Event, threading.Event]:
    """Let a client manager look for nodes whenever it is asked for some; start no thread."""
    proxies = versions.module("flwr.server.compat.grid_client_proxy")
    registered: dict[int, Any] = {}

    def update() -> None:
        nodes = list(grid.get_node_ids())
        for node in sorted(set(registered) - set(nodes)):
            client_manager.unregister(registered.pop(node))
        for node in nodes:
            if node not in registered:
                proxy = proxies.GridClientProxy(node_id=node, grid=grid, run_id=grid.run.run_id)
                client_manager.register(proxy)
                registered[node] = proxy

    def updated(ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **kwargs: Any) -> Any:
            update()
            return ask(*args, **kwargs)

        return asked

    def wait_for(num_clients: int, timeout: float = 86_400.0) -> bool:
        # Longer than the four weeks of the clock's own limit: it tells why nobody comes.
        grid.wait_for(num_clients, every_s=_OLD_POLL_S)
        update()
        return True

    for name in ("num_available", "all", "sample"):
        setattr(client_manager, name, updated(getattr(client_manager, name)))
    client_manager.wait_for = wait_for
    update()
    thread, done = threading.Thread(target=lambda: None), threading.Event()
    thread.start()
    done.set()
    return thread, threading.Event(), done


def _with_loss(result: tuple[float | None, dict[str, Any]] | None) -> dict[str, Any] | None:
    """Return the loss and the metrics in what a strategy has measured, if it has."""
    return None if result is None else {"loss": result[0], **result[1]}


def _tells(
    grid: VirtualGrid,
    call: Callable[..., Any],
    metrics_of: Callable[[Any], dict[str, Any] | None],
    *,
    of_clients: bool,
) -> Callable[..., Any]:
    """Return a call that tells the grid the metrics in its result, if it has any."""

    def telling(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        metrics = metrics_of(result)
        if metrics is not None:
            grid.tell(metrics, of_clients=of_clients)
        return result

    return telling


def _telling(
    grid: VirtualGrid, call: Callable[..., Any], strategy_of: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a call whose strategy, found among its arguments, tells the grid its evaluations."""

    def telling(*args: Any, **kwargs: Any) -> Any:
        strategy = strategy_of(*args, **kwargs)
        strategy.evaluate = _tells(grid, strategy.evaluate, _with_loss, of_clients=False)
        strategy.aggregate_evaluate = _tells(
            grid,
            strategy.aggregate_evaluate,
            lambda result: None if result[0] is None else _with_loss(result),
            of_clients=True,
        )
        return call(*args, **kwargs)

    return telling
