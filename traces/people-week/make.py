"""Generator of the trace people-week: a week of synthetic people and their phones.

    python traces/people-week/make.py

The command rewrites the data beside this script and the figures in README.md, with the same bytes
each time. README.md states the model in terms of the constants below, which are all of its
parameters. They are plausible, not fitted to data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fleetsim import rng
from fleetsim.contracts import BoolArray, FloatArray, IntArray
from fleetsim.fleet.traces.usage.files import write_trace
from fleetsim.fleet.traces.usage.trace import Trace
from fleetsim.fleet.usage.usage import build_usage

SEED = 20_260_105
NUM_USERS = 300

HOUR_S, DAY_S = 3_600, 86_400
NUM_DAYS = 7
WEEK_S = NUM_DAYS * DAY_S
SATURDAY = 5
FIGURES_MARK = "<!-- from here on written by make.py -->\n"

# --- parameters: hours, chances; pairs are the bounds of a uniform draw ---------------------------
WAKE_MEAN_H, WAKE_SD_H, WAKE_RANGE_H = 7.0, 1.0, (5.0, 10.0)
BED_MEAN_H, BED_SD_H, BED_RANGE_H = 23.25, 1.0, (21.0, 26.0)
WEEKEND_LATER_H = (0.5, 2.0)
DAY_TO_DAY_SD_H = 0.3
WORKER_SHARE = 0.65
COMMUTE_H = (0.25, 1.0)
WORK_H = (7.5, 9.0)
BREAKFAST_H = (0.75, 1.25)
REST_H = {"evening": (0.5, 1.5), "weekday": (2.0, 6.0), "weekend": (2.0, 6.0)}
HOME_WIFI_SHARE = 0.95
WORK_WIFI_SHARE = 0.45
OUTING_CHANCE = {"evening": 0.2, "weekday": 0.7, "weekend": 0.85}
OUTING_H = {"evening": (1.0, 3.0), "weekday": (1.0, 3.0), "weekend": (1.0, 5.0)}
NIGHT_CHARGE_CHANCE = (0.6, 1.0)
NIGHT_CHARGE_SLACK_H = 0.35
TOP_UPS_PER_DAY, TOP_UPS_PER_DAY_AFTER_NIGHT_WITHOUT = 1.0, 1.6
TOP_UP_H = (0.3, 2.0)
NIGHT_OFF_SHARE, NIGHT_OFF_CHANCE = 0.1, 0.9
DEAD_ZONE_CHANCE, DEAD_ZONE_H = 0.3, (0.02, 0.1)
SWITCHED_OFF_CHANCE, SWITCHED_OFF_H = 0.05, (0.2, 2.0)
SESSIONS_PER_DAY_MEDIAN, SESSIONS_PER_DAY_SIGMA = 18.0, 0.4
# Sessions of four kinds: messages, browsing, video, game.
SESSION_CHANCE = (0.50, 0.30, 0.15, 0.05)
SESSION_MEDIAN_S = (60.0, 240.0, 900.0, 900.0)
SESSION_SIGMA = 0.8
SESSION_MOST_S = 3_600.0
SESSION_LOAD_PERCENT = (10, 25, 40, 70)


class Week:
    """States of one person in each second of a week, which wraps around at its end."""

    def __init__(self) -> None:
        self.online: BoolArray = np.ones(WEEK_S, dtype=np.bool_)
        self.charging: BoolArray = np.zeros(WEEK_S, dtype=np.bool_)
        self.unmetered: BoolArray = np.zeros(WEEK_S, dtype=np.bool_)
        self.load_percent = np.zeros(WEEK_S, dtype=np.uint8)

    def set(self, column: BoolArray, start_s: float, end_s: float, value: bool) -> None:
        """Set a column to a value in [start, end)."""
        for part in _parts(start_s, end_s):
            column[part] = value

    def use(self, start_s: float, end_s: float, percent: int) -> None:
        """Add a session in [start, end); where two overlap, the higher load counts."""
        for part in _parts(start_s, end_s):
            np.maximum(self.load_percent[part], percent, out=self.load_percent[part])

    def changes(self) -> tuple[IntArray, BoolArray, BoolArray, BoolArray, FloatArray]:
        """Return the seconds at which a state changes, and the states from then on."""
        flags = self.online + 2 * self.charging.astype(np.int16) + 4 * self.unmetered
        code = flags + 8 * self.load_percent.astype(np.int16)
        times_s = np.concatenate([[0], np.flatnonzero(np.diff(code)) + 1]).astype(np.int64)
        return (
            times_s,
            self.online[times_s],
            self.charging[times_s],
            self.unmetered[times_s],
            self.load_percent[times_s] / 100.0,
        )


def _parts(start_s: float, end_s: float) -> list[slice]:
    start, length = int(start_s) % WEEK_S, int(end_s) - int(start_s)
    end = start + max(length, 0)
    return [slice(start, min(end, WEEK_S)), slice(0, max(end - WEEK_S, 0))]


class Draws:
    """Random draws of one person, in hours and probabilities."""

    def __init__(self, seed: int, person: int) -> None:
        self.stream = rng.stream(seed, "people-week", person)

    def between(self, low_high: tuple[float, float]) -> float:
        """Draw uniformly from [low, high)."""
        return float(self.stream.uniform(*low_high))

    def chance(self, probability: float) -> bool:
        """Draw True with a probability."""
        return bool(self.stream.random() < probability)

    def around(self, mean: float, sd: float, within: tuple[float, float]) -> float:
        """Draw from a normal law, clipped."""
        return float(np.clip(self.stream.normal(mean, sd), *within))


def draw_week(draws: Draws) -> Week:
    """Draw one person's week."""
    week = Week()
    wake_h = draws.around(WAKE_MEAN_H, WAKE_SD_H, WAKE_RANGE_H)
    bed_h = draws.around(BED_MEAN_H, BED_SD_H, BED_RANGE_H)
    later_h = draws.between(WEEKEND_LATER_H)
    jitter_h = draws.stream.normal(0.0, DAY_TO_DAY_SD_H, size=(2, NUM_DAYS))
    days = np.arange(NUM_DAYS)
    free_day = days >= SATURDAY
    free_evening = (days == SATURDAY - 1) | (days == SATURDAY)
    wake_s = days * DAY_S + (wake_h + later_h * free_day + jitter_h[0]) * HOUR_S
    bed_s = days * DAY_S + (bed_h + later_h * free_evening + jitter_h[1]) * HOUR_S
    next_wake_s = np.append(wake_s[1:], wake_s[0] + WEEK_S)
    _places(week, draws, wake_s)
    _nights(week, draws, wake_s, bed_s, next_wake_s)
    _sessions(week, draws, wake_s, bed_s)
    week.unmetered &= week.online
    return week


