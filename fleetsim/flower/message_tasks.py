"""Tasks of messages: what a message to a client costs on the clock, and its end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleetsim.contracts import Outcome, ProbeRequest, Purpose, Work, WorkKind
from fleetsim.engine.servers.launcher import Launcher
from fleetsim.engine.servers.rounds import EndedTask
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.flower.client_nodes import ClientNodes, NodeMessage
from fleetsim.flower.costs import MessageCost
from fleetsim.flower.payload import metrics_of, payload_byte
from fleetsim.flower.rounds_of_messages import RoundsOfMessages
from fleetsim.units import BIT_PER_BYTE

NODE_UNAVAILABLE = 5
"""Flower's `ErrorCode.NODE_UNAVAILABLE`."""
_KINDS = {Purpose.TRAIN: 0, Purpose.PROBE: 1, Purpose.EVALUATE: 2}
"""First number of the address of a task's draws; those of training and probes are the engine's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a message."""

    message_id: str
    content: Any = None
    """Content of the reply; None: the client is lost."""
    lost: str = ""
    code: int = NODE_UNAVAILABLE


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message with its task."""

    message: NodeMessage
    cost: MessageCost
    task: Task


class MessageTasks:
    """Tasks of the messages of one run, in the order in which they are sent."""

    def __init__(self, launcher: Launcher, nodes: ClientNodes, rounds: RoundsOfMessages) -> None:
        self._launcher, self._nodes, self._rounds = launcher, nodes, rounds

    def prepare(self, messages: Sequence[NodeMessage]) -> tuple[list[Answer], list[SentMessage]]:
        """Return errors for clients that are not there, and the tasks of the others."""
        launcher = self._launcher
        there = set(launcher.world.eligible.candidates(launcher.now_s).tolist())
        answers = [
            Answer(message.id, lost="is not available")
            for message in messages
            if message.client not in there
        ]
        return answers, [self._sent(each) for each in messages if each.client in there]

    def _sent(self, message: NodeMessage) -> SentMessage:
        address = (_KINDS[message.purpose], self._rounds.number, self._rounds.num_batches)
        message = replace(message, address=address)
        cost = self._nodes.cost(message)
        kind = WorkKind.TRAIN if message.purpose is Purpose.TRAIN else WorkKind.EVALUATE
        if not cost.work.flop and message.purpose is Purpose.PROBE:
            kind = WorkKind.NONE
        work = Work(kind, counted=None if kind is WorkKind.NONE else cost.work)
        request: TrainingRequest | ProbeRequest = ProbeRequest(message.client, work)
        if message.purpose is Purpose.TRAIN:
            request = TrainingRequest(message.client, work)
        task = Task(
            number=self._launcher.number(),
            round=self._rounds.number,
            request=request,
            work=work,
            job=None,
            address=address,
            version=-1,
            download_bit=payload_byte(message.message.content) * BIT_PER_BYTE,
            upload_bit=cost.upload_byte * BIT_PER_BYTE,
            dispatched_at_s=self._launcher.now_s,
        )
        return SentMessage(message, cost, task)

    def end(self, sent: SentMessage, result: TaskResult, waiting_j: float | None) -> Answer | None:
        """Take in the end of a task; return its answer, None if none comes."""
        message, content = sent.message, None
        if result.is_delivered:
            computed = self._nodes.reply(message, sent.cost)
            content = computed.content
            if computed.error is not None:
                result = result._replace(outcome=Outcome.CRASHED)
                self._rounds.add(EndedTask(result, message.purpose, waiting_j))
                return Answer(message.id, lost=computed.error[1], code=computed.error[0])
        else:
            self._nodes.drop(message)
        metrics = {} if content is None else metrics_of(content)
        self._rounds.add(EndedTask(result, message.purpose, waiting_j, metrics=metrics))
        if content is not None:
            return Answer(message.id, content)
        if result.outcome in (Outcome.LATE, Outcome.CANCELLED):
            return None
        return Answer(message.id, lost=f"was lost: {result.outcome.value}")
