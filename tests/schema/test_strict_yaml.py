import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetsim.errors import DataError, ScenarioError
from fleetsim.schema import strict_yaml
from fleetsim.schema.strict_yaml import MAX_DEPTH, Document, dump, parse, parse_value, read
from fleetsim.schema.yaml_text import MAX_BYTE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, None) for word in ("null", "Null", "NULL", "~", "")],
        *[(word, word) for word in ("yes", "No", "on", "OFF", "y", "n", "tRUE", "nULL", "inf")],
        *[(word, word) for word in ("12:30:00", "190:20:30", "2026-01-31", "2026-01-31T10:00:00Z")],
        *[(word, word) for word in ("0x1F", "0o17", "0b101", "1_000", "1.2.3", "e5", ".", "=")],
        *[(text, int(text)) for text in ("10", "-10", "+7", "0", f"{2**63 - 1}", f"-{2**63}")],
        *[(text, float(text)) for text in ("1e6", "1.0e6", "1E-3", "1.0e+6", "1.", "-.5e1", "0.1")],
        *[(text, 0.0) for text in ("-0.0", "-.0e1")],
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("'5'", "5"),
        ('"true"', "true"),
        ('"a\\tb"', "a\tb"),
    ],
)
def test_a_scalar_stands_for_what_it_looks_like(text, value):
    read_back = parse(f"key: {text}\n", "a.yaml").data["key"]

    # By text, as 0.0 == -0.0.
    assert (type(read_back), repr(read_back)) == (type(value), repr(value))


DEEP = "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1)


def test_a_block_scalar_is_text_a_byte_order_mark_is_not_and_the_deepest_nesting_is_read():
    assert parse("\ufeffkey: |-\n  5\n", "a.yaml").data == {"key": "5"}
    assert "a" in parse(f"a: {DEEP}", "a.yaml").data


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, "b.c: given twice, first in line 3; keep one"),
        ("a: 1\n'a': 2\n", 2, "a: given twice, first in line 1; keep one"),
        ("a: {b: 1, b: 1}", 1, "a.b: given twice, first in line 1; keep one"),
        ("a: 010", 1, "010 could be octal; drop the leading zeros or put it in quotes"),
        ("a: 1e999", 1, "the number 1e999 is too large for a float"),
        ("a: 9223372036854775808", 1, "does not fit 64 bits"),
        ("a: " + "9" * 5000, 1, "does not fit 64 bits"),
        ("a: &x 1\nb: *x\n", 1, "anchors (&) and aliases (*) are not allowed"),
        ("a: *x\n", 1, "anchors (&) and aliases (*) are not allowed"),
        ("&x a: 1\n", 1, "anchors (&) and aliases (*) are not allowed"),
        ("a:\n  <<: {b: 1}\n", 2, "merge keys (<<) are not allowed"),
        ("a: !!int '3'", 1, "tags such as tag:yaml.org,2002:int are not allowed"),
        ("a: !!python/object/apply:os.system [ls]", 1, "are not allowed; write a plain value"),
        ("a: ! x", 1, "tags such as ! are not allowed"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins"),
        ("---\n---\n", 2, "a second document begins"),
        ("a: 1\n1: 2\n", 2, "the key 1 must be text; put it in quotes"),
        ("~: 1", 1, "the key null must be text"),
        ("? [a]\n: 1\n", 1, "a key must be text, not a list or a mapping"),
        ("", 1, "the file says nothing"),
        ("# only words\n", 1, "the file says nothing"),
        ("\n- 1\n- 2\n", 2, "[1, 2] must be a mapping"),
        ("hello", 1, "'hello' must be a mapping"),
        ("a: 1\nb:\n\tc: 1\n", 3, "indent with spaces, not tabs"),
        ("a: [1, 2\nb: 3\n", 2, "not YAML: while parsing a flow sequence, expected ',' or ']'"),
        ("a: b: c", 1, "not YAML: mapping values are not allowed here"),
        ("a: 'x", 1, "not YAML: while scanning a quoted scalar"),
        ("a: @x", 1, "not YAML: while scanning for the next token, found character '@'"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', 2, "number or escape out of range"),
        ("%YAML " + "9" * 5000 + ".1\n---\na: 1", 1, "number or escape out of range"),
        ('a: "\\ud800"', 1, r"text may not hold the character '\ud800'; remove it"),
        ('a: "\\0"', 1, r"text may not hold the character '\x00'; remove it"),
        ('"\\e[31m": 1', 1, r"text may not hold the character '\x1b'; remove it"),
        ("a: 1\nb: \x07\n", 2, r"character '\x07' is not text"),
        (f"a: [{DEEP}]", 1, "nested deeper than 32 levels; make it flatter"),
        ("a: " + "[" * 100_000, 1, "nested deeper than 32 levels; make it flatter"),
        ("- " * 100_000, 1, "nested deeper than 32 levels; make it flatter"),
        ("a" * (MAX_BYTE + 1), 1, "longer than 1 MiB"),
    ],
)
def test_a_trap_is_refused_with_file_line_and_way_out(text, line, message):
    with pytest.raises(DataError) as caught:
        parse(text, "x/a.yaml", DataError)

    line_text = str(caught.value)
    assert line_text.startswith(f"x/a.yaml:{line}: ")
    assert message in line_text
    assert "\n" not in line_text