def _places(week: Week, draws: Draws, wake_s: FloatArray) -> None:
    """Draw Wi-Fi at home, at work and on outings, and dead zones on the way."""
    has_wifi = draws.chance(HOME_WIFI_SHARE)
    works, works_with_wifi = draws.chance(WORKER_SHARE), draws.chance(WORK_WIFI_SHARE)
    commute_s = draws.between(COMMUTE_H) * HOUR_S
    week.unmetered[:] = has_wifi
    for day in range(NUM_DAYS):
        kind = "weekend" if day >= SATURDAY else "evening" if works else "weekday"
        home_s = float(wake_s[day])
        if kind == "evening":
            leave_s = home_s + draws.between(BREAKFAST_H) * HOUR_S
            arrive_s = leave_s + commute_s
            finish_s = arrive_s + draws.between(WORK_H) * HOUR_S
            home_s = finish_s + commute_s
            week.set(week.unmetered, leave_s, home_s, value=False)
            week.set(week.unmetered, arrive_s, finish_s, value=works_with_wifi)
            for trip_s in (leave_s, finish_s):
                _dead_zone(week, draws, trip_s, trip_s + commute_s)
        if draws.chance(OUTING_CHANCE[kind]):
            leave_s = home_s + draws.between(REST_H[kind]) * HOUR_S
            back_s = leave_s + draws.between(OUTING_H[kind]) * HOUR_S
            week.set(week.unmetered, leave_s, back_s, value=False)
            _dead_zone(week, draws, leave_s, back_s)


