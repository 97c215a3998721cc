"""Pages and tables on runs.

- `run_page`: the page of one run.
- `run_figures`: figures of that page, with captions.
- `run_card`: summary of a run in a notebook, and its figures by name.
- `comparison`: the page of runs side by side.
- `comparison_tables`: the tables of that page.
- `scenario_differences`: differences between scenarios, and labels of runs.
- `terminal_summary`: a run in a few lines, for a terminal.
- `summary`: totals, targets, outcomes and devices of a run.
- `measures`: tables of the measures of papers on client selection.
- `ledger_tables`: tables of the energy ledger.
- `device_figures`: table of the device figures with drawn errors.
- `regret`: regret of runs against the best fixed clients.
- `batteries_paid`: share of their batteries that a run took from its clients.
- `bill_tables`: tables of costs in money and carbon.
"""
