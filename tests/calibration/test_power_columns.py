"""Columns of power logs: units by whole words, impossible values refused, what was used noted."""

import pytest

from fleetsim.calibration.power_log import PowerColumns, PowerLog, read_power_csv
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.traces.table_rows import SEEN, Layout
from tests.calibration.test_device_calibration import calibrated, monsoon, request

BY_NAME = PowerColumns()


def read(folder, text, columns=BY_NAME, layout=SEEN) -> PowerLog:
    (folder / "log.csv").write_text(text, encoding="utf-8")
    return read_power_csv(folder / "log.csv", columns, layout)


@pytest.mark.parametrize(("header", "rows", "notes"), [
    ("time_s,power_kW", ["0,0.002", "1,0.003"], ["'time_s' in s", "'power_kW' in kW"]),
    ("Time (s),Main Avg Power (mW)", ["0,2000", "1,3000"], ["'Main Avg Power (mW)' in mW"]),
    ("timestamp_ns,P_W", ["7000000000,2", "8000000000,3"], ["'timestamp_ns' in ns"]),
    ("elapsedRealtimeNanos,power in W,x", ["0,2,1", "1e9,3,1"], ["'power in W' in W"]),
    ("t[ms],current_uA,voltage_mV", ["0,500000,4000", "1000,600000,5000"], ["in uA"]),
    ("Time \u00b5s,Current (\u00b5A),U [V]", ["0,5e5,4", "1e6,6e5,5"], ["'U [V]' in V"]),
    ("time_s,shunt_mV,i_mA,power_mW", ["0,9,4,2000", "1,9,4,3000"], ["'power_mW' in"]),
    ("Time (s);Channel A;Power (W)", ["0;7;2,0", "1;7;3,0"], ["decimal commas in 'Power (W)'"]),
    ("timestamp,power_W", ["2026-03-02 08:00:00,2", "2026-03-02 08:00:01,3"], ["in dates"]),
    ("Time(ms),P (W)", ["1000,3", "0,1", "0,3", "1000,"], ["sorted", "joined", "1 rows left"]),
    # A discharge; the mean of the two rows of one moment is 3 W.
    ("t_s,i_mA,u_V", ["0,-500,4", "1,0,4", "1,-1200,5"],
     ["'i_mA' is below 0 throughout, as of a discharge; its sign is turned"]),
])  # fmt: skip
def test_columns_are_chosen_by_whole_words_and_noted(tmp_path, header, rows, notes):
    log = read(tmp_path, "\n".join([header, *rows, ""]))

    assert log.at_s.tolist() == pytest.approx([0.0, 1.0])
    assert log.power_w.tolist() == pytest.approx([2.0, 3.0])
    assert all(any(part in note for note in log.notes) for part in notes)


@pytest.mark.parametrize(("header", "message"), [
    ("time_s,VDD_IN (mW),VDD_SOC (mW)", "2 columns could be the power: .*--power-column 'VDD"),
    ("time_s,bus_V (V),shunt (mV),i_mA", "2 columns could be the voltage: .*--voltage 'bus_V"),
    ("timestamp_ms,elapsed_s,power_W", "2 columns could be the time: .*--time 'timestamp_ms'"),
    ("time_s,power", "'power' states no unit .* pass --power-column 'power.UNIT.' with one of"),
    ("time,power_W", "'time' states no unit .* pass --time 'time.UNIT.' with one of ns, us"),
    ("latency_ms,power_W", "no column of time with a unit of .*; the columns are 'latency_ms'"),
    ("time_s,phase_A,rail_V", "no column of power, or of current, with a unit"),
    ("time_s,current_mA", "no column of voltage with a unit of"),
])  # fmt: skip
def test_columns_that_could_be_several_or_state_no_unit_are_refused(tmp_path, header, message):
    row = ",".join(["1"] * (header.count(",") + 1))

    with pytest.raises(ScenarioError, match=f"device calibrate: .*log.csv, row 1: .*{message}"):
        read(tmp_path, f"{header}\n{row}\n")


