"""Messages as tasks on the virtual clock.

A message to a client is a task: its download is the message's content, its computation what the
client app does, its upload the reply. The server app runs outside of the clock. When it sends,
pulls or sleeps, the clock runs on until there is an answer for it; its own computation takes no
virtual time.

- `send_and_receive`: all messages are dispatched together. Replies come in the order of arrival.
  Those of lost clients are errors. At the timeout all other clients are cut off, and released.
- `push` and `pull`: each message is a task of its own in flight. A message to a busy client waits
  for the end of its task. `pull` advances the clock to the next end if nothing has arrived.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fleetsim.contracts import (
    ClientColumns,
    ModelCost,
    Outcome,
    ProbeRequest,
    Progress,
    Purpose,
    Recorder,
    State,
    StopReason,
    Work,
    WorkKind,
)
from fleetsim.engine.event_order import Clock, Rank, priority
from fleetsim.engine.servers.rounds import check_bytes, client_columns
from fleetsim.engine.servers.stop import StopSettings, too_few_clients
from fleetsim.engine.servers.waiting_clients import EnergySettings, WaitingClients
from fleetsim.engine.tasks.interruption import InterruptionSettings
from fleetsim.engine.tasks.task import Task, TaskResult, TrainingRequest
from fleetsim.engine.tasks.task_batch import TaskBatch
from fleetsim.engine.world import World
from fleetsim.errors import ScenarioError
from fleetsim.flower.call_record import CallRecord
from fleetsim.flower.client_nodes import ClientNodes, NodeMessage
from fleetsim.flower.costs import AppSettings, MessageCost
from fleetsim.flower.payload import metrics_of, payload_byte
from fleetsim.flower.rounds_of_messages import EndedMessage, RoundsOfMessages
from fleetsim.units import BIT_PER_BYTE

_NO_MODEL = ModelCost({}, num_parameters=0, payload_byte=0)
_KINDS = {Purpose.TRAIN: 0, Purpose.PROBE: 1, Purpose.EVALUATE: 2}
"""First number of the address of a task's draws; those of training and probes are the engine's."""


class RunStopped(BaseException):
    """End of a run by a rule of the scenario, while the server app would go on.

    No `Exception`: it passes through the app's own handlers.
    """

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.text)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer to a message."""

    message_id: str
    content: Any = None
    """Content of the reply; None: the client is lost."""
    lost: str = ""
    """Cause of the loss."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A message with its task."""

    message: NodeMessage
    cost: MessageCost
    task: Task


@dataclass(frozen=True, slots=True)
class _Flight:
    """A task in flight that was pushed."""

    sent: _Sent
    batch: TaskBatch


