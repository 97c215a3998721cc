"""Explanations of keys, by a schema of a few classes and by that of scenarios."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from fleetsim import bundled
from fleetsim.cli.explain_keys import page_of
from fleetsim.errors import ScenarioError
from fleetsim.scenario import load, schema
from fleetsim.schema.explained_keys import explained_keys, keys_called, nearest_key, of_key
from fleetsim.schema.key_conditions import beside, by_key
from fleetsim.selectors import KINDS
from fleetsim.settings import Settings
from fleetsim.studies.search.search_file import schema as search_schema
from fleetsim.studies.settings import schema as study_schema


class Sharp(Settings):
    """A knife that cuts."""

    kind: Literal["sharp"] = "sharp"
    angle: Annotated[float, Field(gt=0, le=90)] = 20.0
    """Angle of the blade."""


class Blunt(Settings):
    """A knife that does not."""

    acts_if = by_key(angle=beside("kind", "never"))

    kind: Literal["blunt"]
    angle: Annotated[float, Field(gt=0, le=90)] = 20.0
    """Angle of the blade."""
    marks: list[Annotated[int, Field(ge=1)]] = Field(default_factory=list)
    """Its marks."""


class Drawer(Settings):
    """A drawer."""

    knife: Annotated[Sharp | Blunt, Field(discriminator="kind")]
    """Its knife."""
    spares: dict[str, Sharp] | None = None
    """Others, by name."""


KEYS = explained_keys(Drawer.model_json_schema())


def test_a_key_has_its_type_range_default_and_where_it_acts():
    (knife,) = of_key(KEYS, "knife")
    assert (knife.default, knife.kinds) == (
        None, {"sharp": "A knife that cuts.", "blunt": "A knife that does not."})  # fmt: skip
    sharp, blunt = of_key(KEYS, "knife.angle")
    assert (sharp.type, sharp.range, sharp.default) == ("number", "> 0 and <= 90", "20.0")
    assert (sharp.beside, sharp.no_effect) == (("knife.kind: sharp",), "")
    assert blunt.beside == ("knife.kind: blunt",)
    assert blunt.no_effect == "it is of kind: never alone; set that"
    (marks,) = of_key(KEYS, "knife.marks")
    assert (marks.type, marks.default) == ("list of whole number", "[]")
    assert [each.type for each in of_key(KEYS, "knife.kind")] == ["sharp or blunt"]
    assert len(of_key(KEYS, "spares.NAME.angle")) == 1


def test_alternatives_that_say_the_same_of_a_key_are_one():
    (rate,) = of_key(explained_keys(schema()), "task.local.optimizer.learning_rate")

    assert rate.beside == ("task.local.optimizer.kind: sgd, adam, adamw, adagrad, rmsprop",)


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("task.local.learning_rate", "task.local.optimizer.learning_rate"),
        ("deadline_s", "server.deadline_s"),
        ("server.dedline_s", "server.deadline_s"),
        ("fleet.charge_w", "fleet.battery.charge_w"),
        ("nothing.like.it", None),
    ],
)
def test_an_unknown_key_is_looked_up_in_all_of_the_schema(unknown, meant):
    assert nearest_key(explained_keys(schema()), unknown) == meant


def test_a_word_means_all_keys_that_it_ends_with_or_without_a_unit():
    keys = explained_keys(schema())

    assert keys_called(keys, "deadline") == ["server.deadline_s"]
    assert {"fleet.channel.bandwidth_hz", "fleet.heterogeneity.bandwidth"} <= {
        *keys_called(keys, "bandwidth")
    }
    assert keys_called(keys, "band") == []


def test_a_key_in_the_wrong_place_is_refused_with_the_right_one():
    with pytest.raises(
        ScenarioError, match=r"did you mean 'task\.local\.optimizer\.learning_rate'"
    ):
        load("quickstart", ["task.local.learning_rate=0.1"])


def test_a_key_of_the_file_that_an_override_of_the_kind_makes_unknown_comes_with_the_block():
    block = r"give all of server: --set 'server=\{mode: buffered, concurrency: \.\.\.\}'"
    with pytest.raises(ScenarioError, match=block):
        load("quickstart", ["server.mode=buffered"])


def test_a_misspelt_device_is_named_before_the_shares_are_summed():
    with pytest.raises(ScenarioError, match="did you mean 'pixel-6'") as fault:
        load("quickstart", ["fleet.devices={pixel-66: 0.5, jetson-nano-gpu: 0.6}"])
    assert "sum" not in str(fault.value)


def test_every_key_is_described_and_has_a_page():
    of_scenarios = explained_keys(schema())
    keys = [*of_scenarios, *explained_keys(study_schema()), *explained_keys(search_schema())]

    assert len(of_scenarios) > 500
    assert [each.key for each in keys if not each.description] == []
    pages = {page_of(each.key, each.beside) for each in of_scenarios}
    assert pages <= set(bundled.names("docs"))
    assert pages >= {f"selectors/{kind}" for kind in KINDS}