def test_a_named_column_has_the_unit_in_its_name_or_in_brackets(tmp_path):
    text = "t_ms,VDD_IN (mW),VDD_SOC [mW]\n0,2000,900\n1000,3000,800\n"
    named = PowerColumns(time="t_ms", power="VDD_IN (mW)")
    other = PowerColumns(time="t_ms[s]", power="VDD_SOC [mW]")

    assert read(tmp_path, text, named).power_w.tolist() == pytest.approx([2.0, 3.0])
    assert read(tmp_path, text, named).at_s.tolist() == pytest.approx([0.0, 1.0])
    assert read(tmp_path, text, other).at_s.tolist() == pytest.approx([0.0, 1000.0])
    assert read(tmp_path, text, named).notes[1] == "time: 't_ms' in ms"
    constant = PowerColumns(voltage="4")
    assert read(tmp_path, "t_s,i_mA\n0,500\n1,1\n", constant).power_w[0] == pytest.approx(2.0)
    with pytest.raises(ScenarioError, match=r"--voltage -3\.85: must be above 0 V"):
        read(tmp_path, "t_s,i_mA\n0,1\n1,1\n", PowerColumns(voltage="-3.85"))


@pytest.mark.parametrize(("values", "message"), [
    (["500", "-20", "600"], "row 3: .*'i_mA' = '-20' is below 0, and 2 values .* are above"),
    (["-500", "-600", "20"], "row 4: .*'i_mA' = '20' is above 0, and 2 values .* are below"),
    (["500", "-2147483648", "600"], "row 3: .* stands for a value that was not measured"),
    (["500", "2147483647", "600"], "row 3: .* stands for a value that was not measured"),
    (["500", "65535", "600"], "row 3: .* stands for a value that was not measured"),
    (["-500", "-32768", "-600"], "row 3: .* stands for a value that was not measured"),
    (["-5", "-999", "-6"], "row 3: .* stands for a value that was not measured"),
    (["500", "nan", "NA"], "row 3: .*'nan' is no number; .* pass --missing nan .*1 more rows"),
    (["500", "", "[NULL]"], "row 4: .*'.NULL.' is no number; .* pass --missing '.NULL.'"),
])  # fmt: skip
def test_values_that_cannot_be_are_refused_with_their_line_in_the_log(tmp_path, values, message):
    rows = "".join(f"{second},{value},4\n" for second, value in enumerate(values))

    with pytest.raises(DataError, match=rf"log\.csv, {message}"):
        read(tmp_path, f"t_s,i_mA,u_V\n{rows}")


def test_a_value_beside_others_of_its_size_is_no_mark(tmp_path):
    text = "t_s,p_uW\n0,65535\n1,90000\n2,999\n3,1100\n4,-\n"
    log = read(tmp_path, text, layout=Layout(missing=frozenset("-")))

    assert log.power_w.tolist() == pytest.approx([0.065535, 0.09, 0.000999, 0.0011])
    assert "1 rows left out without a time or a power" in log.notes


def test_a_gap_in_a_window_is_refused_by_the_line_before_it(tmp_path):
    rows = "".join(f"{tenth / 2:g},1\n" for tenth in range(121) if not 20 < tenth < 34)
    log = read(tmp_path, f"t_s,p_W\n{rows}")

    # Samples every 0.5 s to 10 s in row 22, then at 17 s.
    with pytest.raises(DataError, match=r"row 22: the next sample comes 7 s later, a gap of 23%"):
        log.mean_w([(0.0, 30.0)])
    with pytest.raises(DataError, match="the window 11:16 s holds no sample"):
        log.mean_w([(11.0, 16.0)])
    assert log.mean_w([(17.0, 30.0), (30.0, 60.0)]).num_samples == (26, 60)
    assert log.mean_w([(0.0, 10.5)]).mean_w == pytest.approx(1.0)


def test_a_fit_far_from_the_extended_device_is_reported(tmp_path):
    lines = {}
    for unit in ("mW", "uW"):
        (tmp_path / unit).mkdir()
        power = request(monsoon(tmp_path / unit / "log.csv", unit))
        lines[unit] = calibrated(tmp_path / unit, power=power)
    near, far = ([line for line in lines[unit] if "above idle:" in line] for unit in ("mW", "uW"))

    # The Pixel 6 draws 4.4 W above idle: 5 W is near, 5 mW is 1/886 of it.
    assert not near
    assert far == [
        "power above idle: 1/886 of that of pixel-6, which is far; check units and windows"
    ]
