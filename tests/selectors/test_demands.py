"""Demands of selectors agree with their needs."""

from typing import get_args

import pytest
import yaml

from fleetsim.selectors import DEMANDS, SelectorSettings
from fleetsim.selectors.demands import Use

UNION = {cls.model_fields["kind"].default: cls for cls in get_args(get_args(SelectorSettings)[0])}


def settings_of(kind, variant):
    cls = UNION[kind]
    required = {n: f.examples[0] for n, f in cls.model_fields.items() if f.is_required()}
    return cls(**required, **(yaml.safe_load(variant) or {} if variant else {}))


def test_every_kind_has_its_demands():
    assert DEMANDS.keys() == UNION.keys()
    assert all(DEMANDS.values())


@pytest.mark.parametrize(
    ("kind", "variant"),
    [(kind, variant) for kind, of_kind in DEMANDS.items() for variant in of_kind],
)
def test_a_variant_is_in_the_settings_and_its_use_follows_from_needs_and_memory(kind, variant):
    settings, demand = settings_of(kind, variant), DEMANDS[kind][variant]

    assert demand.use in get_args(Use)
    # A selector that is useless without real losses, accuracies or gradients cannot be a plain yes.
    is_private = demand.use in ("private", "small")
    assert is_private == settings.build().needs_losses
    # Only what grows faster than the fleet is for small ones.
    assert (demand.use == "small") == (demand.square_byte > 0 or demand.has_sets)
