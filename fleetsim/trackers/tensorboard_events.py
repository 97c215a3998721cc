"""Event files of TensorBoard: a scalar for each column of the rounds table.

`tensorboard --logdir DIR` shows every run in DIR as a folder of its own. The step is the number of
the round. The time of an event is the virtual time at which the round ended, so that the horizontal
axis "relative" is virtual time. Source: the event format of TensorBoard, tensorboard/compat/proto.
"""

from pathlib import Path
from typing import Any

from fleetsim.contracts import EndedRun, RoundRow, TrackedRun
from fleetsim.trackers.metrics import metrics_of


class TensorBoard:
    """Tracker that writes event files into `FOLDER/NAME OF THE RUN FOLDER`."""

    def __init__(self, folder: str | Path = "tensorboard") -> None:
        """Make it for a folder."""
        from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: PLC0415
        from tensorboard.summary.writer import event_file_writer  # noqa: PLC0415

        self._events: Any = event_pb2
        self._summary: Any = summary_pb2.Summary
        self._new_writer: Any = event_file_writer.EventFileWriter
        self._folder = Path(folder)
        self._writer: Any = None

    def begin(self, run: TrackedRun) -> None:
        """Open a file; events of rounds that will be told again are withdrawn."""
        self._writer = self._new_writer(str(self._folder / run.folder.name))
        session = self._events.SessionLog
        started = session(status=session.START)
        self._writer.add_event(self._events.Event(step=run.num_rounds + 1, session_log=started))

    def round(self, row: RoundRow) -> None:
        """Write an event with the numbers of a round."""
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in metrics_of(row).items()
        ]
        self._writer.add_event(
            self._events.Event(
                wall_time=row.finished_at_s, step=row.round, summary=self._summary(value=values)
            )
        )

    def end(self, run: EndedRun) -> None:
        """Write what is left, and close the file."""
        self._writer.close()
