"""The scenario of a saved run as plain data, whose keys that readers use have their types."""

from typing import Any

from pydantic import ConfigDict, Field

from fleetsim.errors import DataError
from fleetsim.schema import faults
from fleetsim.schema.ranges import ClientId, Clients, DurationS, FailureChance, Rounds
from fleetsim.schema.strict_yaml import Document
from fleetsim.settings import Settings


class _Keys(Settings):
    """Keys that reports and measures read; the defaults stand for keys that are not there."""

    model_config = ConfigDict(extra="allow", validate_default=False)


class _FleetKeys(_Keys):
    size: Clients = 1
    thermal: dict[str, Any] | None = None


class _StopKeys(_Keys):
    rounds: Rounds | None = None


class _PrivacyKeys(_Keys):
    delta: FailureChance = 0.0


class _SelectorKeys(_Keys):
    kind: str = ""
    slot_rounds: Rounds | None = None
    clients: tuple[ClientId, ...] | None = None


class _ServerKeys(_Keys):
    deadline_s: DurationS | None = None
    privacy: _PrivacyKeys | None = None
    selector: _SelectorKeys | None = None


class _ScenarioKeys(_Keys):
    task: dict[str, Any] = Field(default_factory=dict)
    fleet: _FleetKeys = _FleetKeys()
    server: _ServerKeys = _ServerKeys()
    stop: _StopKeys = _StopKeys()


class _Recorded(dict[str, Any]):
    """Keys of a scenario as recorded, which anyone may have edited."""

    place: str
    hint: str

    def __missing__(self, key: str) -> Any:
        raise DataError(f"{self.place}: lacks the key {key}; {self.hint}")


def recorded(document: Document, hint: str) -> dict[str, Any]:
    """Return plain data of which a missing key, or one of another type, is an error of the file."""
    hint = f"restore the file, or {hint}"
    try:
        faults.check(_ScenarioKeys, document, DataError)
    except DataError as fault:
        raise DataError(*(f"{line}; {hint}" for line in fault.faults)) from None
    return _with_place(document.data, document.source, hint)


def _with_place(data: dict[str, Any], place: str, hint: str) -> dict[str, Any]:
    result = _Recorded(
        (key, _with_place(value, place, hint) if isinstance(value, dict) else value)
        for key, value in data.items()
    )
    result.place, result.hint = place, hint
    return result
