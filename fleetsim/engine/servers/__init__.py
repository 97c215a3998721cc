"""Servers: selection of clients, dispatch of tasks, aggregation and closing of rounds.

- `parts`: parts of a run, from which a server is made.
- `server`: what both servers share.
- `synchronous`: rounds that wait for a cohort.
- `buffered`: rounds that aggregate updates as they come.
- `running_tasks`: running tasks of a buffered server, and their columns in a checkpoint.
- `selection`: views of the selector, its probes, and the selection.
- `checked_selector`: calls of the selector, with checks of its answers.
- `user_part`: names of parts of the user's own, and their faults.
- `training_requests`: training requests of a selector's answer.
- `dispatch`: trainings and probes as tasks with jobs, and their results.
- `launcher`: launch of tasks on the clock, alone or together.
- `waiting_clients`: clients that have answered and wait for the server.
- `client_memory`: arrays that clients and the server keep for clients' own training.
- `global_model`: server's side of learning, and the global model with its versions.
- `rounds`: reports and table rows of tasks and rounds.
- `round_closer`: closing of rounds.
- `stop`: rules that end a run.
"""
