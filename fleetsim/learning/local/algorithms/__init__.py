"""Algorithms of clients that replace the built-in local training.

- `settings`: Settings of the algorithms of clients that a scenario can name, without torch.
- `client_data`: One task of an algorithm of clients: its data, its steps, and its checked result.
- `scaffold`: SCAFFOLD: steps corrected by control variates of the client and of the server.
- `feddyn`: FedDyn: dynamic regularisation of the clients' objectives.
- `ditto`: Ditto: a personal model of each client, held near the global one.
"""
