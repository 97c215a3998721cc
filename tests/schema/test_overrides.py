"""Documents and overrides that are given as Python values."""

import copy
import functools
import operator
import re
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetsim.errors import ScenarioError
from fleetsim.quoting import cut
from fleetsim.schema import overrides
from fleetsim.schema.overrides import apply, content_hash
from fleetsim.schema.python_data import changes_of, document_of
from fleetsim.schema.strict_yaml import Document, parse

FILE = """\
name: quickstart
stop: {rounds: 200}
battery:
server:
  cohort: 10
  selector:
    kind: oort
    exploration_fraction: 0.9
    pacer: {step_s: 20}
sites: [{radio: wifi}, {radio: lte}]
devices: {pixel-6: 0.5, t2.small: 0.5}
"""


def document() -> Document:
    return parse(FILE, "q.yaml")


def refusals(*changes: str) -> tuple[str, ...]:
    with pytest.raises(ScenarioError) as caught:
        apply(document(), changes)
    return caught.value.faults


@pytest.mark.parametrize(
    ("change", "key_path", "value"),
    [
        ("name=no", ("name",), "no"), ("name=a=b", ("name",), "a=b"),
        ("name='a: b'", ("name",), "a: b"), ("stop.rounds=5", ("stop", "rounds"), 5),
        ("stop.energy_j=1e6", ("stop", "energy_j"), 1e6), ("stop.5=x", ("stop", "5"), "x"),
        ("server.cohort= 20 ", ("server", "cohort"), 20),
        ("server.deadline_s=null", ("server", "deadline_s"), None),
        ("devices={pixel-6: 1.0}", ("devices",), {"pixel-6": 1.0}),
        ('devices."t2.small"=1', ("devices", "t2.small"), 1),
        ('devices["t2.small"]=1', ("devices", "t2.small"), 1),
        ('devices."t2.large"=1', ("devices", "t2.large"), 1), ('"x=y"=1', ("x=y",), 1),
        ("sites[1].radio=wifi", ("sites", 1, "radio"), "wifi"),
        ("sites.1.radio=wifi", ("sites", 1, "radio"), "wifi"),
        ("sites[0]={radio: none}", ("sites", 0), {"radio": "none"}), ("sites=[]", ("sites",), []),
        ("a.b.c=1", ("a",), {"b": {"c": 1}}),
        ("battery.capacity_j=5.0", ("battery",), {"capacity_j": 5.0}),
    ],
)  # fmt: skip
def test_an_override_sets_one_value_and_leaves_the_rest(change, key_path, value):
    changed = apply(document(), [change])

    assert functools.reduce(operator.getitem, key_path, changed.data) == value
    assert changed.where(key_path) == f"--set {change}"
    assert {key: item for key, item in changed.data.items() if key != key_path[0]} == {
        key: item for key, item in document().data.items() if key != key_path[0]
    }


def test_overrides_apply_in_order_and_leave_the_document_as_it_was():
    before = document()
    kept = copy.deepcopy(before)
    changes = ["stop={rounds: 1, time_s: 5}", "stop.rounds=2", "stop.rounds=3"]

    changed = apply(before, [*changes, "server.selector={kind: oort, pacer: {step_s: 1}}"])
    apply(before, ["server.selector.kind=random", "sites[0].radio=x", "new.key=1"])

    assert before == kept
    assert changed.data["stop"] == {"rounds": 3, "time_s": 5}
    assert changed.where(("stop", "rounds")) == "--set stop.rounds=3"
    assert changed.where(("stop", "time_s")) == "--set stop={rounds: 1, time_s: 5}"
    # A mapping that is set as a whole forgets the lines below it.
    assert changed.where(("server", "selector", "pacer", "step_s")).startswith("--set")


