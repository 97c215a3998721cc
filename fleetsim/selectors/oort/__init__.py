"""Oort: useful and fast clients, with a share of new ones.

- `selector`: settings, and the utilities and durations that it keeps.
- `equations`: utilities, penalties, pools and the pacer.
- `profiles`: figures and rules of the published implementations.
"""
