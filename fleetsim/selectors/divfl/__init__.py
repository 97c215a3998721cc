"""DivFL: diverse clients by the facility location of their gradients.

- `selector`: settings, and the gradients that it keeps.
- `equations`: distances of gradients, and greedy choices.
"""
