"""Training on the host: preparation of a learning task, trainers and their processes.

- `settings`: settings of the learning task and of its trainer.
- `trainer_choice`: choice of the trainer and its kernel.
- `ipc`: messages between the processes of a pool.
- `helper_processes`: start, calls, answers and end of the processes of a pool.
- `worker_pool`: chunks of jobs, computed by the processes of a pool.
- `pending_jobs`: jobs that wait until their results are requested.
- `trainers`: trainers, with and without real training.
- `prepared_task`: learning task that a scenario asks for, and the same ready to train.
- `task_samples`: samples of the task, by client.
- `task_cost`: cost of the task's model on a device.
- `preparation`: preparation of a scenario's learning task.
- `scenario_loss`: checks of the loss that a scenario names.
- `trial_clients`: a few clients with drawn samples, on which a network is tried.
- `equivalence`: proof that a trainer equals the serial one on a network, in float64.
"""
