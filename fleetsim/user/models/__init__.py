"""Networks of the user's own: any `torch.nn.Module`, from a class or function of theirs.

- `building`: building of such a network, with addressed random draws.
- `module_checks`: checks of a network's weights and of what its forward pass does.
- `own_cost`: cost of such a network for a device.
- `training_checks`: checks of a network's training on the clients of a trial.
- `trainer_choice`: the fastest trainer that is proved, by a fixed rule.
"""
