"""AutoFL: Q-tables of clients choose the cohort and the clock of each.

- `selector`: AutoFL.
- `equations`: Equations of AutoFL.
- `q_tables`: Q-tables of all clients together, and rewards from which they learn.
"""
