"""Foreign text in messages: on one line, without control characters, of bounded length."""

MAX_VALUE = 80
"""Characters of a value that a message shows."""
MAX_LINE = 2000
"""Characters of a whole message: its beginning names the place, its end the way out."""
MAX_NAME = 255
"""Characters of a name of a run, a device or a trainer."""
MAX_LINES = 20
"""Faults that are listed."""


def quoted(value: object) -> str:
    r"""Return a value as Python writes it, quoted if it is text, cut to `MAX_VALUE` characters.

    >>> print(quoted("up\nand away"), quoted(10), len(quoted("x" * 100)))
    'up\nand away' 10 80
    """
    # Only the first characters: escaping a megabyte to show a line of it would be slow.
    if isinstance(value, str) and len(value) > MAX_VALUE:
        return f"{repr(value[:MAX_VALUE])[: MAX_VALUE - 3]}..."
    return cut(repr(value))


def type_name(value: object) -> str:
    """Return the name of a value's type; `None` has that name itself.

    >>> type_name(None), type_name(1.5)
    ('None', 'float')
    """
    return "None" if value is None else cut(type(value).__name__)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "item"), counted(2, "item")
    ('1 item', '2 items')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def cut(text: str, most: int = MAX_VALUE) -> str:
    """Return the text, cut to some characters.

    >>> cut("power-of-choice", 10)
    'power-o...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def one_line(text: str) -> str:
    r"""Return a message of bounded length, with unprintable characters as their codes.

    A line end or an escape sequence in a foreign file or name must not reach the terminal.

    >>> print(one_line("\x1b[2Jno.yaml: no such\nfile"))
    \x1b[2Jno.yaml: no such\nfile
    """
    if len(text) > MAX_LINE:
        end = MAX_LINE // 4
        text = f"{text[: MAX_LINE - end - 5]} ... {text[-end:]}"
    return _escaped(text)


def printable(text: str) -> str:
    r"""Return a text whose unprintable characters, but line ends and tabs, are their codes.

    >>> print(printable("a\x1b]0;b\n"), end="")
    a\x1b]0;b
    """
    return "\n".join("\t".join(map(_escaped, line.split("\t"))) for line in text.split("\n"))


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def listed(lines: list[str], *, num_unsaid: int = 0) -> list[str]:
    """Return the first `MAX_LINES` lines, and a line with the number of the others.

    >>> listed(["a: missing"], num_unsaid=3)
    ['a: missing', '... and 3 more']
    """
    more = max(0, len(lines) - MAX_LINES) + num_unsaid
    return [*lines[:MAX_LINES], *([f"... and {more} more"] if more else [])]
