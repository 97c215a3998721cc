"""AutoFL: Q-tables of clients choose the cohort and the clock of each.

- `selector`: settings, requests for resources, and what is learned after a round.
- `equations`: states, the reward, the update, and the choice of a clock level.
- `q_tables`: values of the states that were visited, for all tables together.
"""
