"""Measures by which papers on client selection compare runs, computed from tables.

- `cost_to_target`: Rounds, time and energy until a run reaches an accuracy.
- `selection_measures`: Measures of papers on client selection.
- `ledger`: The energy ledger: joules of a run by client, purpose, energy outcome and component.
"""
