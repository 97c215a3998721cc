"""All readers over ten laps: queries in any order return what the source states.

Each case writes a file of the form. The expected state at a second of the user's own clock comes
from what was written, not from what was read. Records begin at midnight of that clock.
"""

import json
import math
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from fleetsim.fleet.traces.usage.fedscale import read_fedscale
from fleetsim.fleet.traces.usage.files import read_trace
from fleetsim.fleet.traces.usage.flash import read_flash
from fleetsim.fleet.traces.usage.records import local_days
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.usage import OneState, build_usage

NUM_LAPS = 10
NUM_QUESTIONS = 300
DAY_S, HOUR_S = 86_400, 3_600
ON, OFF = OneState(True, True, True, 0.0, 0), OneState(False, False, False, 0.0, 0)


class Case(NamedTuple):
    """Trace as read, and the states of each user by its source."""

    trace: Trace
    spans_s: list[int]
    state_of: Callable[[int, int], OneState]
    """State of a user at a whole second after the midnight at which its first lap begins."""


def drawn_intervals(stream: np.random.Generator, span_s: int) -> list[tuple[int, int]]:
    """Sorted intervals in [0, span], some of which touch and some of which are empty."""
    edges = np.sort(stream.integers(0, span_s + 1, 24)).tolist()
    edges[7] = edges[6]
    edges[11] = edges[10]
    return list(zip(edges[::2], edges[1::2], strict=True))


def inside(intervals: list[tuple[int, int]], second: int) -> OneState:
    return ON if any(start <= second < stop for start, stop in intervals) else OFF


def states(home: Path, stream: np.random.Generator) -> Case:
    """Fleetsim's own form, in users' zones, with memory."""
    spans_s, offsets_h = [7 * HOUR_S, 2 * DAY_S + 17, 600], [0.0, 5.5, -8.0]
    rows: list[dict[int, OneState]] = []
    lines = []
    for user, span_s in enumerate(spans_s):
        times_s = sorted({0, *stream.integers(1, span_s, 30).tolist()})
        flags, loads = stream.integers(0, 2, (3, len(times_s))), stream.integers(0, 4, len(times_s))
        rows.append(
            {
                t_s: OneState(
                    bool(flags[0, at]),
                    bool(flags[1, at]),
                    bool(flags[2, at]),
                    loads[at] / 4,
                    int(loads[at]) << 20,
                )
                for at, t_s in enumerate(times_s)
            }
        )
        lines += [
            f"{user},{t_s},{int(s.online)},{int(s.charging)},{int(s.unmetered)},{s.load},{s.ram_byte}"
            for t_s, s in rows[-1].items()
        ]
    (home / "users.csv").write_text(
        "user,span_s,utc_offset_h\n"
        + "".join(f"{u},{s},{h}\n" for u, (s, h) in enumerate(zip(spans_s, offsets_h, strict=True)))
    )
    header = "user,t_s,online,charging,unmetered,load,ram_byte\n"
    (home / "states.csv").write_text(header + "\n".join(lines) + "\n")

    def state_of(user: int, second: int) -> OneState:
        # The user's midnight comes `offset` before the source's.
        there_s = (second - round(offsets_h[user] * HOUR_S)) % spans_s[user]
        return rows[user][max(t_s for t_s in rows[user] if t_s <= there_s)]

    return Case(read_trace(home), spans_s, state_of)


def intervals(home: Path, stream: np.random.Generator) -> Case:
    """Intervals of any user, from midnight."""
    spans_s = [DAY_S, 3 * DAY_S, 1000]
    lives = [drawn_intervals(stream, span_s) for span_s in spans_s]
    users = "".join(f"{u},{s}\n" for u, s in enumerate(spans_s))
    (home / "users.csv").write_text(f"user,span_s\n{users}")
    rows = "".join(f"{u},{a},{b}\n" for u, life in enumerate(lives) for a, b in life)
    (home / "intervals.csv").write_text(f"user,start_s,end_s\n{rows}")
    return Case(read_trace(home), spans_s, lambda user, second: inside(lives[user], second))


