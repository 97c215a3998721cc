"""Recorder of the engine's tests."""

from dataclasses import dataclass, field

from fleetsim.contracts import ClientRows, RoundRow, State, TaskRow, latest_rows, with_clients


@dataclass(slots=True)
class MemoryRecorder:
    """Recorder that keeps everything in lists, for tests."""

    tasks: list[TaskRow] = field(default_factory=list)
    rounds: list[RoundRow] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    """State after every round, each with all clients that have ever changed."""
    _clients: ClientRows | None = None

    def task(self, row: TaskRow) -> None:
        """Keep the row of a finished task."""
        self.tasks.append(row)

    def round(self, row: RoundRow) -> None:
        """Keep the row of a finished round."""
        self.rounds.append(row)

    def checkpoint(self, state: State, changed: ClientRows) -> None:
        """Keep every state."""
        known = [] if self._clients is None else [self._clients]
        self._clients = latest_rows([*known, changed])
        self.states.append(with_clients(state, self._clients))