def _dead_zone(week: Week, draws: Draws, start_s: float, end_s: float) -> None:
    """Draw at most one dead zone in [start, end)."""
    if draws.chance(DEAD_ZONE_CHANCE):
        length_s = draws.between(DEAD_ZONE_H) * HOUR_S
        at_s = draws.between((start_s, max(end_s - length_s, start_s)))
        week.set(week.online, at_s, at_s + length_s, value=False)


def _nights(
    week: Week, draws: Draws, wake_s: FloatArray, bed_s: FloatArray, next_wake_s: FloatArray
) -> None:
    """Draw charging at night and in the day, and times when the phone is off."""
    night_charge_chance = draws.between(NIGHT_CHARGE_CHANCE)
    is_off_at_night = draws.chance(NIGHT_OFF_SHARE)
    slack_h = (-NIGHT_CHARGE_SLACK_H, NIGHT_CHARGE_SLACK_H)
    charged = [draws.chance(night_charge_chance) for _ in range(NUM_DAYS)]
    for day in range(NUM_DAYS):
        if charged[day]:
            plug_s = bed_s[day] + draws.between(slack_h) * HOUR_S
            unplug_s = next_wake_s[day] + draws.between(slack_h) * HOUR_S
            week.set(week.charging, plug_s, unplug_s, value=True)
        had_night = charged[day - 1]
        per_day = TOP_UPS_PER_DAY if had_night else TOP_UPS_PER_DAY_AFTER_NIGHT_WITHOUT
        for _ in range(int(draws.stream.poisson(per_day))):
            at_s = draws.between((wake_s[day] + HOUR_S, bed_s[day] - 2 * HOUR_S))
            week.set(week.charging, at_s, at_s + draws.between(TOP_UP_H) * HOUR_S, value=True)
        if draws.chance(SWITCHED_OFF_CHANCE):
            at_s = draws.between((wake_s[day], bed_s[day]))
            week.set(week.online, at_s, at_s + draws.between(SWITCHED_OFF_H) * HOUR_S, value=False)
        if is_off_at_night and draws.chance(NIGHT_OFF_CHANCE):
            week.set(week.online, bed_s[day], next_wake_s[day], value=False)


def _sessions(week: Week, draws: Draws, wake_s: FloatArray, bed_s: FloatArray) -> None:
    """Draw the sessions of each day: load on the processor."""
    stream = draws.stream
    per_day = SESSIONS_PER_DAY_MEDIAN * np.exp(stream.normal(0.0, SESSIONS_PER_DAY_SIGMA))
    for day in range(NUM_DAYS):
        count = int(stream.poisson(per_day))
        start_s = stream.uniform(wake_s[day], bed_s[day], size=count)
        what = stream.choice(len(SESSION_CHANCE), p=SESSION_CHANCE, size=count)
        length_s = np.array(SESSION_MEDIAN_S)[what] * np.exp(
            stream.normal(0.0, SESSION_SIGMA, size=count)
        )
        for at_s, lasts_s, kind in zip(start_s, length_s, what, strict=True):
            end_s = at_s + min(lasts_s, SESSION_MOST_S)
            week.use(float(at_s), float(end_s), SESSION_LOAD_PERCENT[kind])


