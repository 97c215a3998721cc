"""Parts of a state: the entries of each under the prefix of its name."""

from collections.abc import Mapping

from fleetsim.contracts import State


def joined(parts: Mapping[str, State]) -> State:
    """Return one state of all parts, by their names."""
    return {f"{name}/{key}": value for name, part in parts.items() for key, value in part.items()}


def part_of(state: State, name: str) -> State:
    """Return the part of this name, empty if the state has none."""
    prefix = f"{name}/"
    return {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }
