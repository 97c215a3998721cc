"""Clients in several time zones: nights are at local night."""

import numpy as np

from fleetsim.fleet.usage.usage import TimeZoneSettings, assign_time_zones
from tests.fleet.made_batteries import phones_with_records

HOUR_S = 3_600
ZONES = (
    TimeZoneSettings(utc_offset_h=0.0, weight=1.0),
    TimeZoneSettings(utc_offset_h=-5.5, weight=3.0),
)


def test_clients_are_dealt_to_zones_by_weight_whatever_their_number():
    dealt_s = assign_time_zones(ZONES, seed=1, size=8000)

    assert set(dealt_s.tolist()) == {0, -5.5 * HOUR_S}
    # Binomial(8000, 3/4): standard deviation 39.
    assert abs((dealt_s < 0).sum() - 6000) < 4 * 39
    assert assign_time_zones(ZONES, seed=1, size=10).tolist() == dealt_s[:10].tolist()
    assert assign_time_zones((), seed=1, size=3).tolist() == [0, 0, 0]


def test_a_client_ahead_lives_through_its_record_so_much_earlier(tmp_path):
    records = [f"0,1,0 {9_000 * user},0,0.5 70000,1,0.2" for user in range(1, 8)]
    zones = [{"utc_offset_h": 8.0, "weight": 1.0}, {"utc_offset_h": 0.0, "weight": 1.0}]
    same, apart = (
        phones_with_records(tmp_path, records, 86_400, {}, time_zones=time_zones).usage
        for time_zones in ([], zones)
    )
    offset_s = apart.shift_s - same.shift_s
    clients = np.arange(7)

    assert sorted(set(offset_s.tolist())) == [0, 8 * HOUR_S]
    for t_s in (0.0, 40_000.5, 3e6):
        now, then = apart.state_at(clients, t_s), same.state_at(clients, t_s + offset_s)
        assert now.charging.tolist() == then.charging.tolist()
