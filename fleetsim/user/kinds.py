"""All kinds of plug-in, by name, and the kind of a class."""

from collections.abc import Mapping
from types import MappingProxyType

from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean
from fleetsim.user.parts.aggregators import AggregatorPlugins
from fleetsim.user.parts.client_trainings import ClientTrainingPlugins
from fleetsim.user.parts.datasets import DatasetPlugins
from fleetsim.user.parts.losses import LossPlugins
from fleetsim.user.parts.models import ModelPlugins
from fleetsim.user.parts.partitions import PartitionPlugins
from fleetsim.user.parts.selectors import SelectorPlugins
from fleetsim.user.parts.trackers import TrackerPlugins
from fleetsim.user.plugin_kind import PluginKind
from fleetsim.user.watched_calls import refused

KINDS: Mapping[str, type[PluginKind]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            SelectorPlugins,
            AggregatorPlugins,
            PartitionPlugins,
            DatasetPlugins,
            TrackerPlugins,
            ClientTrainingPlugins,
            LossPlugins,
            ModelPlugins,
        )
    }
)
"""Every kind, in the order of the scenario's readers: who, how, on what."""


def kind_named(word: str, label: str) -> type[PluginKind]:
    """Return the kind of a name."""
    if word not in KINDS:
        message = f"{quoted(word)} is no kind of plug-in; {', '.join(KINDS)} are"
        raise refused(label, f"{message}{did_you_mean(word, KINDS)}")
    return KINDS[word]


def kind_of(cls: object, label: str, name: str) -> type[PluginKind]:
    """Return the only kind that claims a class."""
    claiming = [kind for kind in KINDS.values() if kind.claims(cls)]
    if len(claiming) == 1:
        return claiming[0]
    if claiming:
        kinds = " and ".join(kind.noun for kind in claiming)
        message = f"has methods of {kinds}; say which it is: --plugin {claiming[0].name}={name}"
        raise refused(label, message)
    each = ", ".join(f"{kind.name} ({', '.join(sorted(kind.marks))})" for kind in KINDS.values())
    message = (
        f"has no method by which a kind is known: {each}; write one, or say the kind: --plugin"
    )
    raise refused(label, f"{message} KIND={name}")
