"""Training on the host: preparation of a learning task, trainers and their processes.

- `settings`: Settings of the learning task and of its computation on the host, without torch.
- `trainer_choice`: Choice of the trainer that computes a scenario's jobs, and of its kernel.
- `ipc`: Messages between the processes of a pool, over a socket.
- `helper_processes`: Helper processes of a pool: their start, calls, answers and end.
- `worker_pool`: Pools of processes that compute chunks of jobs.
- `trainers`: Trainers: computation of the clients' jobs on the host.
- `prepared_task`: Learning task that a scenario asks for, and the same ready to train.
- `task_samples`: Samples of a learning task: their form, their numbers by client, and themselves.
- `preparation`: Preparation of a scenario's learning task: data, partition, model and trainer.
- `scenario_loss`: Checks of the loss that a scenario names, before a run.
- `trial_clients`: A few clients with drawn samples of a data set's form.
- `equivalence`: Proof that a trainer equals the serial one on a user's network, in float64.
- `results_store`: Store of results of training on disk, found again by content.
- `dask_pool`: Workers of a Dask cluster that compute chunks of jobs.
- `dask_worker`: Computation of chunks of jobs in a worker of a Dask cluster.
"""
