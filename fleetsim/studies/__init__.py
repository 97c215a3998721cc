"""Studies: arms compared in conditions over seeds, from one file to a table of verdicts.

- `settings`: settings of a study file.
- `study`: a study as loaded, and its runs.
- `inputs`: the user's own files that a scenario names, their digests and their travel.
- `run_store`: runs on the disk, found by their content.
- `run_order`: orders of runs, which travel to processes and machines.
- `advice`: ways out in the faults of runs, for studies.
- `backends`: places where runs are carried out: local processes, any executor.
- `dask_cluster`: a Dask cluster as the place where runs are carried out.
- `execution`: execution of the runs that are missing, with repetition of failed ones.
- `display`: progress of a study.
- `mixed_platforms`: notes on runs of several numerical platforms or versions.
- `costs`: costs of a run until it reached an accuracy.
- `run_tables`: tables of the runs of a study.
- `evidence`: summaries and verdicts of a study.
- `result`: result of a study, and the function `fleetsim.study`.
- `study_tables`: tables and header of a study, from which the page is made.
- `page`: the page of a study, its figures and its LaTeX tables.
- `statistics`: summaries, paired comparisons and verdicts of costs that may be censored.
"""
