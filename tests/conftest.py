"""Settings and fixtures of all tests: real data, the command line, and what all would do again.

Real data: `$FLEETSIM_DATA`, then a `shared` folder beside the checkout.
"""

from __future__ import annotations

import copy
import functools
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from fleetsim import bundled
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage import loading
from fleetsim.schema import strict_yaml

# A busy machine takes longer, which is no fault of the tested code.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `long` all but each n-th case of a test that is marked `one_in(n)`.

    Executed pages, minutes each, come first: else one process would wait for them at the end.
    """
    items.sort(key=lambda item: item.path.name != "test_executed_pages.py")
    seen: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is None:
            continue
        test = item.nodeid.partition("[")[0]
        if seen[test] % mark.args[0]:
            item.add_marker("long")
        seen[test] += 1


@pytest.fixture(scope="session", autouse=True)
def shared_work() -> Iterator[None]:
    """Do once what every run does alike, and leave files to the system's cache.

    - A device file takes 3 ms to parse, the trace people-week half a second; both are the same in
      a thousand runs. A document is copied, as its data can be changed, and a trace cannot.
    - The versions of libraries take 15 ms.
    - A run waits seventeen times for the disk, which changes nothing that a test can see.
    """
    parse = strict_yaml.parse
    parsed = functools.lru_cache(maxsize=500)(parse)
    bundle, read = bundled.folder("traces"), functools.cache(read_trace)

    def parse_once(text: str, *place: Any) -> strict_yaml.Document:
        if len(text) >= 10_000:
            return parse(text, *place)
        kept = parsed(text, *place)
        return replace(kept, data=copy.deepcopy(kept.data), places=dict(kept.places))

    def read_once(path: Path, *, unknown: Any = "hold") -> Trace:
        return (read if path.is_relative_to(bundle) else read_trace)(path, unknown=unknown)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_yaml, "parse", parse_once)
        patch.setattr(loading, "read_trace", read_once)
        patch.setattr(metadata, "version", functools.cache(metadata.version))
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def _find(kind: str, name: str) -> Path:
    homes = [Path(os.environ["FLEETSIM_DATA"])] if os.environ.get("FLEETSIM_DATA") else []
    homes.append(Path(__file__).resolve().parents[2] / "shared")
    for home in homes:
        for path in (home / kind / name, home / name):
            if path.is_dir():
                return path
    pytest.skip(f"real {kind}/{name} is in none of {', '.join(map(str, homes))}")


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """SIGINT as in a terminal; a shell lets what it starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Return the folder of a real data set by name; skips the test where it is missing."""
    return lambda name: _find("data", name)


@pytest.fixture
def real_trace() -> Callable[[str], Path]:
    """Return the folder of a real trace by name; skips the test where it is missing."""
    return lambda name: _find("traces", name)


class Ended(NamedTuple):
    """End of a command: its exit code and what it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys) -> Callable[..., Ended]:
    """Call the command line in this process; a process of its own takes seconds for imports."""
    from fleetsim import cli  # noqa: PLC0415

    def call(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["fleetsim", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert end.value.code is None or isinstance(end.value.code, int)
        return Ended(end.value.code or 0, *capsys.readouterr())

    return call


@pytest.fixture
def without_figures(monkeypatch) -> None:
    """Leave the figures out of pages, which take seconds; `tests/report` draws them."""
    monkeypatch.setattr(
        "fleetsim.report.pages.run_figures.saved", lambda drawn, folder, formats, **files: []
    )
