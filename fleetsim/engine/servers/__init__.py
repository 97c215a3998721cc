"""Servers: selection of clients, dispatch of tasks, aggregation and closing of rounds.

- `parts`: parts of a run, from which a server is made.
- `server`: what both servers share.
- `synchronous`: rounds that wait for a cohort.
- `buffered`: rounds that aggregate updates as they come.
- `flights`: tasks in flight of a buffered server, and their columns in a checkpoint.
- `windows`: ends of the windows of a semi-synchronous server.
- `selection`: calls of the selector, with probes and checks of its answers.
- `diagnostics`: numbers that a selector tells about its rounds, checked.
- `training_requests`: training requests of a selector's answer.
- `dispatch`: dispatch of tasks and collection of their results.
- `waiting_clients`: clients that have answered and wait for the server.
- `client_memory`: arrays that clients and the server keep for clients' own training.
- `global_model`: server's side of learning, and the global model with its versions.
- `rounds`: reports and table rows of tasks and rounds.
- `round_closer`: closing of rounds.
- `stop`: rules that end a run.
- `state_parts`: parts of a state, under the prefixes of their names.
"""