def test_another_kind_drops_the_keys_that_the_file_gave_the_old_one():
    changed = apply(document(), ["server.selector.kind=random"])

    assert changed.data["server"] == {"cohort": 10, "selector": {"kind": "random"}}
    assert changed.where(("server", "selector", "d")) == "--set server.selector.kind=random"
    assert changed.where(("server", "cohort")) == "q.yaml:5"
    # Those of the new kind may be set before or after it.
    changes = ["server.selector.kind=power-of-choice", "server.selector.d=20"]
    for order in (changes, changes[::-1]):
        selector = apply(document(), order).data["server"]["selector"]
        assert selector == {"kind": "power-of-choice", "d": 20}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("server.cohort", "write KEY.PATH=VALUE, such as server.cohort=20"),
        *[(change, "write KEY.PATH=VALUE") for change in ("=5", "", "server..cohort=5",
            ".cohort=5", "server cohort=5", "server[x]=5", 'devices."t2.small=5')],
        ("server.cohort=", "no value given; write null for none"),
        ("server.cohort=010", "010 could be octal"),
        ("server.selector=kind: oort", "write a list as [a, b] and a mapping as {key: value}"),
        ("server={cohort: 1, cohort: 2}", "cohort: given twice; keep one"),
        ("name=[1", "not YAML"),
        ("name=*x", "anchors (&) and aliases (*) are not allowed"),
        ("server.cohort.x=5",
         "server.cohort is 10, which has no keys; set it whole: server.cohort={x: ...}"),
        ("name[0]=5", "name is 'quickstart', which has no keys; set it whole"),
        ("[0]=5", "the scenario is a mapping; name one of its keys"),
        ("server[0]=5", "server is a mapping; name one of its keys"),
        ("sites[2].radio=x", "sites is a list of 2; take one of its items by index, from 0"),
        ("sites.first=x", "sites is a list of 2"),
        ("devices.t2.small=1", 'a key with a dot needs quotes; write devices."t2.small"'),
        ("a" + ".a" * 40 + "=1", "deeper than 32 levels"),
    ],
)  # fmt: skip
def test_an_override_that_makes_no_sense_is_refused_in_one_line(change, message):
    (line,) = refusals(change)

    assert line.startswith(f"--set {cut(change)}: ")
    assert message in line


def test_all_bad_overrides_are_told_at_once_and_without_unprintable_characters():
    assert len(refusals("server.cohort", "name=ok", "stop.rounds=010")) == 2
    for change in ("name=\x1b[31m", "na\nme=1", "name=\udcff"):
        assert all(line.isprintable() for line in refusals(change))
    # A kind that would drop an earlier override.
    assert refusals("server.selector.pacer.step_s=5", "server.selector.kind=random") == (
        "--set server.selector.kind=random: drops --set server.selector.pacer.step_s=5 as well; "
        "put it before that one",
    )


@pytest.mark.slow
@given(st.lists(st.text() | st.text("ab.=[]\"'{}:0 *&"), max_size=3))
def test_any_override_is_applied_or_refused(changes):
    try:
        changed = apply(document(), changes)
    except ScenarioError:
        return
    assert isinstance(changed.data, dict)


VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(VALUES, VALUES)
def test_equal_data_hash_alike_and_other_data_do_not(one, other):
    assert (content_hash(one) == content_hash(other)) == (one == other)


def test_numbers_hash_by_value_and_other_things_apart():
    for one, other in ((1, 1.0), (0.0, -0.0), (10**18, 1e18), ((1, 2), [1.0, 2.0])):
        assert content_hash(one) == content_hash(other)
    for this, that in ((1, True), (0, None), ("1", 1), ([1], 1), ({}, []), (0.3, 0.1 + 0.2)):
        assert content_hash(this) != content_hash(that)


def test_the_hash_is_the_sha256_of_canonical_json():
    # printf '{"a":[1,2.5,null,"x"]}' | sha256sum
    assert content_hash({"a": [1.0, 2.5, None, "x"]}) == (
        "629bba16e68e57c01e0ddbacda12d8b4c2e7b949f3cabd70b58acd3b42e8b15c"
    )
    with pytest.raises(ValueError, match="not JSON compliant"):
        content_hash({"a": float("nan")})


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