def test_a_file_is_named_as_the_user_named_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/a.yaml").write_text("name: gr\u00fc\u00df\n", encoding="utf-8")

    document = read(Path("folder/a.yaml"))

    assert document.data == {"name": "gr\u00fc\u00df"}
    assert (document.source, document.folder) == ("folder/a.yaml", Path("folder"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: \u00fc".encode("latin-1"), ":1: byte 0xfc is not UTF-8"),
        (b"a: 1\nb: \xff\n", ":2: byte 0xff is not UTF-8"),
        ("a: 1".encode("utf-16"), ":1: byte 0xff is not UTF-8"),
        ("a: 1".encode("utf-16-le"), r":1: character '\x00' is not text"),
        (b"a" * (MAX_BYTE + 1), ": larger than 1 MiB"),
        (b"", ":1: the file says nothing"),
    ],
)
def test_a_file_that_is_no_settings_file_is_refused(tmp_path, content, message):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)

    with pytest.raises(DataError) as caught:
        read(path, DataError)

    assert str(caught.value).startswith(f"{path}{message}")


PLACED = """\
# a comment
name: x

server:
  cohort: 10
  sites:
    - kind: wifi
    -
      kind: lte
fleet: {size: 3,
  devices: {t2.small: 1.0}}
"""


@pytest.mark.parametrize(
    ("key_path", "line"),
    [
        ((), 2), (("name",), 2), (("server",), 4), (("server", "cohort"), 5),
        (("server", "sites", 0), 7), (("server", "sites", 0, "kind"), 7),
        (("server", "sites", 1, "kind"), 9), (("fleet", "size"), 10),
        (("fleet", "devices", "t2.small"), 11), (("server", "absent", "deeper"), 4),
        (("server", "sites", 7, "kind"), 6), (("absent",), 2),
    ],
)  # fmt: skip
def test_a_line_is_that_of_the_key_or_of_its_nearest_parent(key_path, line):
    document = parse(PLACED, "a.yaml")
    by_override = Document({}, "a.yaml", None, {(): 1, key_path: "--set a.b=1"})

    assert document.line(key_path) == line
    assert document.where(key_path) == f"a.yaml:{line}"
    assert by_override.line((*key_path, "b")) == 0
    assert by_override.where((*key_path, "b")) == "--set a.b=1"


@pytest.mark.parametrize(
    ("key_path", "text"),
    [
        ((), ""), (("a", "b-c", "_d1"), "a.b-c._d1"), (("a", 0, "b"), "a[0].b"),
        (("t2.small",), '["t2.small"]'), (("a", 'x"y', ""), 'a["x\\"y"][""]'),
    ],
)  # fmt: skip
def test_a_key_path_is_spelled_unambiguously_and_long_values_are_cut(key_path, text):
    numbers = f"[{', '.join(map(str, range(100)))}]"

    assert strict_yaml.spelled(key_path) == text
    assert strict_yaml.spelled(("a", "x" * 100)) == f'a["{"x" * 77}..."]'
    assert strict_yaml.shown(list(range(100))) == f"{numbers[:77]}..."
    assert strict_yaml.shown("x" * 100) == f"'{'x' * 76}..."
    assert strict_yaml.shown({"x" * 100: 1}) == f"{{{'x' * 76}..."


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5), (" 1e6 ", 1e6), ("oort", "oort"), ("no", "no"), ("null", None), ("''", ""),
        ("[1, {a: b}]", [1, {"a": "b"}]), ("{pixel-6: 1.0}", {"pixel-6": 1.0}), ("{}", {}),
    ],
)  # fmt: skip
def test_one_value_follows_the_same_rules(text, value):
    assert parse_value(text, "--set a=...") == value


