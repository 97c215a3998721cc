"""The `Grid` of Flower that a server app talks to: nodes and messages on the virtual clock.

Client c is the node c + 2; node 1 is the server, as in Flower. Nodes are listed in this order, so
that a strategy that samples them from Python's seeded generator draws the same ones every time.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

from fleetsim.contracts import Purpose
from fleetsim.errors import DataError, FleetsimError
from fleetsim.flower import versions
from fleetsim.flower.call_record import CallRecord
from fleetsim.flower.client_nodes import NodeMessage
from fleetsim.flower.costs import pack, unpack
from fleetsim.flower.message_server import MessageServer
from fleetsim.flower.message_tasks import NODE_UNAVAILABLE, Answer
from fleetsim.quoting import quoted

_FIRST_NODE = versions.SERVER_NODE + 1
_PURPOSES = {
    "train": Purpose.TRAIN,
    "evaluate": Purpose.EVALUATE,
    "query": Purpose.PROBE,
}


class VirtualGrid:
    """Grid over a message server, its calls on record; without a base, as flwr may be missing."""

    def __init__(self, server: MessageServer, calls: CallRecord, *, num_clients: int) -> None:
        self._server, self._calls, self._num_clients = server, calls, num_clients
        self._records = versions.module("flwr.app", "flwr.common")
        self._run = versions.empty_run()
        self._num_messages = 0
        self._sent: dict[str, Any] = {}
        self._fresh: dict[str, bytes] = {}
        self.fault: FleetsimError | None = None
        """Fault of a call, which the run ends with even if the server app catches it."""
        self.is_in_call = False
        """True while a call of the server app is answered, in which client apps run."""

    # --- Flower's interface -----------------------------------------------------------------------

    def set_run(self, run: Any) -> None:
        """Set the run; it may be an id, as in older versions."""
        self._run = run if hasattr(run, "run_id") else versions.empty_run()

    @property
    def run(self) -> Any:
        """Flower's record of the run."""
        return self._run

    def create_message(
        self,
        content: Any,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Any:
        """Return a new message."""
        return self._records.Message(
            content, dst_node_id=dst_node_id, message_type=message_type, ttl=ttl, group_id=group_id
        )

    def get_node_ids(self) -> list[int]:
        """Return the nodes of clients that are eligible now or at work, in order."""

        def live() -> str:
            connected = [client + _FIRST_NODE for client in self._server.connected()]
            return self._store(json.dumps(connected).encode())

        answer = self._answer("get_node_ids", "", live)
        nodes: list[int] = json.loads(self._stored(str(answer)))
        return nodes

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        """Send messages as running tasks and return their ids."""
        sent = self._node_messages(messages)
        self._answer("push_messages", _asked(sent), lambda: self._server.push(sent))
        return [message.id for message in sent]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        """Return the replies that have arrived; if none has, virtual time passes until one does."""
        ids = list(message_ids)
        answer = self._answer(
            "pull_messages", json.dumps(sorted(ids)), lambda: self._answered(self._server.pull(ids))
        )
        return [self._reply(*each) for each in answer]

    def send_and_receive(
        self, messages: Iterable[Any], *, timeout: float | None = None
    ) -> list[Any]:
        """Send messages and return the replies that arrive within `timeout` virtual seconds."""
        sent = self._node_messages(messages)
        answer = self._answer(
            "send_and_receive",
            f"{_asked(sent)}/{timeout}",
            lambda: self._answered(self._server.send_and_receive(sent, timeout)),
        )
        replies = [self._reply(*each) for each in answer]
        for message in sent:
            self._sent.pop(message.id, None)
        return replies

    # --- what else a server app does --------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass instead of the host's."""
        self._answer("sleep", str(float(seconds)), lambda: self._server.sleep(seconds))

    def wait_for(self, num_nodes: int, *, every_s: float) -> None:
        """Let virtual time pass until so many nodes are connected."""
        self._answer(
            "wait_for",
            f"{num_nodes}/{every_s}",
            lambda: self._server.wait_for(num_nodes, every_s=every_s),
        )

    def tell(self, metrics: dict[str, Any], *, of_clients: bool) -> None:
        """Take in metrics of the open round, as `RoundsOfMessages.tell` does."""
        if not self._calls.is_replaying:
            self._server.rounds.tell(metrics, of_clients=of_clients)

    def _answer(self, call: str, asked: str, live: Callable[[], Any]) -> Any:
        self.is_in_call = True
        try:
            return self._calls.answer(call, asked, live)
        except FleetsimError as fault:
            self.fault = fault
            raise
        finally:
            self.is_in_call = False

    # --- messages ---------------------------------------------------------------------------------

    def _node_messages(self, messages: Iterable[Any]) -> list[NodeMessage]:
        sent = []
        for message in messages:
            client = int(message.metadata.dst_node_id) - _FIRST_NODE
            kind = str(message.metadata.message_type)
            purpose = _PURPOSES.get(kind.partition(".")[0])
            if not 0 <= client < self._num_clients or purpose is None:
                raise DataError(
                    f"the server app sends a message of type {quoted(kind)} to node"
                    f" {message.metadata.dst_node_id}; types are {', '.join(_PURPOSES)}, nodes are"
                    f" {_FIRST_NODE} to {_FIRST_NODE + self._num_clients - 1}"
                )
            self._num_messages += 1
            number = f"m{self._num_messages}"
            message.metadata.__dict__["_message_id"] = number
            self._sent[number] = message
            packed = pack(message.content)
            sent.append(NodeMessage(number, client, purpose, (), message, packed))
        return sent

    def _answered(self, answers: list[Answer]) -> list[Any]:
        """Return answers as the record keeps them: [id, digest of the content, cause, code]."""
        return [
            [
                answer.message_id,
                None if answer.content is None else self._store(pack(answer.content)),
                answer.lost,
                answer.code,
            ]
            for answer in answers
        ]

    def _reply(self, message_id: str, digest: str | None, lost: str, code: int) -> Any:
        instruction = self._sent.pop(message_id)
        number = f"r{message_id[1:]}"
        if digest is None:
            node = f"node {instruction.metadata.dst_node_id} "
            reason = f"{node if code == NODE_UNAVAILABLE else ''}{lost}"
            error = self._records.Error(code, reason)
            reply = self._records.Message(error, reply_to=instruction)
        else:
            content = unpack(self._stored(digest))
            reply = self._records.Message(content, reply_to=instruction)
        reply.metadata.__dict__["_message_id"] = number
        return reply

    def _store(self, data: bytes) -> str:
        digest = self._calls.put(data)
        self._fresh[digest] = data
        return digest

    def _stored(self, digest: str) -> bytes:
        data = self._fresh.pop(digest, None)
        return self._calls.get(digest) if data is None else data


def _asked(sent: list[NodeMessage]) -> str:
    """Return the digest of messages: their nodes, types and contents."""
    digest = hashlib.sha256()
    for message in sent:
        metadata = message.message.metadata
        head = [message.client, metadata.message_type, metadata.group_id, metadata.ttl]
        digest.update(json.dumps(head).encode() + hashlib.sha256(message.packed).digest())
    return digest.hexdigest()


def flower_grid(server: MessageServer, calls: CallRecord, *, num_clients: int) -> VirtualGrid:
    """Return a `VirtualGrid` that is a `flwr.serverapp.Grid`."""
    base = versions.module("flwr.serverapp").Grid
    made: VirtualGrid = type("FlowerGrid", (VirtualGrid, base), {})(
        server, calls, num_clients=num_clients
    )
    return made
