"""Tasks of clients: timelines from dispatch to end, interruptions and results.

- `task`: Tasks: what a client is asked, the task as dispatched, and its result.
- `task_batch`: Timelines of tasks dispatched at the same instant.
- `phase_segments`: Time and resources that tasks used, by phase segment.
- `task_outcomes`: Outcomes and resource use of dispatched tasks.
- `interruption`: Interruptions of tasks: settings, pause policy and accumulated waiting time.
"""
