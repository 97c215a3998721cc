"""Outline of a scenario in five lines."""

import pytest

from fleetsim import bundled
from fleetsim.scenario import load, outline


def lines_of(name, overrides=(), **keys):
    return {
        line.split()[0]: line.split(None, 1)[1] for line in outline(load(name, overrides, **keys))
    }


def test_a_buffered_server_says_what_closes_its_rounds():
    by_answers = lines_of("quickstart-fedbuff", {"server.deadline_s": 60})
    by_time = lines_of("quickstart-fedbuff", {"server.buffer_size": None, "server.window_s": 2.5})

    assert by_answers["server"] == (
        "buffered, 12 clients at work, a round every 8 answers, selector random, aggregator"
        " fedbuff, deadline 60 s"
    )
    assert ", a round every 2.5 s, " in by_time["server"]


def test_the_rules_that_end_a_run_are_all_named():
    found = lines_of("quickstart", stop={"accuracy": 0.9, "energy_j": 2e6, "time_s": 7200})

    assert found["stop"] == "accuracy 0.9 or 2e+06 J or 7200 s of virtual time"


@pytest.mark.parametrize("name", [n for n in bundled.names("scenarios") if "/" not in n])
def test_every_bundled_scenario_has_five_lines(name):
    assert len(outline(load(name))) == 5
