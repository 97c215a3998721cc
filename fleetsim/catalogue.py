"""Names that scenarios and commands may use, as tables for `fleetsim list`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import get_args

from fleetsim import bundled
from fleetsim.errors import ScenarioError
from fleetsim.fleet.devices.profile import device_names, load_device, reproduction_names
from fleetsim.fleet.traces.network.files import is_net_trace, read_net_trace
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.learning.data.blank import BlankSettings
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


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of names with their meaning."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""

    def records(self) -> list[dict[str, str]]:
        """Return the rows by column."""
        return [dict(zip(self.columns, map(str.strip, row), strict=True)) for row in self.rows]


def listing(what: str) -> Listing:
    """Return the table of one of `SUBJECTS`."""
    return _LISTINGS[what]()


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


def _devices() -> Listing:
    columns = ("name", "kind", "on", "GFLOP/s", "train W", "idle W", "RAM GiB")
    rows = [
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
    note = (
        "GFLOP/s: convolutions while training. train W: above idle. inferred: figures that were"
        " not measured on, or published for, the device; devices/NAME.yaml has every source."
        " `market`: phones whose speeds follow the market (docs/devices.md)."
        f" Not physical, for comparison with a paper alone: {', '.join(reproduction_names())}."
    )
    return Listing((*columns, "battery Wh", "inferred"), rows, note)


def _selectors() -> Listing:
    note = (
        "Requirements and costs of each: docs/selectors.md. A selector of your own: `fleetsim run"
        " SCENARIO --plugin MODULE:CLASS`."
    )
    return Listing(("kind", "what it chooses"), list(KINDS.items()), note)


def _kind(member: type[Settings]) -> tuple[str, str]:
    """Return kind and first docstring line of a settings class."""
    return str(member.model_fields["kind"].default), str(member.__doc__).splitlines()[0]


def _datasets() -> Listing:
    rows = []
    for member in get_args(get_args(DatasetSettings)[0]):
        is_fetched = any(not known.by_hand for known in member.published)
        rows.append((*_kind(member), "fleetsim data fetch" if is_fetched else member.how_to_get))
    rows.append((*_kind(BlankSettings), "built in"))
    return Listing(("kind", "what it is", "how to get it"), rows)


def _kinds(key: str) -> Listing:
    """Return the kinds of a key of scenarios."""
    kinds: dict[str, str] = {}
    for explained in of_key(_explained(), key):  # of each server mode, say
        kinds |= {kind: first_line(text) for kind, text in explained.kinds.items()}
    note = f"Key {key}; its settings: fleetsim explain {key}, and the keys below it."
    return Listing(("kind", "what it is"), list(kinds.items()), note)


def _files(what: bundled.Kind, key: str, note: str = "") -> Listing:
    """Return the bundled files of a kind with their titles, say."""
    folder = bundled.folder(what)
    rows = [
        (name, str(strict_yaml.read(folder / f"{name}.yaml").data[key]))
        for name in bundled.names(what)
    ]
    return Listing(("name", key), rows, note)


def _weights() -> Listing:
    rows = [(name, read_weights(name).kind) for name in bundled.names("weights")]
    note = "What one learned from, and at what cost: fleetsim selector show NAME."
    return Listing(("name", "selector"), rows, note)


def _metrics() -> Listing:
    units = {
        "rounds": "rounds of the server",
        "seconds": "virtual seconds",
        "joules": "joules of the whole fleet",
        "dollars": "dollars, by `prices`",
        "client updates": "updates that the server received; in place of rounds where servers of"
        " different modes are compared",
        "grams": "grams of CO2e, by `prices`",
    }
    return Listing(("metric", "unit of costs to a target"), list(units.items()))


def _traces() -> Listing:
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
    note = (
        "Usage: what people do with their devices (fleet.usage.trace). Network: how fast bits"
        " travel (fleet.channel.trace). Other traces are named by path; `fleetsim trace import`"
        " converts published ones."
    )
    return Listing(("name", "of", "records", "mean hours", "changes"), rows, note)


def _scenarios() -> Listing:
    folder = bundled.folder("scenarios")
    rows = [
        (name, (folder / f"{name}.yaml").read_text("utf-8").splitlines()[0].removeprefix("# "))
        for name in bundled.names("scenarios")
    ]
    return Listing(("name", "question"), rows, "Run one with `fleetsim run NAME`.")


KEYS = {
    "datasets": "task.dataset",
    "selectors": "server.selector",
    "models": "task.model",
    "partitions": "task.partition",
    "optimizers": "task.local.optimizer",
    "algorithms": "task.local.algorithm",
    "losses": "task.local.loss",
    "aggregators": "server.aggregator",
    "compressions": "server.compression",
    "channels": "fleet.channel",
}
"""Keys of scenarios whose kinds a subject lists."""
_RUN = "Run one with `fleetsim study {} NAME`."
_LISTINGS: dict[str, Callable[[], Listing]] = {
    **{what: partial(_kinds, key) for what, key in KEYS.items()},
    "devices": _devices,
    "radios": partial(_files, "radios", "title"),
    "prices": partial(_files, "prices", "title"),
    "selectors": _selectors,
    "datasets": _datasets,
    "weights": _weights,
    "metrics": _metrics,
    "traces": _traces,
    "scenarios": _scenarios,
    "studies": partial(_files, "studies", "question", _RUN.format("run")),
    "searches": partial(_files, "searches", "question", _RUN.format("optimize")),
}
SUBJECTS = tuple(sorted(_LISTINGS))
"""Subjects of `fleetsim list`."""
