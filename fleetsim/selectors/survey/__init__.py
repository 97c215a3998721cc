"""Policies of a survey: average loss, its confidence bound, and no repeats.

- `selector`: settings and the three policies.
- `equations`: scores and choices of the policies.
"""
