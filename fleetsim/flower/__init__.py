"""Flower apps on the virtual clock: `fleetsim flower run APP_DIR --scenario SCENARIO`.

- `running`: One run of a Flower app on a scenario's fleet, into a run folder.
- `grid`: The `Grid` of Flower that a server app talks to: nodes and messages on the virtual clock.
- `message_server`: Messages on the virtual clock.
- `message_tasks`: Tasks of messages.
- `rounds_of_messages`: Rounds of a Flower app.
- `client_nodes`: Nodes that run the client app.
- `costs`: Cost of messages: declared in the app's `pyproject.toml`, or counted around one call.
- `call_record`: Calls of the server app on record, from which a resumed run replays it.
- `server_app`: The server app on our clock.
- `payload`: Content of messages.
- `app`: A Flower app: its folder, what `pyproject.toml` says, and the hash of its source.
- `versions`: Versions of flwr that are tested, and what differs between them.

The library flwr is imported when an app runs, and not before. docs/flower.md is the manual.
"""
