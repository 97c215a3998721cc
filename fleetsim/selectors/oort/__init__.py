"""Oort: useful and fast clients, with a share of new ones.

- `selector`: Oort.
- `equations`: Equations of Oort: shares, utilities, penalties, pools and the pacer.

`profiles.yaml` has the values and rules of the published implementations.
"""
