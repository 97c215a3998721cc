"""Timeline of a run as a trace that Perfetto opens: tasks, rounds, accuracy and power.

- `writing`: The file of a timeline, written from a run folder.
- `trace`: The trace of a run: all its packets, in parts of some thousand tasks.
- `power`: Power of all tasks over time, by component, from their joules.
- `task_times`: Moments of tasks in nanoseconds.
- `packets`: Packets of a Perfetto trace: tracks, slices, counters and interned texts.
- `wire`: Wire format of Protocol Buffers, for many messages at once.
"""
