"""Measures by which papers on client selection compare runs, computed from tables.

- `cost_to_target`: rounds, time and energy until an accuracy is reached.
- `selection_measures`: accuracy, waiting time, coverage and regret of a selection.
- `comprehensive_score`: accuracy reduced by time and energy over budget (FedGCS).
- `opinions`: accuracies that clients measured on their own data.
- `diagnostics`: numbers that a selector told about its rounds.
- `ledger`: joules by client, purpose, energy outcome and component.
"""
