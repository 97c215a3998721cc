"""Device models beside measured training: boards in PyTorch, and a phone at a lower clock.

- `board_training`: Boards that train in PyTorch on their CPU.
- `lower_clock`: Training at a lower clock on a Snapdragon 855.
"""
