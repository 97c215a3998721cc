"""Pages and tables on runs.

- `run_page`: The page of one run, which opens offline.
- `duration_tables`: Tables of the durations of train tasks by device.
- `run_figures`: Figures of the page of one run, and captions of all figures.
- `run_card`: Summary of a run in the output of a notebook's cell, and single figures of its report.
- `comparison`: The page of runs side by side.
- `comparison_tables`: Tables of a comparison, with a row per run.
- `scenario_differences`: Differences between the scenarios of runs, labels of the runs.
- `setup`: Setup block of a page.
- `summary`: Summary of a run: totals, targets, outcomes and devices.
- `measures`: Tables of the measures of papers on client selection.
- `ledger_tables`: Tables of the energy ledger, of one run and of runs side by side.
- `regret`: Regret of runs against the best fixed set of clients, by slot.
"""
