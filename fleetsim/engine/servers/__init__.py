"""Servers: selection of clients, dispatch of tasks, aggregation and closing of rounds.

- `parts`: Parts of a run, from which a server is made.
- `server`: Base of both servers: parts of a run, joined and saved together.
- `synchronous`: Synchronous server: rounds of probe, select, train, aggregate on one virtual clock.
- `buffered`: Buffered server.
- `running_tasks`: Running tasks of a buffered server, and their columns in a checkpoint.
- `selection`: Calls of the selector by the server: views, probes, and checks of its answers.
- `checked_selector`: Selector as the server calls it.
- `user_part`: Name of a part of the user's own, its faults, and arrays that it answers.
- `training_requests`: Training requests of a selector's answer, checked.
- `dispatch`: Dispatch of tasks: numbering, running them on the clock, and collecting their results.
- `launcher`: Launch of tasks on the clock, alone or together.
- `waiting_clients`: Clients that have answered and wait for the server.
- `client_memory`: Arrays of clients' own training.
- `global_model`: Server's side of learning: the global model, its versions and its evaluation.
- `rounds`: Reports and table rows of ended tasks and rounds, and their conservation checks.
- `round_closer`: Closing of rounds.
- `stop`: Rules that end a run, and the reasons that it reports.
"""