def flhetbench(home: Path, stream: np.random.Generator) -> Case:
    """Times observed, that begin anywhere between two midnights."""
    begins_s, spans_s = [DAY_S + 5 * HOUR_S, 40_000, 0], [DAY_S, 2 * DAY_S, 90_001]
    lives = [drawn_intervals(stream, span_s) for span_s in spans_s]
    users = "".join(
        f"{u},{b},{b + s}\n" for u, (b, s) in enumerate(zip(begins_s, spans_s, strict=True))
    )
    (home / "users.csv").write_text(f"user,trace_start_s,trace_end_s\n{users}")
    rows = "".join(
        f"{u},{begins_s[u] + a},{begins_s[u] + b}\n"
        for u, life in enumerate(lives)
        for a, b in life
    )
    (home / "intervals.csv").write_text(f"user,start_s,end_s\n{rows}")

    def state_of(user: int, second: int) -> OneState:
        return inside(lives[user], (second - begins_s[user]) % spans_s[user])

    return Case(read_trace(home), spans_s, state_of)


def extrasensory(home: Path, stream: np.random.Generator) -> Case:
    """Samples on Unix time; the people lived seven hours behind it. Silence is being offline."""
    unix_s = 1_444_028_400
    samples: list[list[tuple[int, str, str]]] = []
    for begin_s in (unix_s, unix_s + 30_000):
        gaps_s = stream.choice([60, 61, 300, 600, 601, 5000], 40)
        at_s = (begin_s + np.concatenate([[0], np.cumsum(gaps_s)])).tolist()
        words = stream.choice(["charging", "discharging", "unknown"], len(at_s)).tolist()
        nets = stream.choice(["wifi", "not_reachable", ""], len(at_s)).tolist()
        samples.append(list(zip(at_s, words, nets, strict=True)))
    rows = "".join(
        f"{user},ios,{t},0.5,{word},,{net},\n"
        for user, of_user in enumerate(samples)
        for t, word, net in of_user
    )
    header = "user,os,t,battery,battery_state,plugged,net,app_state\n"
    (home / "states.csv").write_text(header + rows)
    spans_s = [of_user[-1][0] - of_user[0][0] + 60 for of_user in samples]

    def state_of(user: int, second: int) -> OneState:
        first_s = samples[user][0][0]
        local_first_s = (first_s - 7 * HOUR_S) % DAY_S
        now_s = first_s + (second - local_first_s) % spans_s[user]
        seen = [sample for sample in samples[user] if sample[0] <= now_s]
        known = [word for _, word, _ in seen if word != "unknown"]
        nets = [net for _, _, net in seen if net]
        is_last = len(seen) == len(samples[user])
        return OneState(
            online=is_last
            or now_s < seen[-1][0] + 600
            or samples[user][len(seen)][0] <= (seen[-1][0] + 600),
            charging=known[-1:] == ["charging"],
            unmetered=nets[-1:] == ["wifi"],
            load=0.0,
            ram_byte=0,
        )

    return Case(read_trace(home, unknown="offline"), spans_s, state_of)


