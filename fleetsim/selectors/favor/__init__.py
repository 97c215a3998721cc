"""Favor: clients that a deep Q-network values most, by the models of all clients.

- `selector`: Favor: clients that a deep Q-network values most, by the models of all clients.
- `compression`: Coordinates of the models of all clients: what the server keeps of them.
- `settings`: Keys of Favor, and what it asks of clients and server.
- `agent`: Agent of Favor: its network, stored transitions and counters, all that outlasts a run.
- `network`: Q-network of Favor: two linear layers with rectified units, and its learning.
- `replay`: Stored transitions whose states share their rows.
- `equations`: Equations of Favor.
"""
