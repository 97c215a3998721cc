"""Timeline of a run as a trace that Perfetto opens: tasks, rounds, accuracy and power.

- `writing`: the file, from a run folder.
- `trace`: all packets of a trace, in parts.
- `task_slices`: tracks of clients, with their tasks and the phases of these.
- `round_slices`: track of the server's rounds, and accuracy.
- `power`: power of all tasks over time, from their joules.
- `task_times`: moments of tasks in nanoseconds.
- `debug_annotations`: columns of a table as annotations of slices.
- `packets`: packets of a trace: tracks, slices, counters, interned texts.
- `wire`: wire format of Protocol Buffers, for many messages at once.
"""

from fleetsim.report.timeline.writing import write_timeline

__all__ = ["write_timeline"]
