"""Tasks of clients: timelines from dispatch to end, interruptions and results.

- `task`: training request, task as dispatched, and its result.
- `task_batch`: timelines of tasks dispatched at the same instant.
- `phase_segments`: time and resources that tasks used, by phase segment.
- `task_outcomes`: outcomes and resource use, and their revision when tasks are cut off.
- `resources`: resources that a client reports about itself.
- `interruption`: settings of interruptions, pause policy and accumulated waiting time.
- `lost_clients`: losses of clients during transfers that share links.
"""
