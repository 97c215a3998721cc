"""Exceptions of fleetsim, by the party that must act.

```
FleetsimError
|-- FaultsError       what a user gave is wrong
|   |-- ScenarioError   the scenario or the command: file, line, key, way out          (exit 2)
|   |   `-- PluginError     code of the user's own failed: its file and line           (exit 2)
|   `-- DataError       a device file, trace, data set or run folder: file, row        (exit 2)
|-- TrainingError     a process that trains failed or was killed                       (exit 1)
|-- TrackerError      a tracker of fleetsim failed                                    (exit 1)
|-- DivergenceError   the global model or a selector's network is no longer finite     (exit 1)
`-- SimulationError   an invariant broke: virtual time, client, task                   (exit 1)
```

In a notebook, all but SimulationError are shown as their message alone: IPython asks an exception
for `_render_traceback_` (docs/decisions/0048-manners-of-notebooks.md). Scripts show tracebacks.
"""

from fleetsim.quoting import one_line


class FleetsimError(Exception):
    """Base of all exceptions that fleetsim raises on purpose."""


class _PlainMessageError(FleetsimError):
    """Base of errors whose message says all that the reader of a notebook can act on."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a traceback."""
        first, *others = str(self).split("\n")
        return [f"{type(self).__name__}: {first}", *others]


class FaultsError(_PlainMessageError):
    """Faults of what a user gave, one line each.

    Attributes:
        faults: one finished line per fault, each naming the place and the way out.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = tuple(map(one_line, faults))
        super().__init__(*self.faults)

    def __str__(self) -> str:
        return "\n".join(self.faults)


class ScenarioError(FaultsError):
    """Faults of the scenario or of the command line: file, line or key, and the way out."""


class PluginError(ScenarioError):
    """Failure or wrong answer of code of the user's own: what was called, and its file."""


class DataError(FaultsError):
    """Faults of a file that the simulation reads: file and row, and the way out."""


class TrainingError(_PlainMessageError):
    """Failure or kill of a process that trains; the run can be resumed."""


class TrackerError(_PlainMessageError):
    """Failure of a tracker; the run can be resumed."""


class DivergenceError(_PlainMessageError):
    """Weights that are not finite, of the global model or of a selector's network.

    No later number would have a meaning.
    """


class SimulationError(FleetsimError):
    """A broken invariant of the simulation: a bug of fleetsim.

    Attributes:
        message: what broke.
        time_s: virtual time at which it broke.
        client: the client concerned, None when it concerns none.
        task: the task concerned, None when it concerns none.
    """

    def __init__(
        self, message: str, time_s: float, client: int | None = None, task: int | None = None
    ) -> None:
        # SimPy builds the exception of a failed process again from its args.
        super().__init__(message, time_s, client, task)
        self.message = message
        self.time_s = time_s
        self.client = client
        self.task = task

    def __str__(self) -> str:
        where = f"at virtual time {self.time_s!r} s"
        if self.client is not None:
            where += f", client {self.client}"
        if self.task is not None:
            where += f", task {self.task}"
        return f"{where}: {self.message}"