class MessageServer:
    """Clock, world and rounds of one run of an app."""

    def __init__(
        self,
        world: World,
        nodes: ClientNodes,
        recorder: Recorder,
        calls: CallRecord,
        *,
        stop: StopSettings,
        energy: EnergySettings,
        interruption: InterruptionSettings,
        settings: AppSettings,
        state: State | None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        """Begin at virtual time 0, or at the moment of a state from a checkpoint."""
        self._world, self._nodes, self._calls = world, nodes, calls
        self._stop, self._energy, self._interruption = stop, energy, interruption
        now_s = 0.0 if state is None else float(state["server/now_s"])
        self._clock = Clock(now_s, clients_at_work=world.fleet.size)
        self._time_is_up = self._clock.at(max(stop.time_s, now_s), Rank.STOP)
        self._waiting = WaitingClients(world, energy)
        self.rounds = RoundsOfMessages(world, recorder, settings, on_progress)
        self._next_task = 0
        self._num_batches = 0
        """Batches of the present round, part of the address of draws."""
        self._flights: dict[int, _Flight] = {}
        """Tasks in flight by client."""
        self._queues: dict[int, deque[NodeMessage]] = {}
        """Messages that wait for the end of their client's task."""
        self._mail: dict[str, Answer] = {}
        """Answers that have arrived and were not pulled, in the order of arrival."""
        self._outstanding: dict[str, int] = {}
        """Client of each pushed message without an answer."""
        if state is not None:
            self._restore(state)

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return float(self._clock.now)

    def clients(self) -> ClientColumns:
        """Return the clients table at this moment."""
        is_charged = self._energy.idle == "charged"
        columns = client_columns(self._world, self.now_s, charges_enlisted=is_charged)
        return replace(columns, num_samples=self._nodes.num_samples)

    # --- what the server app asks -----------------------------------------------------------------

    def connected(self) -> list[int]:
        """Return the clients that are eligible now, or at work."""
        candidates = self._world.eligible.candidates(self.now_s).tolist()
        return sorted({*candidates, *self._flights})

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._run_until(self.now_s + max(0.0, seconds))

    def wait_for(self, num_clients: int, *, every_s: float) -> None:
        """Let virtual time pass in steps until so many clients are connected.

        Steps at which no client's eligibility changes are taken together.

        Raises:
            RunStopped: so many clients will never be there.
        """
        since_s = self.now_s
        while (num := len(self.connected())) < num_clients:
            change_s = self._world.eligible.next_change_s(self.now_s)
            ends_s = min(
                (float(f.batch.closing(1)[0]) for f in self._flights.values()), default=math.inf
            )
            change_s = min(change_s, ends_s)
            reason = too_few_clients(
                now_s=self.now_s,
                since_s=since_s,
                change_s=change_s,
                minimum=num_clients,
                num_eligible=num,
            )
            if reason is not None:
                raise RunStopped(reason)
            steps = max(1, math.ceil((change_s - self.now_s) / every_s))
            self._run_until(self.now_s + steps * every_s)

    def send_and_receive(
        self, messages: Sequence[NodeMessage], timeout_s: float | None
    ) -> list[Answer]:
        """Send messages and return the answers that arrive in time, in the order of arrival."""
        if not messages:
            return []
        clients = [message.client for message in messages]
        if len(set(clients)) < len(clients) or self._flights:
            self.push(messages)
            return self._wait_for_answers([message.id for message in messages], timeout_s)
        self._begin(messages)
        answers, sent = self._prepare(messages)
        if not sent:
            return answers
        tasks = [each.task for each in sent]
        self._waiting.dispatch(tasks)
        batch = self._launch(tasks, timeout_s)
        closes_at_s, last = batch.closing(len(tasks))
        closed = self._clock.place(closes_at_s, last)
        self._clock.run(until=self._clock.any_of([closed, self._time_is_up]))
        is_closed = bool(closed.processed)
        batch.cut(self.now_s, last if is_closed else priority(Rank.STOP), Outcome.CANCELLED)
        results = batch.settle()
        self._waiting.add(batch, self.now_s)
        self._waiting.release()
        waiting_j = self._waiting.take_joules(results)
        in_order = sorted(
            zip(sent, results, waiting_j, strict=True),
            key=lambda entry: (entry[1].finished_at_s, entry[1].task.number),
        )
        answers += [
            answer
            for each, result, joules in in_order
            if (answer := self._end(each, result, joules))
        ]
        if not is_closed:
            self._finish(self._stop.time_is_up(num_waiting_for=0))
        return answers

    def push(self, messages: Sequence[NodeMessage]) -> None:
        """Send messages, each as a task in flight.

        Raises:
            ScenarioError: the fleet shares links, so that tasks in flight influence each other.
        """
        if self._world.fleet.links is not None:
            raise ScenarioError(
                "fleet.shared_links: messages that are pushed one at a time are laid out one at a"
                " time, and influence each other only within send_and_receive; leave"
                " fleet.shared_links out"
            )
        self._begin(messages)
        for message in messages:
            self._outstanding[message.id] = message.client
            if message.client in self._flights:
                self._queues.setdefault(message.client, deque()).append(message)
            else:
                self._fly(message)

    def pull(self, message_ids: Sequence[str]) -> list[Answer]:
        """Return the answers that have arrived; the next one is waited for if there is none."""
        wanted = set(message_ids)
        while not wanted & self._mail.keys():
            if not wanted & self._outstanding.keys() or not self._flights:
                return []
            self._run_until(min(f.batch.closing(1)[0] for f in self._flights.values()))
        return self._take(wanted)

    def _take(self, wanted: set[str]) -> list[Answer]:
        return [self._mail.pop(key) for key in list(self._mail) if key in wanted]

    def _wait_for_answers(
        self, message_ids: Sequence[str], timeout_s: float | None
    ) -> list[Answer]:
        """Wait until all of these are answered; at the timeout, cut off the others."""
        wanted, until_s = set(message_ids), math.inf
        if timeout_s is not None:
            until_s = self.now_s + timeout_s
        while wanted & self._outstanding.keys():
            next_s = min(f.batch.closing(1)[0] for f in self._flights.values())
            if next_s > until_s:
                self._run_until(until_s)
                for key in wanted & self._outstanding.keys():
                    self._give_up(key)
                break
            self._run_until(next_s)
        return self._take(wanted)

    # --- tasks ------------------------------------------------------------------------------------

    def _begin(self, messages: Sequence[NodeMessage]) -> None:
        """Begin a batch: another round, if it trains and the open round has trained."""
        is_train = any(message.purpose is Purpose.TRAIN for message in messages)
        if is_train and self.rounds.is_open_with_train:
            self._close_round()
            reason = self._stop.after_round(
                round_=self.rounds.num_closed,
                accuracy=self.rounds.accuracy,
                energy_total_j=self.rounds.energy_total_j,
            )
            if reason is not None:
                self._finish(reason)
        if self._time_is_up.processed:
            self._finish(self._stop.time_is_up(num_waiting_for=0))
        num_eligible = int(self._world.eligible.candidates(self.now_s).size)
        self.rounds.begin(now_s=self.now_s, num_eligible=num_eligible, is_train=is_train)
        self._num_batches += 1

    def _prepare(self, messages: Sequence[NodeMessage]) -> tuple[list[Answer], list[_Sent]]:
        """Return errors for clients that are not there, and the tasks of the others."""
        there = set(self._world.eligible.candidates(self.now_s).tolist())
        answers = [
            Answer(message.id, lost="is not available")
            for message in messages
            if message.client not in there
        ]
        return answers, [self._sent(each) for each in messages if each.client in there]

    def _sent(self, message: NodeMessage) -> _Sent:
        address = (_KINDS[message.purpose], self.rounds.number, self._num_batches)
        message = replace(message, address=address)
        cost = self._nodes.cost(message)
        kind = WorkKind.TRAIN if message.purpose is Purpose.TRAIN else WorkKind.EVALUATE
        if not cost.work.flop and message.purpose is Purpose.PROBE:
            kind = WorkKind.NONE
        work = Work(kind, counted=None if kind is WorkKind.NONE else cost.work)
        request: TrainingRequest | ProbeRequest = (
            TrainingRequest(message.client, work)
            if message.purpose is Purpose.TRAIN
            else ProbeRequest(message.client, work)
        )
        task = Task(
            number=self._next_task,
            round=self.rounds.number,
            request=request,
            work=work,
            job=None,
            address=address,
            version=-1,
            download_bit=payload_byte(message.message.content) * BIT_PER_BYTE,
            upload_bit=cost.upload_byte * BIT_PER_BYTE,
            dispatched_at_s=self.now_s,
        )
        self._next_task += 1
        return _Sent(message, cost, task)

    def _launch(self, tasks: Sequence[Task], timeout_s: float | None) -> TaskBatch:
        gives_up_at_s = math.inf if timeout_s is None else self.now_s + timeout_s
        batch = TaskBatch(
            self._world,
            tasks,
            now_s=self.now_s,
            cost=_NO_MODEL,
            batch_size=1,
            interruption=self._interruption,
            cut_at_s=min(gives_up_at_s, max(self._stop.time_s, self.now_s)),
        )
        if timeout_s is not None:
            batch.give_up(gives_up_at_s)
        return batch

    def _fly(self, message: NodeMessage) -> None:
        """Begin the task of a pushed message, or answer that its client is not there."""
        errors, sent = self._prepare([message])
        for error in errors:
            self._arrive(error)
        if not sent:
            return
        flight = _Flight(sent[0], self._launch([sent[0].task], message.message.metadata.ttl))
        self._flights[message.client] = flight
        ends_at_s, last = flight.batch.closing(1)
        end = self._clock.place(ends_at_s, last)
        assert end.callbacks is not None
        end.callbacks.append(lambda _: self._land(flight))

    def _land(self, flight: _Flight) -> None:
        """End a task in flight, unless it was ended before, and begin the next of its client."""
        client = flight.sent.message.client
        if self._flights.get(client) is not flight:
            return
        del self._flights[client]
        [result] = flight.batch.settle()
        answer = self._end(flight.sent, result, None if not self._waiting.is_charged else 0.0)
        if answer is None:
            # Its message has expired, which the server app is told.
            answer = Answer(flight.sent.message.id, lost=f"is {result.outcome.value}")
        self._arrive(answer)
        queue = self._queues.get(client)
        if queue:
            self._fly(queue.popleft())

    def _give_up(self, message_id: str) -> None:
        """Cut off a pushed message at a timeout; its answer never comes."""
        client = self._outstanding.pop(message_id)
        flight = self._flights.get(client)
        if flight is None or flight.sent.message.id != message_id:
            waiting = self._queues[client]
            self._queues[client] = deque(each for each in waiting if each.id != message_id)
            return
        flight.batch.cut(self.now_s, priority(Rank.DEADLINE), Outcome.LATE)
        self._land(flight)
        self._mail.pop(message_id, None)

    def _arrive(self, answer: Answer) -> None:
        self._outstanding.pop(answer.message_id, None)
        self._mail[answer.message_id] = answer

    def _end(self, sent: _Sent, result: TaskResult, waiting_j: float | None) -> Answer | None:
        """Take in the end of a task; return its answer, None if none comes."""
        check_bytes(result)
        message, content = sent.message, None
        if result.is_delivered:
            content = self._nodes.reply(message, sent.cost)
        else:
            self._nodes.drop(message)
        metrics = {} if content is None else metrics_of(content)
        self.rounds.add(EndedMessage(result, message.purpose, waiting_j, metrics))
        if content is not None:
            return Answer(message.id, content)
        if result.outcome in (Outcome.LATE, Outcome.CANCELLED):
            return None
        return Answer(message.id, lost=f"was lost: {result.outcome.value}")

    def _run_until(self, time_s: float) -> None:
        """Let the clock run to a moment, through the ends of tasks in flight.

        Raises:
            RunStopped: the time of the run is up before.
        """
        until = self._clock.at(max(time_s, self.now_s), Rank.WAKE)
        self._clock.run(until=self._clock.any_of([until, self._time_is_up]))
        if not until.processed:
            self._finish(self._stop.time_is_up(num_waiting_for=0))

    # --- rounds, stop and resume ------------------------------------------------------------------

    def _close_round(self) -> None:
        self._num_batches = 0
        is_quiet = not self._flights and not self._mail and not self._outstanding
        self.rounds.close(self._state if is_quiet else None)

    def _finish(self, reason: StopReason) -> None:
        """End the run by a rule.

        Raises:
            RunStopped: always.
        """
        self.end()
        raise RunStopped(reason)

    def end(self) -> None:
        """Cut off the tasks in flight, and close the open round."""
        if self._flights:
            self.rounds.begin(now_s=self.now_s, num_eligible=0, is_train=False)
        for flight in list(self._flights.values()):
            self._queues.pop(flight.sent.message.client, None)
            flight.batch.cut(self.now_s, priority(Rank.STOP), Outcome.CANCELLED)
            self._land(flight)
        self._mail.clear()
        self._outstanding.clear()
        self._close_round()

    def _state(self) -> State:
        """Return everything that a resumed run needs, without the clients."""
        state: State = {
            "server/now_s": np.array(self.now_s),
            "server/next_task": np.array(self._next_task),
        }
        parts = {
            "rounds": self.rounds.state(),
            "nodes": self._nodes.state(),
            "calls": self._calls.state(),
        }
        for name, part in parts.items():
            state |= {f"{name}/{key}": value for key, value in part.items()}
        return state

    def _restore(self, state: State) -> None:
        def part(name: str) -> State:
            prefix = f"{name}/"
            return {
                key.removeprefix(prefix): v for key, v in state.items() if key.startswith(prefix)
            }

        self._world.restore(part("clients"))
        self.rounds.restore(part("rounds"))
        self._nodes.restore(part("nodes"))
        self._calls.restore(part("calls"))
        self._next_task = int(state["server/next_task"])
