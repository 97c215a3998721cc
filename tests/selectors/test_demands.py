"""Demands of selectors agree with their needs."""

from typing import get_args

import pytest
import yaml

from fleetsim.selectors import DEMANDS, SelectorSettings, build_selector
from fleetsim.selectors.demands import Demand, Use

UNION = {cls.model_fields["kind"].default: cls for cls in get_args(get_args(SelectorSettings)[0])}
ROWS = [(kind, variant) for kind, variants in DEMANDS.items() for variant in variants]


def settings_of(kind, variant):
    cls = UNION[kind]
    required = {n: f.examples[0] for n, f in cls.model_fields.items() if f.is_required()}
    return cls(**required, **(yaml.safe_load(variant) or {} if variant else {}))


@pytest.mark.parametrize("kind", UNION)
def test_every_kind_has_its_demands(kind):
    demands = DEMANDS[kind].values()

    assert demands
    assert all(isinstance(demand, Demand) for demand in demands)


@pytest.mark.parametrize(("kind", "variant"), ROWS)
def test_every_variant_is_one_that_a_scenario_can_name(kind, variant):
    assert settings_of(kind, variant).kind == kind


@pytest.mark.parametrize(("kind", "variant"), ROWS)
def test_who_looks_at_losses_learns_of_samples(kind, variant):
    # A selector that is useless without real losses, accuracies or gradients cannot be a plain yes.
    demand = DEMANDS[kind][variant]

    assert demand.use in get_args(Use)
    if build_selector(settings_of(kind, variant)).needs_losses:
        assert demand.use in ("private", "small")
    else:
        assert demand.use in ("yes", "oracle")


@pytest.mark.parametrize(("kind", "variant"), ROWS)
def test_only_what_grows_faster_than_the_fleet_is_for_small_ones(kind, variant):
    demand = DEMANDS[kind][variant]

    assert (demand.use == "small") == (demand.square_byte > 0 or demand.has_sets)