UNFIT = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\ufffe", "\uffff"]
FIT = [character for character in UNFIT if character not in "\t\n\r\x85"]
TRAPS = ["yes", "1e6", "010", "<<", "~", "=", "12:30", "- a", "a: b", "#", "*a", "&a", "!a", "%"]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=FIT)) | st.sampled_from(
    [*TRAPS, "", " ", "\n", "\ufeff", "null", ".nan", "true", "0x1F", "\u2028", "a #b", "'", '"']
)
FLOATS = st.floats().map(lambda number: number + 0.0)  # without negative zero
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FLOATS | TEXT
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=10
)


@pytest.mark.slow
@settings(max_examples=50)  # each of up to ten values; generating them takes the time
@given(st.dictionaries(TEXT, DATA, min_size=1))
def test_what_is_written_reads_back_with_the_same_values_types_and_order(data):
    # As JSON text, 1, 1.0 and true differ, and NaN equals NaN.
    assert json.dumps(parse(dump(data), "a.yaml").data) == json.dumps(data)


def test_safe_text_has_no_quotes_tuples_are_lists_and_values_used_twice_are_written_twice():
    shared = (1, 1.5)

    assert dump({"when": "12:30", "a": shared, "b": shared}) == (
        "when: 12:30\na: [1, 1.5]\nb: [1, 1.5]\n"
    )


def test_many_values_are_refused_where_they_become_too_many(monkeypatch):
    monkeypatch.setattr(strict_yaml, "MAX_VALUES", 100)

    assert len(parse(f"a: [{'1, ' * 98}]", "a.yaml").data["a"]) == 98
    with pytest.raises(ScenarioError, match=r"a\.yaml:2: more than 100 values; "):
        parse(f"a: [{'1, ' * 98}]\nb: 1", "a.yaml")


UNWRITABLE = [object(), {1}, b"x", 2**63, {1: 2}, "\x00", "\ud800", Path("x"), 1j]
TOO_MUCH = {
    "longer than 1 MiB": "x" * (1 << 20),
    "more than 200000 values": [0] * 200_000,
    "deeper than 32 levels": json.loads("[" * 32 + "]" * 32),
}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((value, "") for value in UNWRITABLE),
        *((much, message) for message, much in TOO_MUCH.items()),
    ],
    ids=range(len(UNWRITABLE) + len(TOO_MUCH)),
)
def test_what_could_not_be_read_back_is_not_written(value, message):
    with pytest.raises(ValueError, match=f"cannot be written as YAML: .*{message}"):
        dump({"a": value})


YAML_LIKE = st.text("{}[]:,-#&*!|>'\"%@`?~<=.\\+ \n\tabexU0159")


def is_refused_in_one_line(
    read: Callable[[], object], place: str, error: type[Exception] = DataError
) -> bool:
    """Return whether it is, or nothing is refused; other exceptions propagate."""
    try:
        read()
    except error as refusal:
        return str(refusal).startswith(place) and len(str(refusal).splitlines()) == 1
    return True


@given(st.text() | YAML_LIKE)
def test_any_text_is_read_or_refused_in_one_line_with_its_place(text):
    assert is_refused_in_one_line(lambda: parse(text, "a.yaml", DataError), "a.yaml:")
    assert is_refused_in_one_line(lambda: parse_value(text, "--set"), "--set: ", ScenarioError)


@given(st.binary())
def test_any_bytes_are_read_or_refused_with_their_place(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)

    assert is_refused_in_one_line(lambda: read(path, DataError), f"{path}:")
