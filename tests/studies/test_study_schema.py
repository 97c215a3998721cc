"""The JSON Schemas of study and search files, as editors use them."""

import pytest

from fleetsim import bundled
from fleetsim.schema import strict_yaml
from fleetsim.studies.search import search_file
from fleetsim.studies.settings import schema
from tests.studies.small_studies import STUDY

jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema; pip install '.[dev]'")
SCHEMA = schema()


def broken(data, schema=SCHEMA):
    """Places where data breaks the schema, with the keyword that it breaks."""
    problems = jsonschema.Draft202012Validator(schema).iter_errors(data)
    return [
        "".join(f"/{key}" for key in one.absolute_path) + f": {one.validator}" for one in problems
    ]


@pytest.mark.parametrize("name", bundled.names("studies"))
def test_every_bundled_study_fits_the_schema(name):
    assert broken(strict_yaml.read(bundled.folder("studies") / f"{name}.yaml").data) == []


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"arm": {}}, ": additionalProperties"),
        ({"arms": {}}, "/arms: minProperties"),
        ({"arms": {"a=b": {}}}, "/arms: additionalProperties"),
        ({"arms": {"a": 1}}, "/arms/a: type"),
        ({"vary": {"server.cohort": []}}, "/vary/server.cohort: anyOf"),
        ({"vary": {"people": {"few,": {}}}}, "/vary/people: anyOf"),
        ({"seeds": [1, 1]}, "/seeds: uniqueItems"),
        ({"seeds": [-1]}, "/seeds/0: minimum"),
        ({"targets": [1.5]}, "/targets/0: anyOf"),
        ({"targets": [{"smooth_rounds": 3}]}, "/targets/0: anyOf"),
        ({"budgets": {"time": 3}}, "/budgets: anyOf"),
        ({"name": "a b"}, "/name: pattern"),
    ],
)
def test_what_a_study_refuses_breaks_the_schema(changes, place):
    assert broken(STUDY) == []
    assert place in broken(STUDY | changes)


def test_the_schema_of_searches_fits_bundled_ones_and_breaks_where_their_reader_refuses():
    schema = search_file.schema()
    search = strict_yaml.read(bundled.folder("searches") / "quick-cohort.yaml").data

    assert broken(search, schema) == []
    assert broken(search | {"vary": {}}, schema) == [": additionalProperties"]
    assert broken(search | {"objective": {"lowest": 1}}, schema) == [
        "/objective: additionalProperties"
    ]
    del search["scenario"]
    assert broken(search, schema) == [": required"]
