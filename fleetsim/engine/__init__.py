"""Simulation of client tasks and servers on one virtual clock (SimPy).

- `event_order`: order of events at the same instant, and the clock.
- `eligibility`: rule by which clients may take part, and when it holds.
- `client_state`: batteries, radio tails and condition of clients during tasks.
- `world`: changing state of all clients.
- `tasks`: timelines, interruptions and results of tasks.
- `servers`: servers that select clients, dispatch tasks and aggregate updates.
"""
