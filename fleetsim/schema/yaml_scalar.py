"""Values of unquoted YAML scalars (rules of `fleetsim.schema.strict_yaml`), and text of floats.

PyYAML follows YAML 1.1, where `no` is a boolean, `12:30:00` is 45000, `1e6` is text and `010` is
eight. This module follows the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/, section 10.3)
without hexadecimal and octal numbers.
"""

import math
import re

Scalar = str | int | float | bool | None

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