def generate(num_users: int = NUM_USERS, seed: int = SEED) -> Trace:
    """Generate the trace; person i's week depends on (seed, i) alone.

    Args:
        num_users: number of people.
        seed: root seed of their streams.
    """
    weeks = [draw_week(Draws(seed, person)).changes() for person in range(num_users)]
    times_s, online, charging, unmetered, load = (
        np.concatenate(column) for column in zip(*weeks, strict=True)
    )
    return Trace(
        name="people-week",
        user_ids=tuple(str(person) for person in range(num_users)),
        span_s=np.full(num_users, WEEK_S),
        offsets=np.cumsum([0, *(len(changes[0]) for changes in weeks)]),
        times_s=times_s,
        online=online,
        charging=charging,
        unmetered=unmetered,
        load=load,
        ram_byte=np.zeros(times_s.size, dtype=np.int64),
    )


def hourly_shares(trace: Trace) -> dict[str, FloatArray]:
    """Return the share of people in each state by hour of the day, [24] each."""
    people = np.arange(trace.num_users)
    usage = build_usage(
        trace, seed=0, has_people=np.ones(trace.num_users, dtype=np.bool_), shift="none"
    )
    schedules = {
        "online": usage.eligible_schedule(charging_required=False, unmetered_required=False),
        "charging": usage.charging_schedule(),
        "unmetered": usage.eligible_schedule(charging_required=False, unmetered_required=True),
        "eligible": usage.eligible_schedule(charging_required=True, unmetered_required=True),
    }
    begin_s = np.arange(WEEK_S // HOUR_S) * HOUR_S
    shares = {}
    for name, schedule in schedules.items():
        true_s = [schedule.seconds_true(people, at_s, at_s + HOUR_S).mean() for at_s in begin_s]
        shares[name] = np.reshape(true_s, (NUM_DAYS, 24)).mean(axis=0) / HOUR_S
    return shares


def figures(trace: Trace) -> str:
    """Return the generated part of README.md: parameters and statistics."""
    names = list(globals())
    first, last = names.index("WAKE_MEAN_H"), names.index("SESSION_LOAD_PERCENT")
    parameters = "\n".join(f"| {name} | {globals()[name]} |" for name in names[first : last + 1])
    shares = hourly_shares(trace)
    hours = "\n".join(
        f"| {hour:02d} | " + " | ".join(f"{share[hour]:.3f}" for share in shares.values()) + " |"
        for hour in range(24)
    )
    means = " | ".join(f"{share.mean():.3f}" for share in shares.values())
    last_of_user = trace.offsets[1:] - 1
    held_s = np.append(np.diff(trace.times_s), 0)
    held_s[last_of_user] = WEEK_S - trace.times_s[last_of_user]
    in_use = trace.load > 0
    return f"""
## Parameters

SEED = {SEED}, NUM_USERS = {NUM_USERS}

| constant | value |
|---|---|
{parameters}

## Statistics

{trace.num_users} users, {trace.num_changes} changes: \
{trace.num_changes / trace.num_users / NUM_DAYS:.1f} a user a day. Phones are in use for \
{held_s[in_use].sum() / held_s.sum():.3f} of the time, at a mean
load of {np.average(trace.load[in_use], weights=held_s[in_use]):.3f} while they are.

Share of the people, mean of the week, by hour of the day (unmetered: online and unmetered;
eligible: online, charging and unmetered):

| hour | {" | ".join(shares)} |
|---|---|---|---|---|
{hours}
| all | {means} |
"""


def readme(trace: Trace, before: str) -> str:
    """Return README.md with new figures; the text before the mark is kept."""
    return before.partition(FIGURES_MARK)[0] + FIGURES_MARK + figures(trace)


def main() -> None:
    """Rewrite the folder of this script."""
    trace = generate()
    folder = Path(__file__).resolve().parent
    before = (folder / "README.md").read_text(encoding="utf-8")
    write_trace(trace, folder, readme=readme(trace, before))
    for path in sorted(folder.glob("*.gz")):
        print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
