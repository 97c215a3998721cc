"""Run folders: writing a run so that it survives a kill, and reading it back.

What cannot be read or written is a `DataError` that names the file and what to do; what was
recorded before stays valid.

- `run_folder`: The folder of a run: its name, its lock, and its content at the start.
- `manifest`: The manifest of a run, `manifest.json`: what was run, with what, and how it ended.
- `identity`: Identity of a run: what tells its files from those of any other run.
- `tables`: Tables of a run: rounds, tasks and clients, in memory and as parquet files.
- `recorder`: The recorder of a run: rows, checkpoints, and the tables at the end.
- `checkpoint`: Checkpoints, from which a run resumes after a kill at any moment.
- `atomic_files`: Files that are written whole or not at all, even if the host dies.
- `failures`: Failures of a whole run, read from its tables.
- `saved_run`: A run folder for reading: its scenario, manifest and tables, and its measures.
- `run_views`: Views of a run for notebooks.
- `prices`: Costs of a run in money and carbon, by prices of joules and hours.
- `measures`: Measures by which papers on client selection compare runs, computed from tables.
- `resumption`: The resumption of a run.
- `saved_content`: Scenario and tables of a saved run.
- `digests`: Digests of tables.
"""
