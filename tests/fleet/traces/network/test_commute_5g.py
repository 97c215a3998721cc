"""The bundled network trace: made by its script, with tunnels."""

from __future__ import annotations

import gzip
import importlib.util

import numpy as np
import pytest

from fleetsim import bundled
from fleetsim.fleet.traces.network.files import read_net_trace, write_net_trace

FOLDER = bundled.folder("traces") / "commute-5g"


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("commute_5g_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generator_makes_the_bytes_that_lie_there(make, tmp_path):
    trace = make.generate()
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    write_net_trace(trace, tmp_path, readme=make.readme(trace, readme))

    # Unpacked: another build of zlib may pack the same bytes otherwise.
    assert gzip.decompress((tmp_path / "rates.csv.gz").read_bytes()) == gzip.decompress(
        (FOLDER / "rates.csv.gz").read_bytes()
    )
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == readme


def test_a_commuter_gets_the_same_however_many_there_are(make):
    few, more = make.generate(num_commuters=2), make.generate(num_commuters=3)

    assert np.array_equal(few.down_bit_per_s, more.down_bit_per_s[: few.times_ms.size])


def test_every_commuter_has_outages_and_home_is_faster_than_the_ride():
    trace = read_net_trace(FOLDER)
    up_bit_per_s = trace.up_bit_per_s

    assert up_bit_per_s is not None
    assert trace.num_records == 30
    assert np.array_equal(up_bit_per_s == 0.0, trace.down_bit_per_s == 0.0)
    for begin, end in zip(trace.offsets[:-1], trace.offsets[1:], strict=True):
        first_minutes = slice(int(begin), int(begin) + 200)
        assert (trace.down_bit_per_s[begin:end] == 0.0).any()
        assert np.median(trace.down_bit_per_s[first_minutes]) > np.percentile(
            trace.down_bit_per_s[begin:end], 20
        )


def test_the_files_stay_small():
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gz")) < 400_000
