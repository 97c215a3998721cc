"""The host on which fleetsim runs: files, memory, signals and numerics.

- `paths`: Paths that a user names, with a one-line error where a path cannot be used.
- `new_files`: New files with unpredictable names, which become other files by renaming.
- `csv_rows`: Rows of CSV text, one at a time, none larger than `MOST_ROW_CHARACTERS`.
- `unpacking`: Limit of the bytes that a compressed file may unpack to.
- `memory`: Memory that this process may use, and its return to the system.
- `numerics`: Numerical modes.
- `turns`: Turns of runs in the threads of one process, and what belongs to one run at a time.
- `spawning`: Processes that begin anew and do not import the program that started them.
- `termination`: SIGTERM as an exception, like Ctrl-C.
- `notebook`: Notebook in which this process computes, if it does.
- `plain_console`: Console whose output holds no control characters but its own.
- `user_code`: Calls of code of the user's own.
- `surroundings`: State of the process around code of the user's own.
- `dask_connection`: Connection to the scheduler of a Dask cluster, and what its workers must have.
- `plugin_sources`: Source files of plug-ins.
- `collection`: Garbage collection, paused while libraries are imported.
"""
