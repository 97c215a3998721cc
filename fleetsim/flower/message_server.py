"""Messages on the virtual clock: what the server app asks, rounds, and the end of a run.

The server app runs outside of the clock. When it sends, pulls or sleeps, the clock runs on until
there is an answer for it; its own computation takes no virtual time.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fleetsim.contracts import ClientColumns, ModelCost, Purpose, State, StopReason
from fleetsim.contracts.recording import joined, part_of
from fleetsim.engine.event_order import Clock, Rank
from fleetsim.engine.servers.launcher import Launcher
from fleetsim.engine.servers.rounds import client_columns
from fleetsim.engine.servers.stop import too_few_clients
from fleetsim.engine.world import World
from fleetsim.flower.call_record import CallRecord
from fleetsim.flower.client_nodes import ClientNodes, NodeMessage
from fleetsim.flower.message_tasks import Answer, MessageTasks, PushedMessages
from fleetsim.flower.rounds_of_messages import RoundsOfMessages
from fleetsim.scenario import Scenario

_NO_MODEL = ModelCost({}, num_parameters=0, payload_byte=0)
"""Costs of messages are counted or declared, one by one."""


class RunStopped(BaseException):
    """End by a rule of the scenario; no `Exception`, so that it passes the app's own handlers."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason.text)
        self.reason = reason


