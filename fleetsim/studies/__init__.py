"""Studies: arms compared in conditions over seeds, from one file to a table of verdicts.

- `settings`: Settings of a study file.
- `conditions`: Conditions of a study: combinations of the levels of its varied keys, as overrides.
- `study`: A study as loaded: its conditions, the scenario of every cell, and its runs.
- `inputs`: The user's own files that a scenario names.
- `run_store`: Runs of studies on the disk, found by their content.
- `run_order`: Orders of runs, which travel to the processes and machines that carry them out.
- `backends`: Places where the runs of a study are carried out.
- `dask_cluster`: A Dask cluster as the place where the runs of a study are carried out.
- `execution`: Execution of a study.
- `display`: Progress of a study.
- `study_setup`: Setup of a study for its page, and notes where its runs were made differently.
- `costs`: Costs of a run until it reached an accuracy, in every metric.
- `run_tables`: Tables of the runs of a study, read from the run folders.
- `evidence`: Evidence of a study.
- `result`: Result of a study: its tables, its evidence, its runs, and its page.
- `page`: The page of a study, its static figures and its LaTeX tables.
- `statistics`: Statistics of costs to a target: pure functions on arrays, one value for each seed.
- `planned_run`: A planned run of a study.
- `run_process`: A process that carries out runs of a study: its start, its messages, and its end.
- `search`: Search over keys of a scenario for the lowest costs, several seeds a trial.
"""
