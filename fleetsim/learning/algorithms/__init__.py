"""Algorithms of clients that replace the built-in local training.

- `settings`: settings of the bundled algorithms, without torch.
- `client_data`: samples, batches and arrays of one task, as an algorithm sees them.
- `run_algorithm`: one task of an algorithm as a job, and checks of what it returns.
- `task_steps`: steps of one task by the scenario's optimizer.
- `trained_weights`: trained parameters of a network as one vector.
- `scaffold`: SCAFFOLD, control variates of clients and server (Karimireddy et al. 2020).
- `feddyn`: FedDyn, dynamic regularisation (Acar et al. 2021).
- `ditto`: Ditto, a personal model beside the global one (Li et al. 2021).
"""
