"""Simulation of client tasks and servers on one virtual clock (SimPy).

- `event_order`: Order of events at the same virtual instant, `Rank`, and the clock that follows it.
- `eligibility`: Eligibility of clients.
- `client_state`: State of clients during tasks: batteries, radio tails and condition.
- `idle_state`: State of clients between tasks: batteries, radio tails and condition.
- `eligible_clients`: Clients that are eligible at a moment, and how long they stay so.
- `world`: Changing state of the clients.
- `tasks`: Tasks of clients: timelines from dispatch to end, interruptions and results.
- `servers`: Servers: selection of clients, dispatch of tasks, aggregation and closing of rounds.
"""
