"""Every number that a scenario, device or radio file may hold has a sensible range."""

import math

import pytest

from fleetsim.fleet.devices.figures import Figure
from tests.settings_walk import all_classes, declaring, leaves, numbers

MOST = 1e15
BEYOND = {
    "Scenario.seed": "the root of random draws; every 63-bit number is as good as another",
    "FleetSettings.seed": "a seed, as Scenario.seed",
    "StudySettings.seeds": "seeds of scenarios",
    "SearchSettings.sampler_seed": "a seed, as Scenario.seed",
}
"""Numbers that may be larger than `MOST`, and why."""
WRITTEN = ("fleetsim.record.", "fleetsim.studies.search.trials")
"""Packages of the classes that fleetsim itself writes: counts of past events."""
WITHOUT = {Figure}
"""Parent of figures: its subclasses give the range of a quantity."""

FIELDS = [
    pytest.param(owner, name, id=f"{owner.__name__}.{name}")
    for owner in all_classes()
    if not owner.__module__.startswith(WRITTEN) and owner not in WITHOUT
    for name in owner.model_fields
    if declaring(owner, name) is owner or name in owner.__annotations__
]


def limits(constraints: tuple[object, ...], names: tuple[str, ...]) -> list[float]:
    bounds = (getattr(item, name, None) for item in constraints for name in names)
    return [limit for limit in bounds if limit is not None]


@pytest.mark.parametrize(("owner", "name"), FIELDS)
def test_a_number_has_a_range(owner, name):
    bare = WITHOUT & {leaf for leaf, _ in leaves(owner.model_fields[name].annotation, ())}
    assert not bare, (
        f"{owner.__name__}.{name}: takes a figure of any quantity; take or add a subclass of Figure"
        " in fleetsim.fleet.devices.figures with the range of this one"
    )
    where = f"{owner.__module__}.{owner.__name__}.{name}"
    hint = "take a type of fleetsim.schema.ranges, or Annotated[..., Field(ge=..., le=...)]"
    for kind, constraints in numbers(owner, name):
        floor, ceiling = limits(constraints, ("ge", "gt")), limits(constraints, ("le", "lt"))

        assert floor, f"{where}: a number without a lower bound; {hint}"
        assert ceiling, f"{where}: a number without an upper bound; {hint}"
        assert all(map(math.isfinite, [*floor, *ceiling])), f"{where}: no range; {hint}"
        if kind is float:
            is_open = max(floor) == 0.0 and 0.0 in limits(constraints, ("gt",))
            assert not is_open, (
                f"{where}: gt=0 alone admits 5e-324; give the smallest value that makes sense"
                " with ge"
            )
        is_absurd = max(map(abs, [*floor, *ceiling])) > MOST
        assert not is_absurd or f"{owner.__name__}.{name}" in BEYOND, (
            f"{where}: a bound beyond {MOST:g}; lower it, or add it to BEYOND with the reason"
        )
