"""Plain data as YAML that `fleetsim.schema.strict_yaml` reads back as equal data.

Mappings are written in lines, and lists in brackets, so that a list of a hundred thousand clients
stays short. Text is quoted unless it consists of letters, digits and a few unambiguous signs.

PyYAML follows YAML 1.1, where `no` is a boolean, `12:30:00` is 45000, `1e6` is text and `010` is
eight. Unquoted scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/, section
10.3) without hexadecimal and octal numbers.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

Scalar = str | int | float | bool | None

MAX_BYTE = 1 << 20
MAX_DEPTH = 32
MAX_VALUES = 200_000
"""Scalars, lists and mappings of a document; its keys do not count."""
UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")

_EXPONENT = r"(?:[eE][-+]?[0-9]+)"

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(
    rf"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]*{_EXPONENT}?|{_EXPONENT})|[-+]?\.[0-9]+{_EXPONENT}?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
# Octal, decimal, or a name of digits.
_AMBIGUOUS = re.compile(rf"[-+]?0[0-9]+(?:\.[0-9]*)?{_EXPONENT}?")
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*(?::[A-Za-z0-9_./-]+)*")
_LONGEST_SIMPLE_KEY = 1000
"""Beyond 1024 characters YAML wants a question mark before a key."""


def dump(data: dict[str, Any]) -> str:
    """Return YAML that `strict_yaml.parse` reads back as equal data, keys in the order given.

    Tuples become lists. What `strict_yaml` would refuse to read is a ValueError.

    >>> print(dump({"name": "no", "stop": {"energy_j": 1e6, "rounds": 5}, "at": [0, 1]}), end="")
    name: no
    stop:
      energy_j: 1000000.0
      rounds: 5
    at: [0, 1]
    """
    writer = _Writer()
    text = "".join(writer.lines(data, "", 0)) if data else "{}\n"
    if len(text.encode()) > MAX_BYTE:
        raise writer.refused("longer than 1 MiB")
    return text


class _Writer:
    def __init__(self) -> None:
        self.num_values = 1

    def refused(self, message: str) -> ValueError:
        return ValueError(f"cannot be written as YAML: {message}")

    def lines(self, data: dict[str, Any], indent: str, depth: int) -> Iterator[str]:
        self.require_room(depth)
        for key, value in data.items():
            name = self.key(key)
            is_long = len(name) > _LONGEST_SIMPLE_KEY
            yield f"{indent}? {name}\n{indent}:" if is_long else f"{indent}{name}:"
            if isinstance(value, dict) and value:
                self.num_values += 1
                yield "\n"
                yield from self.lines(value, f"{indent}  ", depth + 1)
            else:
                yield f" {self.flow(value, depth + 1)}\n"

    def flow(self, value: Any, depth: int) -> str:
        self.num_values += 1
        if self.num_values > MAX_VALUES:
            raise self.refused(f"more than {MAX_VALUES} values")
        if isinstance(value, list | tuple):
            self.require_room(depth)
            return f"[{', '.join([self.flow(item, depth + 1) for item in value])}]"
        if isinstance(value, dict):
            self.require_room(depth)
            return f"{{{', '.join([self.pair(*item, depth + 1) for item in value.items()])}}}"
        return self.scalar(value)

    def pair(self, key: Any, value: Any, depth: int) -> str:
        name = self.key(key)
        is_long = len(name) > _LONGEST_SIMPLE_KEY
        return f"{'? ' if is_long else ''}{name}: {self.flow(value, depth)}"

    def require_room(self, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise self.refused(f"nested deeper than {MAX_DEPTH} levels")

    def key(self, key: Any) -> str:
        if not isinstance(key, str):
            raise self.refused(f"the key {key!r} is not text")
        return self.text(key)

    def scalar(self, value: Any) -> str:
        match value:
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case int() if -(2**63) <= value < 2**63:
                return str(int(value))
            case float():
                return float_text(float(value))
            case str():
                return self.text(value)
            case _:
                raise self.refused(f"{type(value).__name__} {value!r:.80}")

    def text(self, text: str) -> str:
        if unfit := UNFIT.search(text):
            raise self.refused(f"text with the character {unfit.group()!a}")
        return str(text) if _is_plain(text) else f'"{"".join(map(_escaped, text))}"'


def _is_plain(text: str) -> bool:
    if not _PLAIN.fullmatch(text):
        return False
    try:
        return meaning(text) == text
    except ValueError:
        return False


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    sign, width = ("x", 2) if code < 1 << 8 else ("u", 4) if code < 1 << 16 else ("U", 8)
    return f"\\{sign}{code:0{width}x}"


def meaning(text: str) -> Scalar:
    """Return the value of an unquoted scalar.

    >>> [meaning(text) for text in ("1e6", "10", "no", "12:30", "True", "", "0x1F")]
    [1000000.0, 10, 'no', '12:30', True, None, '0x1F']
    """
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        # The length first: int() of thousands of digits is slow and refused by Python itself.
        if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
            raise ValueError(f"the whole number {text[:40]} does not fit 64 bits; write 1.0e30")
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if math.isinf(number) and "inf" not in text.lower():
            raise ValueError(f"the number {text[:40]} is too large for a float; write .inf")
        # Negative zero passes a range that begins at 0, and breaks what takes its sign.
        return number + 0.0
    if _AMBIGUOUS.fullmatch(text):
        raise ValueError(f"{text[:40]} could be octal; drop the leading zeros or put it in quotes")
    return text


def float_text(value: float) -> str:
    """Return the shortest text that `meaning` reads back as the same float.

    >>> float_text(0.1), float_text(1e22), float_text(float("-inf"))
    ('0.1', '1e+22', '-.inf')
    """
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return repr(value)
