"""FedCS: as many clients as fit into a round.

- `selector`: FedCS: as many clients as fit into a round, by the resources that they report.
- `equations`: Equations of FedCS.
"""