class MessageServer:
    """Clock, world and rounds of one run of an app."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        nodes: ClientNodes,
        rounds: RoundsOfMessages,
        calls: CallRecord,
        state: State | None,
    ) -> None:
        """Begin at virtual time 0, or at the moment of a state from a checkpoint."""
        self._world, self._nodes, self._calls, self._stop = world, nodes, calls, scenario.stop
        now_s = 0.0 if state is None else float(state["server/now_s"])
        self._clock = Clock(now_s, clients_at_work=world.fleet.size)
        self._launcher = Launcher(
            world,
            self._clock,
            scenario.server.interruption,
            scenario.energy,
            stop_at_s=max(scenario.stop.time_s, now_s),
            cost=_NO_MODEL,
        )
        self.rounds = rounds
        self._tasks = MessageTasks(self._launcher, nodes, rounds)
        self._pushed = PushedMessages(self._launcher, self._tasks)
        if state is not None:
            self._restore(state)

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return float(self._clock.now)

    @property
    def num_rounds(self) -> int:
        """Rounds closed so far."""
        return self.rounds.round

    def clients(self) -> Iterator[ClientColumns]:
        """Yield the clients table at this moment, some clients at a time."""
        is_charged = self._launcher.waiting.is_charged
        for some in client_columns(self._world, self.now_s, charges_enlisted=is_charged):
            yield replace(some, num_samples=self._nodes.num_samples[some.client])

    # --- what the server app asks -----------------------------------------------------------------

    def connected(self) -> list[int]:
        """Return the clients that are eligible now, or at work."""
        candidates = self._world.eligible.candidates(self.now_s).tolist()
        return sorted({*candidates, *self._pushed.at_work})

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._run_until(self.now_s + max(0.0, seconds))

    def wait_for(self, num_clients: int, *, every_s: float) -> None:
        """Let time pass until so many clients are connected, steps without a change together."""
        since_s = self.now_s
        while (num := len(self.connected())) < num_clients:
            enough_s = self._world.eligible.enough_s(num_clients - num, self.now_s)
            change_s = min(enough_s, self._pushed.next_end_s)
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
        self, messages: Sequence[NodeMessage], deadline_s: float | None
    ) -> list[Answer]:
        """Send messages and return the answers that arrive in time, in the order of arrival."""
        if not messages:
            return []
        clients = [message.client for message in messages]
        if len(set(clients)) < len(clients) or self._pushed.at_work:
            self.push(messages)
            return self._wait_for_answers([message.id for message in messages], deadline_s)
        self._begin(messages)
        answers, sent = self._tasks.prepare(messages)
        if not sent:
            return answers
        tasks = [each.task for each in sent]
        together = self._launcher.begin(tasks, enough=len(tasks), deadline_s=deadline_s)
        self._clock.run(until=together.ended)
        results = self._launcher.close(together)
        waiting = self._launcher.waiting
        waiting.release()
        in_order = sorted(
            zip(sent, results, strict=True),
            key=lambda entry: (entry[1].finished_at_s, entry[1].task.number),
        )
        answers += [
            answer
            for each, result in in_order
            if (answer := self._tasks.end(each, result, waiting.take_joules(result)))
        ]
        if not together.closed.processed:
            self._finish(self._stop.time_is_up(num_waiting_for=0))
        return answers

    def push(self, messages: Sequence[NodeMessage]) -> None:
        """Send messages, each as a running task."""
        self._begin(messages)
        self._pushed.push(messages)

    def pull(self, message_ids: Sequence[str]) -> list[Answer]:
        """Return the answers that have arrived; the next one is waited for if there is none."""
        while not (answers := self._pushed.take(message_ids)) and self._pushed.awaited(message_ids):
            self._run_until(self._pushed.next_end_s)
        return answers

    def _wait_for_answers(
        self, message_ids: Sequence[str], deadline_s: float | None
    ) -> list[Answer]:
        deadline_at_s = math.inf if deadline_s is None else self.now_s + deadline_s
        while awaited := self._pushed.awaited(message_ids):
            next_s = self._pushed.next_end_s
            self._run_until(min(next_s, deadline_at_s))
            if next_s > deadline_at_s:
                self._pushed.give_up(awaited)
        return self._pushed.take(message_ids)

    # --- the clock and rounds ---------------------------------------------------------------------

    def _begin(self, messages: Sequence[NodeMessage]) -> None:
        """Begin a batch: another round, if it trains and the open round has trained."""
        is_train = any(message.purpose is Purpose.TRAIN for message in messages)
        if is_train and self.rounds.is_open_with_train:
            self.rounds.close(self._state if self._pushed.is_quiet else None)
            reason = self._stop.after_round(
                round_=self.rounds.round,
                accuracy=self.rounds.accuracy,
                energy_total_j=self.rounds.energy_total_j,
            )
            if reason is not None:
                self._finish(reason)
        if self._launcher.is_time_up:
            self._finish(self._stop.time_is_up(num_waiting_for=0))
        lost = self.rounds.without_updates.reason(self.now_s)
        if lost is not None:
            self._finish(lost)
        num_eligible = int(self._world.eligible.candidates(self.now_s).size)
        self.rounds.begin(now_s=self.now_s, num_eligible=num_eligible, is_train=is_train)

    def _run_until(self, time_s: float) -> None:
        until = self._clock.at(max(time_s, self.now_s), Rank.WAKE)
        self._clock.run(until=self._clock.any_of([until, self._launcher.time_is_up]))
        if not until.processed:
            self._finish(self._stop.time_is_up(num_waiting_for=0))

    def _finish(self, reason: StopReason) -> None:
        self.end()
        raise RunStopped(reason)

    def end(self) -> None:
        """Cut off the running tasks, and close the open round."""
        if self._pushed.at_work:
            self.rounds.begin(now_s=self.now_s, num_eligible=0, is_train=False)
        self._pushed.stop()
        self.rounds.close(self._state)

    # --- stop and resume --------------------------------------------------------------------------

    def _state(self) -> State:
        server = {"now_s": np.array(self.now_s), "next_task": np.array(self._launcher.next_task)}
        return joined(
            {
                "server": server,
                "rounds": self.rounds.state(),
                "nodes": self._nodes.state(),
                "calls": self._calls.state(),
            }
        )

    def _restore(self, state: State) -> None:
        self._world.restore(part_of(state, "clients"))
        self.rounds.restore(part_of(state, "rounds"))
        self._nodes.restore(part_of(state, "nodes"))
        self._calls.restore(part_of(state, "calls"))
        self._launcher.next_task = int(state["server/next_task"])
