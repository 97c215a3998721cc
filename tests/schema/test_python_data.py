"""Documents and overrides that are given as Python values."""

import re
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from fleetsim.errors import ScenarioError
from fleetsim.schema import overrides
from fleetsim.schema.python_data import changes_of, document_of
from fleetsim.schema.strict_yaml import Document

ENDLESS: dict[str, object] = {}
ENDLESS["again"] = ENDLESS


def called(server: int, *, workers: int) -> None:
    """Function whose arguments a keyword may resemble."""


def changed(given, /, **keywords):
    changes = changes_of(given, keywords, keys=["server", "stop"], call=called)
    return overrides.apply(Document({"server": {"cohort": 1, "kept": 2}}, "a.yaml"), changes).data


def test_values_of_numpy_and_of_paths_become_plain():
    data = OrderedDict(a=np.float64(0.5), b=np.array([1, 2]), c=(np.int32(3), True, None))

    document = document_of(data | {"d": MappingProxyType({"x": Path("some/file")})}, "scenario")

    assert document.data == {"a": 0.5, "b": [1, 2], "c": [3, True, None], "d": {"x": "some/file"}}
    assert type(document.data["a"]) is float
    assert document.where(("a",)) == "scenario"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"a": {"b": {1, 2}}}, "scenario: a.b = {1, 2}: set is no value of a file"),
        ({"a": [1, object]}, "scenario: a[1] = <class 'object'>: type is no value"),
        ({1: 2}, "scenario: cannot be written as YAML: the key 1 is not text"),
        ({"a": 2**63}, "scenario: cannot be written as YAML: int 9223372036854775808"),
        ({"a": "\x1b[2J"}, "scenario: cannot be written as YAML: text with the character"),
        ({"a": 1j}, "complex is no value"),
        (ENDLESS, "nested deeper than 32 levels"),
    ],
)
def test_what_no_file_can_hold_is_one_line(data, message):
    with pytest.raises(ScenarioError, match=re.escape(message)) as fault:
        document_of(data, "scenario")

    assert len(fault.value.faults) == 1


def test_overrides_have_four_forms_and_mappings_replace_those_of_the_file():
    requested = {"server": {"cohort": 5, "kept": 2}}

    assert changed("server.cohort=5") == requested
    assert changed(["server.cohort=4", "server.cohort=5"]) == requested
    assert changed({"server.cohort": np.int64(5)}) == requested
    assert changed((), server__cohort=5) == requested
    assert changed("server.cohort=4", server__cohort=5) == requested  # keywords come last
    assert changed({"server": {"cohort": 5}}) == {"server": {"cohort": 5}}
    assert changed((), stop={"rounds": 5})["stop"] == {"rounds": 5}


def test_a_keyword_that_is_neither_argument_nor_key_is_a_type_error_with_a_hint():
    with pytest.raises(TypeError, match=r"^called\(\) got an .* 'workes'; did you mean 'workers'"):
        changed((), workes=2)
    with pytest.raises(TypeError, match=r"'serv__cohort'"):
        changed((), serv__cohort=2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([5], "override 5: write 'KEY.PATH=VALUE'"),
        ({5: 1}, "override 5: a key path must be text"),
        ({"server.cohort": {1}}, "override server.cohort = {1}: set is no value"),
        ({"server..cohort": 1}, "override server..cohort=1: 'server..cohort' is no key path"),
        ({"server.cohort.x": 1}, "override server.cohort.x=1: server.cohort is 1, which has no"),
        ("server.cohort", "--set server.cohort: write KEY.PATH=VALUE"),
    ],
)
def test_an_override_that_cannot_be_read_is_one_line(given, message):
    with pytest.raises(ScenarioError, match=f"^{re.escape(message)}"):
        changed(given)
