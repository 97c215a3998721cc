"""Faults of a network of the user's own, each one line."""

from contextlib import AbstractContextManager

from fleetsim.host.user_code import user_code


class ModelFaultError(ValueError):
    """A network of the user's own that cannot be simulated; the message is one line."""


def from_code_of(what: str) -> AbstractContextManager[None]:
    """Tell any fault of the user's code in the block as one line that begins with `what`."""
    return user_code(what, ModelFaultError)
