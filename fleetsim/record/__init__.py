"""Run folders: writing a run so that it survives a kill, and reading it back.

- `run_folder`: the folder of a run, its name and its lock.
- `manifest`: what was run, with what, and how it ended.
- `identity`: what tells the files of a run from those of another.
- `tables`: tables of rounds, tasks and clients, their files and digests.
- `recorder`: rows and states of a run that goes on.
- `checkpoint`: files from which a killed run resumes.
- `file_lock`: lock of a file between processes.
- `atomic_files`: files that are written whole or not at all.
- `failures`: failures of a whole run, read from its tables.
- `saved_run`: a run folder for reading, with its measures.
- `run_views`: figures of a run, attached from above.
- `recorded_scenario`: the scenario of a saved run, whose keys have their types.
- `saved_tables`: saved tables, compared with their digests.
- `prices`: costs of a run in money and carbon.
- `measures`: measures of a run, computed from its tables.
"""
