"""Device models beside measured training: boards in PyTorch, and a phone at a lower clock.

- `board_training`: Boards that train in PyTorch on their CPU, the repeated fit, held-out networks.
- `lower_clock`: Training at a lower clock on a Snapdragon 855, and the fit of the law.
"""
