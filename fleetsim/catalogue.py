"""Names that scenarios and commands may use, as tables for `fleetsim list`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast, get_args

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.profile import device_names, load_device, reproduction_names
from fleetsim.fleet.traces.network.files import is_net_trace, read_net_trace
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.learning.data.built_in import BlankSettings
from fleetsim.learning.data.loading import DatasetSettings
from fleetsim.quoting import quoted
from fleetsim.scenario import schema
from fleetsim.schema import strict_yaml
from fleetsim.schema.explained_keys import ExplainedKey, explained_keys, first_line, of_key
from fleetsim.schema.spelling import did_you_mean
from fleetsim.selectors import KINDS
from fleetsim.selectors.learned_weights import read_weights
from fleetsim.settings import Settings
from fleetsim.units import BYTE_PER_GIB, FLOP_PER_GFLOP, MS_PER_S, S_PER_HOUR

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of names with their meaning."""

    columns: tuple[str, ...]
    rows: Rows
    note: str = ""

    def records(self) -> list[dict[str, str]]:
        """Return the rows by column."""
        return [dict(zip(self.columns, map(str.strip, row), strict=True)) for row in self.rows]


def listing(what: str) -> Listing:
    """Return the table of one of `SUBJECTS`."""
    about = _TABLES[what]
    if "columns" not in about:
        return _kinds(about["key"])
    if what in _ROWS:
        rows = _ROWS[what]()
    else:
        rows = list(about["rows"].items()) if "rows" in about else _files(what, about["columns"][1])
    note = about.get("note", "")
    if what == "devices":
        note = note.format(reproductions=", ".join(reproduction_names()))
    return Listing(tuple(about["columns"]), rows, note)


def part(what: str, name: str) -> tuple[str, list[ExplainedKey]]:
    """Return the meaning of a name of one of `SUBJECTS`, and the settings of one of `KEYS`."""
    rows = {row[0]: row[1] for row in listing(what).rows}
    if name not in rows:
        hint = did_you_mean(name, rows) or f"; there are {', '.join(rows)}"
        raise ScenarioError(f"{what}: there is no {quoted(name)}{hint}")
    if what not in KEYS:
        return rows[name], []
    key = KEYS[what]
    of_kind = [each for each in _explained() if f"{key}.kind: {name}" in each.beside]
    kinds = (each.kinds for each in of_key(_explained(), key) if name in each.kinds)
    keys = dict.fromkeys(each.key for each in of_kind)
    return next(kinds)[name], [each for one in keys for each in of_key(of_kind, one)]


@cache
def _explained() -> list[ExplainedKey]:
    return explained_keys(schema())


def _devices() -> Rows:
    return [
        (
            device.name,
            device.kind,
            device.compute.backend,
            f"{device.compute.conv_flop_per_s / FLOP_PER_GFLOP:7.1f}",
            f"{device.power.train_above_idle_w:7.2f}",
            f"{device.power.idle_awake_w:6.2f}",
            f"{device.ram_byte / BYTE_PER_GIB:7.0f}",
            "mains" if device.battery_j is None else f"{device.battery_j / S_PER_HOUR:.1f}",
            f"{len(device.inferred)} of {device.num_figures}",
        )
        for device in map(load_device, device_names())
    ]


def _kind(member: type[Settings]) -> tuple[str, str]:
    """Return kind and first docstring line of a settings class."""
    return str(member.model_fields["kind"].default), str(member.__doc__).splitlines()[0]


def _datasets() -> Rows:
    rows = []
    for member in get_args(get_args(DatasetSettings)[0]):
        is_fetched = any(not known.by_hand for known in member.published)
        rows.append((*_kind(member), "fleetsim data fetch" if is_fetched else member.how_to_get))
    return [*rows, (*_kind(BlankSettings), "built in")]


def _kinds(key: str) -> Listing:
    """Return the kinds of a key of scenarios."""
    kinds: dict[str, str] = {}
    for explained in of_key(_explained(), key):  # of each server mode, say
        kinds |= {kind: first_line(text) for kind, text in explained.kinds.items()}
    note = f"Key {key}; its settings: fleetsim explain {key}, and the keys below it."
    return Listing(("kind", "what it is"), list(kinds.items()), note)


def _files(what: str, key: str) -> Rows:
    """Return the bundled files of a kind with their titles, say."""
    kind = cast("bundled.Kind", what)
    folder = bundled.folder(kind)
    return [
        (name, str(strict_yaml.read(folder / f"{name}.yaml").data[key]))
        for name in bundled.names(kind)
    ]


def _traces() -> Rows:
    rows = []
    for name in bundled.names("traces"):
        folder = bundled.folder("traces") / name
        if is_net_trace(folder):
            of, net = "network", read_net_trace(folder)
            num, span_s, changes = net.num_records, net.span_ms / MS_PER_S, net.times_ms.size
        else:
            of, trace = "usage", read_trace(folder)
            num, span_s, changes = trace.num_users, trace.span_s / 1.0, trace.times_s.size
        hours = f"{float(span_s.mean()) / S_PER_HOUR:.1f}"
        rows.append((name, of, str(num), hours, str(changes)))
    return rows


def _scenarios() -> Rows:
    folder = bundled.folder("scenarios")
    return [
        (name, (folder / f"{name}.yaml").read_text("utf-8").splitlines()[0].removeprefix("# "))
        for name in bundled.names("scenarios")
    ]


_ROWS: dict[str, Callable[[], Rows]] = {
    "devices": _devices,
    "selectors": lambda: list(KINDS.items()),
    "datasets": _datasets,
    "weights": lambda: [(name, read_weights(name).kind) for name in bundled.names("weights")],
    "traces": _traces,
    "scenarios": _scenarios,
}
_TABLES = strict_yaml.read(Path(__file__).with_name("catalogue.yaml")).data
KEYS: dict[str, str] = {what: about["key"] for what, about in _TABLES.items() if "key" in about}
"""Keys of scenarios whose kinds a subject lists."""
SUBJECTS = tuple(sorted(_TABLES))
"""Subjects of `fleetsim list`."""
