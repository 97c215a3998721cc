"""Nodes that run the client app: their state, their replies, and what messages cost them.

A reply is a pure function of the message, the node's state and an address of random draws, computed
when a task has been delivered. The first message of a kind to a client is computed when it is
dispatched, to measure what it costs; if it is lost, reply and state are dropped.
"""

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fleetsim.contracts import IntArray, Purpose, State
from fleetsim.errors import DataError, FleetsimError
from fleetsim.flower import versions
from fleetsim.flower.app import App
from fleetsim.flower.costs import (
    COSTS,
    MessageCost,
    kind_of,
    metrics_of,
    num_samples_of,
    pack,
    payload_byte,
    unpack,
)
from fleetsim.host.user_code import crash_file
from fleetsim.learning.global_generators import addressed
from fleetsim.quoting import one_line, quoted, type_name
from fleetsim.user.models.counted_operations import counting

_CONTEXT = "context/"
_COSTS = "costs"
_RAISED = 2
"""Flower's `ErrorCode.CLIENT_APP_RAISED_EXCEPTION`."""
_OF_APPS = (Exception, SystemExit, GeneratorExit)
"""All that an app's code raises for itself; an interrupt is the user's."""


@dataclass(frozen=True, slots=True)
class NodeMessage:
    """A message on its way to a client."""

    id: str
    client: int
    purpose: Purpose
    address: tuple[int, ...]
    message: Any
    packed: bytes

    @property
    def title(self) -> str:
        """Words that name it in an error."""
        kind = quoted(self.message.metadata.message_type)
        return f"{kind} message {self.id} to client {self.client}"


@dataclass(frozen=True, slots=True)
class Computed:
    """A reply, and the state of the node after it."""

    content: Any
    state: Any
    error: tuple[int, str] | None = None
    """Flower's code and reason of the error that it is instead."""


