"""Conditions under which a key of a scenario can change a run.

A settings class names them beside its fields, as `acts_if` for keys and `entries_act_if` for the
entries of lists and mappings. `fleetsim.scenario.inert_keys` reports what does not hold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Facts = Any
"""Facts of the whole scenario, which a package above finds out: `fleetsim.scenario.inert_keys`."""


@dataclass(frozen=True)
class ActsIf:
    """A condition on a key, or on each entry of a list or mapping, with the message without it."""

    holds: Callable[[Any, Facts], bool]
    """Test of the settings object that holds the key, or of the entry (of a mapping: its key), and
    of the scenario."""
    because: str
    """Reason why it has no effect; `{entry}` is replaced by the entry."""
    hint: str
    """Hint, with `{entry}` replaced likewise. Empty: only to leave the entry out."""
    is_refused: bool = False
    """True if no other key can give the entry an effect: the scenario is refused."""

    @property
    def text(self) -> str:
        """Place where the key has no effect, and the hint."""
        return f"{self.because}; {self.hint}"


def by_key(**conditions: ActsIf | tuple[ActsIf, ...]) -> Mapping[str, tuple[ActsIf, ...]]:
    """Return conditions, one or several that must all hold, by the names of fields."""
    return {key: each if isinstance(each, tuple) else (each,) for key, each in conditions.items()}


def beside(key: str, *values: object) -> ActsIf:
    """Return the condition that another key of the same object has one of these values."""
    text = " or ".join(str(value) for value in values)
    return ActsIf(
        lambda settings, _: getattr(settings, key) in values,
        f"it is of {key}: {text} alone",
        "set that",
    )


def beside_any(key: str, hint: str) -> ActsIf:
    """Return the condition that another key of the same object is not null."""
    return ActsIf(lambda settings, _: getattr(settings, key) is not None, f"{key} is null", hint)


PEOPLE_NAMED = ActsIf(
    lambda _, facts: facts.names_people,
    "fleet.usage names no people",
    "set fleet.usage.trace or fleet.usage.synthetic",
)
CARRIED = ActsIf(
    lambda _, facts: facts.has_people or not facts.names_people,
    "the fleet has no device of fleet.usage.kinds, which people carry",
    "add such devices or kinds",
)
PEOPLE = ActsIf(
    lambda _, facts: facts.has_people,
    "no client has an owner: all clients are always online, charging and unmetered",
    "set fleet.usage.trace or fleet.usage.synthetic, and devices of fleet.usage.kinds",
)
METERED = ActsIf(
    lambda _, facts: facts.has_people or facts.has_metered,
    "no client is ever on a metered network",
    "set fleet.usage.trace, or fleet.network.kind to mixed",
)
CELLULAR = ActsIf(
    lambda _, facts: facts.has_cellular,
    "no client is ever on the cellular network",
    "set fleet.network.kind to cellular",
)
UNMETERED = ActsIf(
    lambda _, facts: facts.has_unmetered,
    "no wireless client is ever on an unmetered network",
    "set fleet.network.kind to wifi",
)
WIFI = ActsIf(
    lambda _, facts: facts.has_wifi,
    "no client is ever on Wi-Fi",
    "set fleet.network.kind to wifi, with a Wi-Fi radio as fleet.channel.unmetered_radio",
)
BATTERIES = ActsIf(
    lambda _, facts: facts.has_batteries, "no device of the fleet has a battery", "add one that has"
)
INFERRED_FIGURES = ActsIf(
    lambda _, facts: "inferred" in facts.figure_marks,
    "the fleet has no inferred figure that can have an error",
    "add a device or radio that has one",
)
MEASURED_FIGURES = ActsIf(
    lambda _, facts: "measured" in facts.figure_marks,
    "the fleet has no measured figure that can have an error",
    "add a device or radio that has one",
)
WIRELESS = ActsIf(
    lambda _, facts: facts.has_wireless, "every device of the fleet is wired", "add a wireless one"
)
NO_DISTANCES = ActsIf(
    lambda _, facts: not facts.fleet.channel.has_distances,
    "fleet.channel places the clients already",
    "choose a channel without distances, such as constant",
)
BUFFERED = ActsIf(
    lambda _, facts: facts.is_buffered,
    "no update of a synchronous round is stale",
    "set server.mode: buffered",
)
TRAINING = ActsIf(
    lambda _, facts: facts.can_train,
    "nothing is trained: the data set is blank, or the model exists on paper only",
    "choose a data set with samples, and a network",
)
MEMORY_CHECKED = ActsIf(
    lambda _, facts: facts.checks_memory,
    "fleet.memory checks nothing",
    "set fleet.memory.kind to share",
)


def device_kind(kind: str) -> ActsIf:
    """Return the condition that the fleet has a device of this kind."""
    return ActsIf(
        lambda _, facts: kind in facts.device_kinds,
        f"the fleet has no {kind}",
        f"add a {kind} to fleet.devices",
    )


KIND_IN_FLEET = ActsIf(
    lambda kind, facts: kind in facts.device_kinds,
    "the fleet has no {entry}",
    "add a {entry} to fleet.devices",
)
ASSIGNED_DEVICE = ActsIf(
    lambda device, facts: device in facts.assigned_devices,
    "its share in fleet.devices is so small that no client has this device",
    "raise that or fleet.size",
)
HAS_BATTERY = ActsIf(
    lambda device, facts: device in facts.battery_devices,
    "has no battery to charge",
    "",
    is_refused=True,
)
BEFORE_LAST_ROUND = ActsIf(
    lambda round_, facts: round_ < facts.last_round,
    "no round follows it, as the run ends with stop.rounds at the latest",
    "raise stop.rounds",
)
