"""Measures by which papers on client selection compare runs, computed from tables.

- `cost_to_target`: Rounds, time and energy until a run reaches an accuracy.
- `selection_measures`: Measures of papers on client selection.
- `comprehensive_score`: Score of a selection by accuracy, time and energy together (FedGCS).
- `diagnostics`: Numbers that a selector reported on its rounds, from the rounds table.
- `ledger`: The energy ledger: joules of a run by client, purpose, energy outcome and component.
"""
