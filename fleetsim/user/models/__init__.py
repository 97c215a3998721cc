"""Networks of the user's own: any `torch.nn.Module`, from a class or function of theirs.

- `building`: Building of a network of the user's own, with addressed random draws.
- `user_cost`: Cost of a network of the user's own for a device.
- `trainer_choice`: Training of a network of the user's own.
- `counted_operations`: Operations of torch by their arithmetic, and the FLOP of one call.
"""
