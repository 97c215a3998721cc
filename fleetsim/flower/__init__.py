"""Flower apps on the virtual clock: `fleetsim flower run APP_DIR --scenario SCENARIO`.

- `running`: one run of an app into a run folder.
- `grid`: the `Grid` of Flower that the server app talks to.
- `message_server`: the clock of a server app, its rounds, and the state of a checkpoint.
- `pushed_messages`: messages of which each is a task of its own in flight.
- `message_tasks`: tasks of messages, their launch and their end.
- `rounds_of_messages`: the open round, its tasks and its row.
- `client_nodes`: nodes that run the client app, and what each message costs them.
- `costs`: declared or counted cost of messages.
- `call_record`: calls of the server app on record, from which a resumed run replays it.
- `legacy`: strategies of before the message API, without threads and host time.
- `server_app`: the server app, its sleep and its metrics on our clock.
- `payload`: bytes, digests and metrics of messages.
- `app`: the app's folder, its `pyproject.toml` and its source.
- `versions`: versions of flwr that are tested, and what differs between them.

The library flwr is imported when an app runs, and not before. docs/flower.md is the manual.
"""
