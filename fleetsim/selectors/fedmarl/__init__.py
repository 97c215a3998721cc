"""FedMarl: agents that let probed clients continue or stop.

- `selector`: FedMarl: probed clients whose agents say continue; the others stop after an epoch.
- `agents`: Team of agents that share a network, and what they learn from round to round.
- `observations`: States of agents, and the replay memory of rounds from which they learn.
- `network`: Learning of the shared network: steps of Adam on the squared error of Q_tot, in torch.
- `equations`: Equations of FedMarl.
- `settings`: Keys of FedMarl, and what it asks of clients and server.
"""
