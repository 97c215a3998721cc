"""Weight files on the disk, to which training adds the weights of further fleets."""

from collections.abc import Mapping
from pathlib import Path

from fleetsim.contracts import State
from fleetsim.errors import DataError, ScenarioError
from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.record import atomic_files
from fleetsim.selectors.learned_weights import WeightFile

_ELSEWHERE = "choose another file with --out"


def existing_file(path: Path, kind: str) -> WeightFile | None:
    """Return the weight file at a path, of one kind of selector; None if nothing is there."""
    if paths.kind_of(path) is None:
        return None
    try:
        result = WeightFile.decoded(paths.read(path))
    except ValueError as fault:
        raise DataError(f"{path}: {fault}; {_ELSEWHERE}") from fault
    if result.kind != kind:
        raise ScenarioError(
            f"{path}: has weights of {quoted(result.kind)}, not of {quoted(kind)}; {_ELSEWHERE}"
        )
    return result


def write_weights(
    path: Path, kind: str, weights: Mapping[str, State], facts: Mapping[str, str]
) -> WeightFile:
    """Write a weight file, with facts as `HASH/NAME`; weights of other clients remain."""
    before = existing_file(path, kind) or WeightFile(kind, {})
    kept = {
        key: value for key, value in before.facts.items() if key.partition("/")[0] not in weights
    }
    named = {f"{clients}/{key}": value for clients in weights for key, value in facts.items()}
    made = WeightFile(kind, {**before.weights, **weights}, kept | named)
    if path.parent != Path():
        atomic_files.make_folder(path.parent, hint=_ELSEWHERE)
    atomic_files.write(path, made.encoded(), hint=_ELSEWHERE)
    return made
