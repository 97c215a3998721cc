"""Descriptions of keys: own, inherited and replaced docstrings, and classes without a source."""

from pydantic import Field, create_model

from fleetsim.schema.field_docstrings import description
from fleetsim.settings import Settings


class _Parent(Settings):
    size: int = 1
    """Number of
    clients."""
    rate: float = 1.0
    """Updates a second."""
    plain: int = 0


class _Child(_Parent):
    rate: float = 2.0
    name: str = Field(default="", description="Name of the run.")
    """Not read."""


def test_a_docstring_is_inherited_until_its_field_is_declared_again():
    assert description(_Child, "size") == "Number of\nclients."
    assert description(_Parent, "rate") == "Updates a second."
    assert description(_Child, "rate") is None
    assert description(_Child, "plain") is None


def test_a_stated_description_has_priority_and_enters_the_schema_like_docstrings():
    schema = _Child.model_json_schema()["properties"]

    assert description(_Child, "name") == "Name of the run."
    assert {key: part.get("description") for key, part in schema.items()} == {
        "size": "Number of\nclients.",
        "rate": None,
        "plain": None,
        "name": "Name of the run.",
    }


def test_classes_in_functions_are_told_apart_and_those_without_a_source_have_no_docstrings():
    class _Parent(Settings):  # of the same name as the one above
        size: int = 1
        """Bytes."""

    made = create_model("Made", __base__=Settings, __module__="nowhere", size=(int, 1))

    assert description(_Parent, "size") == "Bytes."
    assert description(made, "size") is None
