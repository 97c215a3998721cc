"""Server apps of before the message API: `server_fn`, strategies with `configure_fit`.

Flower runs them with threads whose order depends on the host's time. Here all messages of a step
are sent together, and answers come in the order of arrival in virtual time.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fleetsim.flower import versions

if TYPE_CHECKING:
    from fleetsim.flower.grid import VirtualGrid

Replacement = tuple[Any, str, Any]
"""Owner, name of the attribute, and its value."""

_POLL_S = 5.0
"""Seconds between two looks for nodes, as in flwr itself."""


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


def replacements(grid: VirtualGrid) -> Iterator[Replacement]:
    """Return what is replaced in Flower while a server app runs."""
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
        grid.wait_for(num_clients, every_s=_POLL_S)
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


def _telling_strategy(grid: VirtualGrid, strategy: Any) -> None:
    """Let a strategy tell the grid what it has evaluated on the server, and aggregated."""
    for name, of_clients in (("evaluate", False), ("aggregate_evaluate", True)):
        call = getattr(strategy, name)
        setattr(strategy, name, telling(grid, call, _with_loss, of_clients=of_clients))


def _with_loss(result: tuple[float | None, dict[str, Any]] | None) -> dict[str, Any] | None:
    """Return the loss and the metrics in what a strategy has measured, if it has."""
    return None if result is None or result[0] is None else {"loss": result[0], **result[1]}


def telling(
    grid: VirtualGrid,
    call: Callable[..., Any],
    metrics_of: Callable[[Any], dict[str, Any] | None],
    *,
    of_clients: bool,
) -> Callable[..., Any]:
    """Return a call that tells the grid the metrics in its result, if it has any."""

    def told(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        metrics = metrics_of(result)
        if metrics is not None:
            grid.tell(metrics, of_clients=of_clients)
        return result

    return told


def _telling(
    grid: VirtualGrid, call: Callable[..., Any], strategy_of: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a call whose strategy, found among its arguments, tells the grid."""

    def told(*args: Any, **kwargs: Any) -> Any:
        _telling_strategy(grid, strategy_of(*args, **kwargs))
        return call(*args, **kwargs)

    return told
