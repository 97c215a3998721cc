"""Bundled devices, radios, traces, scenarios, studies and other files, found by name.

In a wheel the bundle is inside the package; in a checkout it is the folders beside the package.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from fleetsim.host import paths
from fleetsim.quoting import quoted
from fleetsim.schema.spelling import did_you_mean

Kind = Literal[
    "devices",
    "radios",
    "traces",
    "scenarios",
    "studies",
    "searches",
    "prices",
    "measurements",
    "weights",
    "docs",
    "site",
]

_SUFFIX: dict[str, str] = {"traces": "", "weights": ".safetensors", "docs": ".md"}
"""Suffix of a bundled file; .yaml unless given. Traces are folders."""

_IN_CHECKOUT: dict[str, str] = {"site": "build/site/html"}
"""Folder of a kind in a checkout, unless it has the name of the kind."""


@cache
def folder(kind: Kind) -> Path:
    """Return the folder that holds the bundled files of a kind; found once, by many names."""
    package = Path(__file__).resolve().parent
    inside = package / "_bundle" / kind
    return inside if inside.is_dir() else package.parent / _IN_CHECKOUT.get(kind, kind)


def names(kind: Kind) -> list[str]:
    """Return the sorted names of a kind: file stems, or folder names for traces."""
    return list(_names(folder(kind), _SUFFIX.get(kind, ".yaml")))


@lru_cache
def _names(home: Path, suffix: str) -> tuple[str, ...]:
    """Return the names in a folder; searched once, as a scenario may name thousands of devices."""
    if not suffix:
        return tuple(sorted(path.parent.name for path in home.glob("*/README.md")))
    paths = home.rglob(f"*{suffix}")
    return tuple(sorted(str(path.relative_to(home).with_suffix("")) for path in paths))


def find(kind: Kind, name: str, *, beside: Path | None = None) -> Path | None:
    """Return the path of a bundled name or of a file of the user's own; None if there is neither.

    A relative path is resolved from `beside`, the folder of the file that names it, first, then
    from the working folder.

    Raises:
        DataError: the path is neither file nor folder, or cannot be examined.
    """
    suffix = _SUFFIX.get(kind, ".yaml")
    bundled = folder(kind) / f"{name}{suffix}"
    if name in _names(folder(kind), suffix):
        return bundled
    for home in (beside, Path()):
        if home is not None and paths.kind_of(user_path := home / name) is not None:
            return user_path
    return None


def not_found(kind: Kind, name: str, *, also: Sequence[str] = ()) -> str:
    """Return the end of a message on a name that `find` did not find, with the way out.

    >>> not_found("devices", "pixel6")
    "no such bundled device or path; did you mean 'pixel-6'?"
    """
    known = [*names(kind), *also]
    nouns = {"studies": "study", "searches": "search", "prices": "prices", "weights": "weights"}
    noun = nouns.get(kind, kind.removesuffix("s"))
    file = f"{name}{_SUFFIX.get(kind, '.yaml')}"
    if paths.kind_of(Path(file)) is not None:
        hint = f"; did you mean {quoted(f'./{file}')}?"
    else:
        hint = did_you_mean(name, known) or f"; bundled are {_listed(known)}"
    return f"no such bundled {noun} or path{hint}"


def _listed(known: Sequence[str]) -> str:
    """List names in one line, with those of a subfolder counted, as there may be dozens."""
    folders = Counter(name.partition("/")[0] for name in known if "/" in name)
    counts = [f"{count} in {name}/ (see fleetsim list)" for name, count in folders.items()]
    return ", ".join([*(name for name in known if "/" not in name), *counts])
