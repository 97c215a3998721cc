"""Tasks of messages: what one costs on the clock and how it ends, sent together or pushed."""

import math
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleetsim.contracts import Outcome, ProbeRequest, Purpose, Work, WorkKind
from fleetsim.engine.event_order import Rank, priority
from fleetsim.engine.servers.launcher import Launcher
from fleetsim.engine.servers.rounds import EndedTask
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.errors import ScenarioError
from fleetsim.flower.client_nodes import ClientNodes, NodeMessage
from fleetsim.flower.costs import MessageCost, metrics_of, payload_byte
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


class PushedMessages:
    """Pushed messages of one run until their answers are pulled."""

    def __init__(self, launcher: Launcher, tasks: MessageTasks) -> None:
        self._launcher, self._clock, self._tasks = launcher, launcher.clock, tasks
        self._waiting_j = 0.0 if launcher.waiting.is_charged else None
        """Joules of waiting of each; None: waiting is not charged at all."""
        self._running: dict[int, tuple[SentMessage, TaskBatch]] = {}
        self._queues: dict[int, deque[NodeMessage]] = {}
        """Messages that wait for the end of their client's task."""
        self._mail: dict[str, Answer] = {}
        """Answers that have arrived and were not pulled, in the order of arrival."""
        self._outstanding: dict[str, int] = {}

    @property
    def at_work(self) -> Collection[int]:
        """Clients with a running task."""
        return self._running.keys()

    @property
    def is_quiet(self) -> bool:
        """True if no task is in flight, and no answer is left."""
        return not self._running and not self._mail and not self._outstanding

    @property
    def next_end_s(self) -> float:
        """Moment of the next end of a task; infinite if none is in flight."""
        ends_s = (float(batch.closing(1)[0]) for _, batch in self._running.values())
        return min(ends_s, default=math.inf)

    def push(self, messages: Sequence[NodeMessage]) -> None:
        """Send messages, each as a running task."""
        if self._launcher.world.fleet.access.shared is not None:
            raise ScenarioError(
                "fleet.shared_links: messages that are pushed one at a time are laid out one at a"
                " time, and influence each other only within send_and_receive; leave"
                " fleet.shared_links out"
            )
        for message in messages:
            self._outstanding[message.id] = message.client
            if message.client in self._running:
                self._queues.setdefault(message.client, deque()).append(message)
            else:
                self._fly(message)

    def awaited(self, message_ids: Collection[str]) -> set[str]:
        """Return those of these messages that have no answer yet."""
        return {each for each in message_ids if each in self._outstanding}

    def take(self, message_ids: Collection[str]) -> list[Answer]:
        """Take the answers to these messages that have arrived, in the order of arrival."""
        ids = set(message_ids)
        return [self._mail.pop(key) for key in list(self._mail) if key in ids]

    def give_up(self, message_ids: Collection[str]) -> None:
        """Cut off messages at a timeout: answers never come, and waiting messages never begin."""
        late = set(message_ids)
        for client, queue in self._queues.items():
            self._queues[client] = deque(each for each in queue if each.id not in late)
        for sent, batch in list(self._running.values()):
            if sent.message.id in late:
                self._cut(sent, batch, Rank.DEADLINE, Outcome.LATE)
        for message_id in late:
            self._outstanding.pop(message_id, None)
            self._mail.pop(message_id, None)

    def stop(self) -> None:
        """Cut off all running tasks at the end of the run, and drop what is left."""
        self._queues.clear()
        for sent, batch in list(self._running.values()):
            self._cut(sent, batch, Rank.STOP, Outcome.CANCELLED)
        self._mail.clear()
        self._outstanding.clear()

    def _fly(self, message: NodeMessage) -> None:
        errors, prepared = self._tasks.prepare([message])
        for error in errors:
            self._arrive(error)
        if not prepared:
            return
        [sent] = prepared
        batch = self._launcher.launch([sent.task], message.message.metadata.ttl)
        self._running[message.client] = (sent, batch)
        end = self._clock.place(*batch.closing(1))
        assert end.callbacks is not None
        end.callbacks.append(lambda _: self._land(sent, batch))

    def _cut(self, sent: SentMessage, batch: TaskBatch, rank: Rank, outcome: Outcome) -> None:
        batch.cut(self._launcher.now_s, priority(rank), outcome)
        self._land(sent, batch)

    def _land(self, sent: SentMessage, batch: TaskBatch) -> None:
        """End a running task, unless it was ended before, and begin the next of its client."""
        client = sent.message.client
        if client not in self._running or self._running[client][1] is not batch:
            return
        del self._running[client]
        [result] = self._launcher.settle(batch)
        answer = self._tasks.end(sent, result, self._waiting_j)
        if answer is None:
            # Its message has expired, which the server app is told.
            answer = Answer(sent.message.id, lost=f"is {result.outcome.value}")
        self._arrive(answer)
        queue = self._queues.get(client, ())
        # A client that has gone answers all that waits with errors.
        while queue and client not in self._running:
            self._fly(queue.popleft())

    def _arrive(self, answer: Answer) -> None:
        self._outstanding.pop(answer.message_id, None)
        self._mail[answer.message_id] = answer
