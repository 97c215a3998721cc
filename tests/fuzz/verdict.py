"""Rules that the end of every command must meet, whatever its input.

Exit 0, or exit 2 with lines that each name one place and one way out; no traceback, no text of a
library, no hang, no gigabyte.
"""

import re
from typing import Final

from tests.fuzz.case import Case
from tests.fuzz.sandbox import Ending

MOST_S: Final = 5.0
"""Limit of the processor time of a command."""
MOST_OF_PAGES_S: Final = 20.0
"""Limit for a command that draws figures; a good one takes four seconds."""
MOST_BYTE: Final = 1 << 30
MOST_LINES: Final = 22
MOST_CHARACTERS: Final = 900
_FOREIGN: Final = (
    r"Traceback \(most recent call last\)",
    r"\b(?:[A-Z][A-Za-z]*)?(?:Error|Exception|Warning)\b",
    r"Input should|validation error|For further information|(?<!versions\.)pydantic",
    r"<[\w.]+ object at 0x[0-9a-f]+>|np\.(?:int|float)\d+\(|\bNoneType\b|PosixPath\(",
)
_QUOTED: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
"""Text of the user, which may look like a library's text."""
_PLACE: Final = re.compile(
    r"^(?:error|warning): (?:not enough memory|[0-9]+ of [0-9]+ runs failed|fleetsim\b|--[a-z-]+|"
    r"the runs |[^:;]{1,400}:[0-9 ]|"
    r"[\w.\[\]'\"-]+ (?:=|is|has|must) |[^ ]*/[^ ]* )"
)
_HINT: Final = re.compile(
    r"; [a-z`'{]|: write |must (?:be|have|hold|match|not|return|sum|name)|missing|, not an? |"
    r"did you mean|it is a key of"
)
"""Pattern of the way out: a second clause after the fault, or the required value."""
_PLAIN: Final = Case((), {})
_MORE: Final = re.compile(r"error: \.\.\. and \d+ more$")


def faults(ending: Ending, case: Case = _PLAIN, *, draws_figures: bool = False) -> list[str]:
    """Describe the rules that the end of a command breaks; empty if there are none.

    Code of the user's own may end a command by a signal, and make a training diverge (code 1).
    """
    if ending.exit_code is None:
        return ["hangs: no answer"]
    text = case.without_user_faults(ending.stderr)
    unquoted = _QUOTED.sub("''", text)
    matches = [re.search(pattern, unquoted) for pattern in _FOREIGN]
    foreign = [f"foreign text {match[0]!r}" for match in matches if match]
    if ending.exit_code in case.endings:
        return foreign
    # Code 1 says that runs of a study failed, or that a training diverged.
    may_fail = case.user_file is not None or "runs failed; the page says why" in text
    most_s = MOST_OF_PAGES_S if draws_figures else MOST_S
    lines = text.splitlines()
    has_error = any(line.startswith("error: ") for line in lines)
    allowed = (0, 1, 2) if may_fail else (0, 2)
    rules = {
        f"exit code {ending.exit_code}": ending.exit_code not in allowed,
        "called a bug of fleetsim": "a bug of fleetsim" in text,
        f"{ending.processor_s:.1f} s of processor time": ending.processor_s > most_s,
        f"{ending.grown_byte / 2**30:.2f} GiB": ending.grown_byte > MOST_BYTE,
        "exit code 2 without an error line": ending.exit_code == 2 and not has_error,
        f"{len(lines)} lines": len(lines) > MOST_LINES,
    }
    broken = [rule for rule, is_broken in rules.items() if is_broken]
    of_lines = [f"{fault}: {line[:300]!r}" for line in lines for fault in _faults_of(line)]
    return [*foreign, *broken, *of_lines]


def _faults_of(line: str) -> list[str]:
    is_error = line.startswith("error: ") and not _MORE.match(line)
    rules = {
        f"a line of {len(line)} characters": len(line) > MOST_CHARACTERS,
        "not printable": not line.isprintable(),
        "no place": is_error and not _PLACE.match(line),
        "no way out": is_error and not _HINT.search(line),
        "neither error nor warning": not line.startswith(("error: ", "warning: ", "note: ")),
    }
    return [rule for rule, is_broken in rules.items() if is_broken]
