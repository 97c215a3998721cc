"""The bundled usage trace: made by its script, with days and nights."""

from __future__ import annotations

import gzip
import importlib.util

import numpy as np
import pytest

from fleetsim import bundled
from fleetsim.fleet.traces.usage.files import read_trace, write_trace

FOLDER = bundled.folder("traces") / "people-week"


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("people_week_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generator_makes_the_bytes_that_lie_there(make, tmp_path):
    trace = make.generate()
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    write_trace(trace, tmp_path, readme=make.readme(trace, readme))

    # Unpacked: another build of zlib may pack the same bytes otherwise.
    for name in ("states.csv.gz", "users.csv.gz"):
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(
            (FOLDER / name).read_bytes()
        )
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == readme


def test_a_person_lives_the_same_week_however_many_there_are(make):
    few, more = make.generate(num_users=2), make.generate(num_users=3)

    assert np.array_equal(few.times_s, more.times_s[: few.num_changes])
    assert np.array_equal(few.load, more.load[: few.num_changes])


def test_people_charge_at_night_and_are_on_their_phones_by_day(make):
    trace = read_trace(FOLDER)
    shares = make.hourly_shares(trace)

    assert trace.num_users == 300
    assert shares["charging"][3] > 3 * shares["charging"][15]
    assert shares["eligible"][3] > 3 * shares["eligible"][15]
    assert shares["unmetered"][21] > shares["unmetered"][13]


def test_the_files_stay_small():
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gz")) < 600_000
