"""Scenarios and studies that commands in a text name."""

import re

from fleetsim import bundled

_NAMED = re.compile(
    r"(?:fleetsim (?:run|validate|study (?:run|status|report))|--(?:study|scenario|records))"
    r" +([\w./-]+)"
)
_OWN = re.compile(r"[A-Z]+|(?:my|mine)\b.*|.*\.yaml")
"""Placeholders, and files of the reader's own."""


def unknown_names(text: str) -> list[str]:
    """Names in commands that are neither bundled nor the reader's own."""
    known = {*bundled.names("scenarios"), *bundled.names("studies")}
    words = [word.rstrip(".") for word in _NAMED.findall(text) if not word.startswith("-")]
    return [word for word in words if word not in known and not _OWN.fullmatch(word)]