def flash(home: Path, stream: np.random.Generator) -> Case:
    """Logs of events; locked phones are online, unless nothing is known of their network."""
    events = ["screen_lock", "screen_unlock", "battery_charged_on", "battery_charged_off"]
    events += ["wifi", "4G", "Unknown", "screen_on", "55%"]
    begins = [datetime(2020, 1, 31, 22, 0, 5), datetime(2020, 2, 3, 4, 30)]
    logs: list[list[tuple[int, str]]] = []
    phones = {}
    for phone, begin in enumerate(begins):
        at_s = [0, *np.cumsum(stream.integers(1, 4000, 80)).tolist()]
        message = stream.choice(events, len(at_s)).tolist()
        logs.append(list(zip(at_s, message, strict=True)))
        text = "".join(f"{begin + timedelta(seconds=t)}\t{event}\n" for t, event in logs[-1])
        phones[str(phone)] = {"guid": "g", "model": "m", "messages": text}
    path = home / "state_traces.json"
    path.write_text(json.dumps(phones))
    spans_s = [log[-1][0] for log in logs]

    def state_of(user: int, second: int) -> OneState:
        begin = begins[user]
        after_midnight_s = begin.hour * HOUR_S + begin.minute * 60 + begin.second
        now_s = (second - after_midnight_s) % spans_s[user]
        seen = [event for t, event in logs[user] if t <= now_s]

        def last(*words: str) -> str | None:
            return next((event for event in reversed(seen) if event in words), None)

        network = last("wifi", "4G", "Unknown")
        charger = last("battery_charged_on", "battery_charged_off")
        is_locked = last("screen_lock", "screen_unlock") == "screen_lock"
        is_wifi = last("wifi", "4G") == "wifi"
        is_charging = charger == "battery_charged_on"
        return OneState(is_locked and network != "Unknown", is_charging, is_wifi, 0.0, 0)

    return Case(local_days(read_flash(path, "offline", "locked")), spans_s, state_of)


def fedscale(home: Path, stream: np.random.Generator) -> Case:
    """Lists of when clients become active and inactive."""
    spans_s = [100_000, 5_000]
    lives = [drawn_intervals(stream, span_s) for span_s in spans_s]
    clients = {
        number: {
            "active": [start for start, _ in life],
            "inactive": [stop for _, stop in life],
            "duration": sum(stop - start for start, stop in life),
            "finish_time": span_s,
            "model": "m",
        }
        for number, (life, span_s) in enumerate(zip(lives, spans_s, strict=True))
    }
    path = home / "client_behave_trace"
    path.write_bytes(pickle.dumps(clients))
    trace = local_days(read_fedscale(path))
    return Case(trace, spans_s, lambda user, second: inside(lives[user], second))


READERS = (states, intervals, flhetbench, extrasensory, flash, fedscale)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ten_laps_in_any_order_are_what_the_source_says(reader, seed, tmp_path):
    stream = np.random.default_rng(seed)
    case: Case = reader(tmp_path, stream)
    num_users = len(case.spans_s)
    everybody = np.ones(num_users, dtype=np.bool_)
    usage = build_usage(case.trace, seed=seed, has_people=everybody, shift="days")
    clients = stream.integers(0, num_users, NUM_QUESTIONS)
    spans_s = np.array(case.spans_s)[usage.user[clients]]
    times_s = stream.uniform(0.0, NUM_LAPS, NUM_QUESTIONS) * spans_s
    # A third at the exact edges of what was read, where an error of one second shows.
    edges = stream.choice(case.trace.times_s, NUM_QUESTIONS // 3)
    laps = stream.integers(1, NUM_LAPS, edges.size)
    at_edge = laps * spans_s[: edges.size] + edges - usage.shift_s[clients[: edges.size]]
    times_s[: edges.size] = at_edge - stream.choice([0.0, 1e-6], edges.size)
    order = stream.permutation(NUM_QUESTIONS)
    clients, times_s = clients[order], times_s[order]

    together = usage.state_at(clients, times_s)
    changes_s = usage.steps.next_change_after(clients, times_s)
    for at, (client, t_s) in enumerate(zip(clients.tolist(), times_s.tolist(), strict=True)):
        user, shift_s = int(usage.user[client]), int(usage.shift_s[client])
        span_s = case.spans_s[user]

        def expected(second: int, user: int = user, ahead: int = shift_s, lap: int = span_s):
            return case.state_of(user, (second + ahead) % lap)

        now = expected(math.floor(t_s))
        assert usage.state_at_one(client, t_s) == now
        assert tuple(column.item(at) for column in together.columns) == now
        change_s = usage.steps.next_change_after_one(client, t_s)
        assert change_s == changes_s[at] > t_s
        assert expected(int(change_s)) != now
        for second in stream.integers(math.floor(t_s), int(change_s), 5).tolist():
            assert expected(second) == now
