"""Training on the host: preparation of a learning task, trainers and their processes.

- `settings`: settings of the learning task and of its trainer.
- `trainer_choice`: choice of the trainer and its kernel.
- `ipc`: messages between the processes of a pool.
- `worker_pool`: processes that compute chunks of jobs.
- `pending_jobs`: jobs that wait until their results are requested.
- `trainers`: trainers, with and without real training.
- `preparation`: preparation of a scenario's learning task.
- `own`: networks of the user's own: checks of their training, and their trainer.
"""
