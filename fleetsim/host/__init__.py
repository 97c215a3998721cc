"""The host on which fleetsim runs: files, memory, signals and numerics.

- `paths`: paths that a user names.
- `new_files`: new files with unpredictable names, to be renamed.
- `csv_rows`: rows of CSV text of bounded length, and what separates fields.
- `unpacking`: limit of the size of unpacked files.
- `memory`: memory that this process may use.
- `numerics`: numerical modes: fastest, or equal on all processors.
- `turns`: turns of runs in the threads of one process.
- `spawning`: processes that do not import the program that started them.
- `termination`: SIGTERM as an exception.
- `notebook`: notebook in which this process computes.
- `plain_console`: console that prints control characters of any content as their codes.
- `own_code`: calls of code of the user's own, whose faults are told in one line.
- `surroundings`: state of the process around such a call, which is restored after it.
- `crash_file`: file with the traceback of an unexpected exception.
"""