class ClientNodes:
    """Nodes of all clients."""

    def __init__(
        self,
        app: App,
        client_app: Any,
        *,
        num_clients: int,
        seed: int,
        stops_at_errors: bool = False,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        """Load nothing; the first fault of an app ends the run if `stops_at_errors`, or is told."""
        self._stops_at_errors, self._on_note = stops_at_errors, on_note
        self._app, self._client_app, self._seed = app, client_app, seed
        self._records = versions.module("flwr.app", "flwr.common")
        self._states: dict[int, Any] = {}
        self._costs: dict[str, MessageCost] = {}
        self._measured: dict[str, Computed] = {}
        """Replies that were computed to measure them, by the message, until they are taken."""
        self.num_samples: IntArray = np.zeros(num_clients, dtype=np.int64)
        """Most samples that each client has trained on in one message, as far as it is known."""
        self.num_calls = 0

    def cost(self, sent: NodeMessage) -> MessageCost:
        """Return what a message costs its client; measured for the first of its kind."""
        settings = self._app.settings.of(sent.purpose)
        if settings.is_complete:
            assert settings.upload_byte is not None
            return MessageCost(settings.work(settings.num_samples or 0), settings.upload_byte)
        kind = self._kind(sent)
        if settings.measure == "once" and kind in self._costs:
            return self._costs[kind]
        with counting() if settings.counts_flop else nullcontext() as count:
            computed = self._compute(sent, keeps_state=True)
        if computed.error is not None:
            # Not remembered: the next message of this kind may succeed.
            self._measured[sent.id] = computed
            done = settings.work(settings.num_samples or 0) if count is None else count.work(0)
            return MessageCost(done, len(computed.error[1].encode()))
        declared = num_samples_of(metrics_of(computed.content))
        num_samples = settings.num_samples or declared or 0
        work = settings.work(num_samples) if count is None else count.work(num_samples)
        if count is not None and not work.flop and sent.purpose is not Purpose.PROBE:
            raise DataError(
                f"{self._app.folder}: torch counted no FLOP in a {sent.title}; declare them in"
                f" pyproject.toml: [tool.fleetsim] {sent.purpose.value}.flop = ... (0 if there are"
                " none)"
            )
        upload_byte = settings.upload_byte
        if upload_byte is None:
            upload_byte = payload_byte(computed.content)
        self._measured[sent.id] = computed
        self._costs[kind] = MessageCost(work, upload_byte)
        return self._costs[kind]

    def reply(self, sent: NodeMessage, cost: MessageCost) -> Computed:
        """Return the reply to a delivered message; the node's state moves on, unless it failed."""
        computed = self._measured.pop(sent.id, None)
        if computed is None:
            computed = self._compute(sent, keeps_state=not self._stops_at_errors)
            if computed.error is None:
                self._check(sent, cost, computed.content)
        if computed.error is not None:
            return computed
        if len(computed.state):
            self._states[sent.client] = computed.state
        if sent.purpose is Purpose.TRAIN:
            known = self.num_samples[sent.client]
            self.num_samples[sent.client] = max(known, cost.work.num_samples)
        return computed

    def drop(self, sent: NodeMessage) -> None:
        """Drop the reply to a message that was not delivered."""
        self._measured.pop(sent.id, None)

    def _kind(self, sent: NodeMessage) -> str:
        content = sent.message.content
        ignored = self._app.settings.same_cost_config
        parts = [sent.client, sent.message.metadata.message_type]
        return json.dumps([*parts, kind_of(content, ignored=ignored)])

    def _check(self, sent: NodeMessage, cost: MessageCost, content: Any) -> None:
        settings = self._app.settings.of(sent.purpose)
        pairs = []
        if settings.upload_byte is None:
            pairs.append(("byte", payload_byte(content), cost.upload_byte))
        declared = num_samples_of(metrics_of(content))
        if settings.num_samples is None and declared is not None:
            pairs.append(("sample(s)", declared, cost.work.num_samples))
        for unit, now, before in pairs:
            if now != before:
                raise DataError(
                    f"{self._app.folder}: the reply to the {sent.title} has {now} {unit}, the first"
                    f" one of its kind had {before}; set [tool.fleetsim]"
                    f' {sent.purpose.value}.measure = "always" in pyproject.toml'
                )

    def _compute(self, sent: NodeMessage, *, keeps_state: bool) -> Computed:
        """Call the client app; with `keeps_state` the node's own state does not change."""
        state = self._states.get(sent.client)
        if state is None:
            state = self._records.RecordDict()
        elif keeps_state:
            state = unpack(pack(state))
        context = self._records.Context(
            run_id=versions.RUN_ID,
            node_id=sent.message.metadata.dst_node_id,
            node_config={"partition-id": sent.client, "num-partitions": self.num_samples.size},
            state=state,
            run_config=dict(self._app.config),
        )
        # Sent bytes, so that nothing that a client changes is seen by the server or another one.
        message = self._records.Message(
            unpack(sent.packed),
            dst_node_id=sent.message.metadata.dst_node_id,
            message_type=sent.message.metadata.message_type,
            ttl=sent.message.metadata.ttl,
            group_id=sent.message.metadata.group_id,
        )
        message.metadata.__dict__["_message_id"] = sent.id
        self.num_calls += 1
        with (
            addressed(
                self._seed,
                "flower/client-app",
                sent.client,
                *sent.address,
                on_cuda=torch.cuda.is_available(),
            ),
            errors_of_app(self._app, f"the ClientApp, at the {sent.title},"),
        ):
            try:
                reply = self._client_app(message, context)
            except FleetsimError:
                raise
            except _OF_APPS as fault:
                if self._stops_at_errors:
                    raise
                place, cause = _origin(self._app, fault)
                return self._failed(sent, _RAISED, f"{place}: {type(cause).__name__}: {cause}")
        if not isinstance(reply, self._records.Message):
            text = f"the ClientApp returned {type_name(reply)}, not a Message"
            return self._failed(sent, _RAISED, f"{self._app.folder}: {text}")
        if not reply.has_content():
            return self._failed(sent, int(reply.error.code), str(reply.error.reason))
        return Computed(reply.content, context.state)

    def _failed(self, sent: NodeMessage, code: int, reason: str) -> Computed:
        text = f"{self._app.client_app}: the {sent.title} failed: {one_line(reason)}"
        if self._stops_at_errors:
            raise DataError(text)
        if self._on_note is not None:
            note, self._on_note = self._on_note, None
            note(f"{text}; the server app gets an error reply, as for all others")
        return Computed(None, None, (code, one_line(reason)))

    # --- stop and resume --------------------------------------------------------------------------

    def state(self) -> State:
        """Return everything that `restore` needs."""
        costs = COSTS.dump_json(dict(sorted(self._costs.items())))
        state: State = {
            "num_samples": self.num_samples,
            _COSTS: np.frombuffer(costs, dtype=np.uint8),
        }
        for client, record in sorted(self._states.items()):
            state[f"{_CONTEXT}{client}"] = np.frombuffer(pack(record), dtype=np.uint8)
        return state

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.num_samples = state["num_samples"].astype(np.int64)
        self._costs = COSTS.validate_json(state[_COSTS].tobytes())
        for key, packed in state.items():
            if key.startswith(_CONTEXT):
                self._states[int(key.removeprefix(_CONTEXT))] = unpack(packed.tobytes())


def _origin(app: App, fault: BaseException) -> tuple[str, BaseException]:
    # Flower wraps what an app raises in an error of its own.
    cause = fault.__cause__ if type(fault).__module__.startswith("flwr") else None
    cause = cause or fault
    frames = [
        frame
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename.startswith(str(app.folder))
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(app.folder), cause


@contextmanager
def errors_of_app(app: App, who: str) -> Iterator[None]:
    """Turn an app's exception into one line with its place; the current folder is restored."""
    try:
        with chdir("."):
            yield
    except FleetsimError:
        raise
    except _OF_APPS as fault:
        place, cause = _origin(app, fault)
        text = one_line(f"{type(cause).__name__}: {cause}")
        raise DataError(
            f"{place}: {who} raised {text}; its traceback is in {crash_file(fault)}"
        ) from fault
