"""FedGRA: grey relational analysis of four metrics.

- `selector`: settings, and selections in every fifth round.
- `equations`: metrics, grades, fairness and the choice.
"""
