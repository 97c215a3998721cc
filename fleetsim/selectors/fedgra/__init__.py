"""FedGRA: grey relational analysis of four metrics.

- `selector`: FedGRA.
- `equations`: Equations of FedGRA.
"""
