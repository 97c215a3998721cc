"""Policies of a survey: average loss, its confidence bound, and no repeats.

- `selector`: Policies of a survey: large losses times data, their confidence bound, or no repeats.
- `equations`: Equations of the survey's policies.
"""
