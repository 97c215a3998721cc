"""Networks of the user's own: any `torch.nn.Module`, from a class or function of theirs.

- `building`: Building of a network of the user's own, with addressed random draws.
- `user_cost`: Cost of a network of the user's own for a device.
- `counted_operations`: Operations of torch by their arithmetic, and the FLOP of one call.
- `training_checks`: Checks of the training of a network of the user's own.
- `trainer_choice`: Choice of the trainer of a user's network.
"""
