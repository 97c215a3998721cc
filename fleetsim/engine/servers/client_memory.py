"""Arrays of clients' own training: those that clients keep, and those of the server.

A client's arrays travel in its job and come back in the result. They change when its update is
aggregated, together with the server's, and not otherwise (decision 50).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fleetsim.contracts import (
    Arrays,
    ClientTraining,
    JobResult,
    Parameters,
    Report,
    ServerPart,
    ServerStart,
    ServerStep,
    State,
    Wire,
)
from fleetsim.contracts.recording import joined, part_of
from fleetsim.engine.servers.user_part import UserPart, are_plain_arrays, form_of
from fleetsim.host.user_code import user_code
from fleetsim.quoting import type_name

_KEPT, _SERVER = "kept", "server"


class ClientMemory:
    """Arrays that clients and the server keep for the clients' own training."""

    def __init__(
        self,
        algorithm: ClientTraining,
        start: ServerStart,
        *,
        num_parameters: int,
        user: UserPart | None,
    ) -> None:
        self._part = algorithm if isinstance(algorithm, ServerPart) else None
        self._user = user
        self._name = type(algorithm).__name__
        self._start = start
        self.wire = Wire()
        self._kept: dict[int, Arrays] = {}
        self._server: Arrays = {}
        if self._part is not None:
            wire: Any = self._asked("wire", num_parameters)
            if not isinstance(wire, Wire) or not all(
                isinstance(n, int) for n in (wire.download_byte, wire.upload_byte)
            ):
                raise self._fault("wire", f"must return a Wire of whole numbers, got {wire!r}")
            self.wire = wire
            self._server = self._arrays("start_server", self._asked("start_server", start))
            self.sent_with_model()

    def kept_by(self, client: int) -> Arrays:
        """Return the arrays that a client kept; empty before its first aggregated task."""
        return self._kept.get(client, {})

    def sent_with_model(self) -> Arrays:
        """Return the arrays that clients receive beside the model."""
        if self._part is None:
            return {}
        arrays = self._arrays("broadcast", self._asked("broadcast", self._server))
        self._check_bytes("broadcast", arrays, self.wire.download_byte)
        return arrays

    def fault(self, sent: Arrays | None) -> str | None:
        """Return why the server refuses arrays that a client sent; None if it takes them."""
        self._check_bytes("ClientUpdate.sent", sent or {}, self.wire.upload_byte)
        for name, array in (sent or {}).items():
            num_broken = array.size - int(np.count_nonzero(np.isfinite(array)))
            if num_broken:
                return f"{num_broken} of {array.size} numbers of its array {name} are not finite"
        return None

    def step(
        self, before: Parameters, after: Parameters, reports: Sequence[Report]
    ) -> tuple[Parameters, Arrays]:
        """Return the next model and server arrays; `after` is aggregated from `before` [P]."""
        if self._part is None:
            return after, self._server
        in_order = sorted(reports, key=lambda report: (report.client, report.dispatched_at_s))
        step = ServerStep(self._start, before, after, in_order)
        answer = self._asked("server_step", self._server, step)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            got = type_name(answer)
            raise self._fault("server_step", f"must return (model, arrays), got {got}")
        given, shape = answer[0], before.shape
        if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype.kind != "f":
            got = f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else repr(given)
            raise self._fault(
                "server_step", f"must return a model of floats of shape {shape}, got {got}"
            )
        return given.astype(before.dtype, copy=False), self._arrays("server_step", answer[1])

    def keep(self, server: Arrays, results: Iterable[tuple[int, JobResult]]) -> None:
        """Replace the arrays of the server, and of the clients whose results are aggregated."""
        self._server = server
        for client, result in results:
            if result.state is None:
                continue
            known = next(iter(self._kept.values()), result.state)
            if form_of(known) != form_of(result.state):
                raise self._fault(
                    "ClientUpdate.state",
                    f"of client {client} is {form_of(result.state)}, and of others"
                    f" {form_of(known)}; all clients must keep arrays of the same names and shapes",
                )
            self._kept[client] = result.state

    def state(self) -> State:
        """Return everything that `restore` needs."""
        state = joined({_SERVER: self._server})
        if self._kept:
            clients = sorted(self._kept)
            state["clients"] = np.array(clients, dtype=np.int64)
            names = self._kept[clients[0]]
            stacked = {name: np.stack([self._kept[c][name] for c in clients]) for name in names}
            state |= joined({_KEPT: stacked})
        return state

    def restore(self, state: State) -> None:
        """Restore a result of `state`."""
        self._server = part_of(state, _SERVER)
        kept = part_of(state, _KEPT)
        clients: list[int] = state["clients"].tolist() if "clients" in state else []
        self._kept = {
            client: {name: stacked[row] for name, stacked in kept.items()}
            for row, client in enumerate(clients)
        }

    def _asked(self, method: str, *arguments: Any) -> Any:
        call = getattr(self._part, method)
        if self._user is None:
            return call(*arguments)
        with user_code(f"{self._user.name}: {method}"):
            return call(*arguments)

    def _fault(self, method: str, text: str) -> Exception:
        if self._user is None:
            return ValueError(f"{self._name}.{method} {text}")
        return self._user.error(f"{method} {text}")

    def _arrays(self, method: str, answer: Any) -> Arrays:
        if not are_plain_arrays(answer):
            got = type_name(answer)
            must = "must return a dict of arrays without objects, by name"
            raise self._fault(method, f"{must}, got {got}")
        return answer

    def _check_bytes(self, what: str, arrays: Arrays, most_byte: int) -> None:
        num_byte = sum(array.nbytes for array in arrays.values())
        if num_byte > most_byte:
            raise self._fault(
                what,
                f"has {num_byte} bytes, and wire says at most {most_byte}; tasks are timed by what"
                " wire says, so that it must return more",
            )
