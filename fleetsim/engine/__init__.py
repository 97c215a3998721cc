"""Simulation of client tasks and servers on one virtual clock (SimPy).

- `event_order`: order of events at the same instant, and the clock.
- `eligibility`: rule by which clients may take part, and when it holds.
- `client_state`: batteries, radio tails and condition of clients during tasks.
- `idle_state`: the same state between tasks.
- `eligible_clients`: clients that are eligible at a moment, and how long they stay so.
- `state_parts`: parts of a state, under the prefixes of their names.
- `world`: changing state of all clients, their meters and its rows in checkpoints.
- `tasks`: timelines, interruptions and results of tasks.
- `servers`: servers that select clients, dispatch tasks and aggregate updates.
"""
