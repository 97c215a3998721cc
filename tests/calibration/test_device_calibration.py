"""Device files from timed runs and power logs, against runs of a device that is known."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetsim.calibration.device_calibration import PowerRequest, calibrate
from fleetsim.calibration.power_log import PowerColumns, PowerLog, read_power_csv
from fleetsim.calibration.power_rails import read_rails
from fleetsim.errors import DataError, ScenarioError
from fleetsim.fleet.devices.profile import load_device

# A device that is not bundled: phi as the Pixel 6.
R, T_D, K_L, K_P = 10e9, 0.004, 0.003, 0.02
PHI = {"conv": 1.0, "depthwise": 0.0137, "gemm": 1.0, "rnn": 0.5}
HEADER = "seconds,samples,batch_size,epochs,conv_flop,gemm_flop,layers,parameters,note\n"
Row = tuple[int, int, int, float, float, int, int]
"""Samples, batch size, epochs, FLOP of convolutions and of matrix products, layers, parameters."""

FOUR: list[Row] = [
    (600, 32, 2, 5e8, 1e6, 20, 11_000_000),
    (600, 8, 1, 5e8, 1e6, 20, 11_000_000),
    (1000, 64, 1, 2e6, 5e5, 4, 60_000),
    (900, 100, 3, 1e8, 2e8, 16, 140_000_000),
]


def seconds(row: Row, t_d: float = T_D, k_l: float = K_L, k_p: float = K_P) -> float:
    """Time of a run on the device, by the equation of docs/devices.md."""
    samples, batch, epochs, conv, gemm, layers, parameters = row
    work = samples * 3 * (conv / (PHI["conv"] * R) + gemm / (PHI["gemm"] * R))
    batches = math.ceil(samples / batch)
    return epochs * (batches * (t_d + k_l * layers + k_p * parameters / 1e6) + work)


def timed(*runs: tuple[Row, float]) -> str:
    return HEADER + "".join(f"{time},{','.join(map(str, row))},mine\n" for row, time in runs)


TIMES = list(map(seconds, FOUR))


def calibrated(
    folder, rows=FOUR, times=TIMES, power=None, *, name="my.yaml", like="pixel-6"
) -> tuple[str, ...]:
    runs = folder / "runs.csv"
    runs.write_text(timed(*zip(rows, times, strict=True)))
    return calibrate(folder / name, like=like, title="Mine", runs=runs, power=power)


def test_four_different_runs_give_every_figure_back(tmp_path):
    lines = calibrated(tmp_path)
    compute = load_device(str(tmp_path / "my.yaml")).compute

    assert compute.conv_flop_per_s == pytest.approx(R, rel=1e-6)
    assert compute.dispatch_s == pytest.approx(T_D, rel=1e-5)
    assert compute.layer_s == pytest.approx(K_L, rel=1e-5)
    assert compute.parameter_s * 1e6 == pytest.approx(K_P, rel=1e-5)
    assert "4 runs and 4 unknowns" in lines[-1]


def test_two_runs_of_one_model_give_the_rate_and_a_factor_on_the_overheads(tmp_path):
    # The Pixel 6 has t_d = 0, k_l = 0.00187 and k_p = 0.0105; this device has 3 times these.
    times = [seconds(row, 0.0, 3 * 0.00187, 3 * 0.0105) for row in FOUR[:2]]
    lines = calibrated(tmp_path, FOUR[:2], times)
    device = load_device(str(tmp_path / "my.yaml"))

    assert device.compute.conv_flop_per_s == pytest.approx(R, rel=1e-6)
    assert device.compute.layer_s == pytest.approx(3 * 0.00187, rel=1e-6)
    assert device.compute.parameter_s * 1e6 == pytest.approx(3 * 0.0105, rel=1e-6)
    assert "compute.layer_s" in device.inferred
    assert "compute.conv_gflop_per_s" not in device.inferred
    assert "overheads are those of the extended device times 3;" in lines[1]
    assert "2 runs and 2 unknowns" in lines[-1]


def test_residuals_of_more_runs_than_unknowns_are_reported_and_kept_in_the_file(tmp_path):
    rows, times = [*FOUR, FOUR[0]], [*TIMES, 1.1 * TIMES[0]]
    lines = calibrated(tmp_path, rows, times)
    text = (tmp_path / "my.yaml").read_text()

    # The two times of one run differ by 10 %: the fit lies between, 1 / (1 + 1 / 1.1^2) of ... .
    residuals = [line for line in lines if line.startswith("run ")]
    x = (1 / times[0] + 1 / times[-1]) / (1 / times[0] ** 2 + 1 / times[-1] ** 2)
    assert f"({x / times[0] - 1:+.1%})" in residuals[0]
    assert f"({x / times[-1] - 1:+.1%})" in residuals[-1]
    assert "test nothing" not in "".join(lines)
    assert f"{x / times[-1] - 1:+.1%}" in text
    assert f"largest error {max(abs(x / times[-1] - 1), x / times[0] - 1):.1%}" in text


def test_a_model_of_fleetsim_has_the_cost_of_its_layers(tmp_path):
    # Logistic regression on 28 x 28 pixels: 2 * 784 * 10 FLOP, one layer, 7850 parameters.
    rows: list[Row] = [(5000, b, 4, 0.0, 15680.0, 1, 7850) for b in (10, 100)]
    lines = [
        f"{seconds(row, 0.0, 2 * 0.00187, 2 * 0.0105)!r},5000,{row[1]},4,logistic,1x28x28,10"
        for row in rows
    ]
    header = "seconds,samples,batch_size,epochs,model,input,classes"
    (tmp_path / "runs.csv").write_text("\n".join([header, *lines, ""]))
    runs = tmp_path / "runs.csv"
    calibrate(tmp_path / "my.yaml", like="pixel-6", title=None, runs=runs, power=None)
    compute = load_device(str(tmp_path / "my.yaml")).compute

    assert compute.conv_flop_per_s == pytest.approx(R, rel=1e-4)
    assert compute.layer_s == pytest.approx(2 * 0.00187, rel=1e-6)


def monsoon(path: Path, unit: str = "mW") -> Path:
    """Ten seconds at 2,000 and ten at 7,000, as Monsoon's program exports them."""
    rows = [f"{t / 10},{(2000 if t < 100 else 7000) + 100 * (t % 2)}" for t in range(200)]
    path.write_text("\n".join([f"Time (s),Main Avg Power ({unit})", *rows, ""]))
    return path


def request(log: Path, **changes: object) -> PowerRequest:
    given = {"idle": [(0.0, 10.0)], "train": [(10.0, 20.0)], "columns": PowerColumns(), "rails": ()}
    return PowerRequest(log, **{**given, **changes})  # type: ignore[arg-type]


def test_watts_are_means_of_the_windows_and_training_is_above_idle(tmp_path):
    power = request(monsoon(tmp_path / "monsoon.csv"))
    lines = calibrated(tmp_path, power=power)
    device = load_device(str(tmp_path / "my.yaml"))

    assert device.power.idle_awake_w == pytest.approx(2.05)
    assert device.power.train_above_idle_w == pytest.approx(5.0)
    assert not set(device.inferred) & {"power.idle_awake_w", "power.train_above_idle_w"}
    assert "200 rows read" in lines
    assert "idle 2.05 W +- 0 (10 s, 100 samples)" in "".join(lines).replace("e-17", "")


def test_a_window_is_integrated_at_the_changes_of_power(tmp_path):
    log = PowerLog("log", np.array([0.0, 1.0, 4.0]), np.array([2.0, 5.0, 1.0]), 6.0)

    # From 0.5 to 4.5: 0.5 s at 2 W, 3 s at 5 W, 0.5 s at 1 W.
    assert log.mean_w([(0.5, 4.5)]).mean_w == pytest.approx(16.5 / 4)
    assert log.mean_w([(0.0, 1.0), (3.0, 5.0)]).mean_w == pytest.approx((2 + 5 + 1) / 3)
    with pytest.raises(DataError, match=r"window 5:7 s is not inside .* samples are of 0 to 6 s"):
        log.mean_w([(5.0, 7.0)])


def test_zeros_are_named_and_windows_count_from_the_first_row(tmp_path):
    """Ten samples of 0 W, then 2 W: a mean of 1 W over 0:20; without the zeros, 10:20 alone."""
    path = tmp_path / "log.csv"
    path.write_text("time_s,power_W\n" + "".join(f"{s},{2 * (s > 9)}\n" for s in range(40)))
    power = request(path, idle=[(0.0, 20.0)], train=[(20.0, 40.0)])
    lines = calibrated(tmp_path, power=power)

    assert "idle 1 W" in "".join(lines)
    zeros = [line for line in lines if "exactly 0 W" in line]
    assert len(zeros) == 1
    assert zeros[0].startswith("idle: 10 of 20 samples")

    path.write_text("time_s,power_W\n" + "".join(f"{s},{'2' * (s > 9)}\n" for s in range(40)))
    log = read_power_csv(path, PowerColumns())
    assert log.mean_w([(10.0, 20.0)]).mean_w == 2.0
    with pytest.raises(
        DataError, match=r"window 0:20 .* samples are of 10 to 40 s"
    ):
        log.mean_w([(0.0, 20.0)])


RAILS = {
    "cpu.big": [(0, 0.0), (1, 1.0), (3, 7.0)],
    "cpu.little": [(0, 5.0), (2, 6.0), (3, 6.5)],
    "wlan": [(0, 0.0), (3, 9.0)],
}
"""Seconds and joules. Watts of the first two: 1 + .5, 3 + .5."""


def rails_csv(path: Path) -> Path:
    rows = [
        f"{int(s * 1e9) + 7_000_000_000},power.{name},{joule * 1e6}"
        for name, counts in RAILS.items()
        for s, joule in counts
    ]
    path.write_text("\n".join(["ts,name,value", *rows[::-1], ""]))
    return path


def test_rails_are_added_up_between_their_counts(tmp_path):
    path = rails_csv(tmp_path / "rails.csv")
    some = read_rails(path, ["power.cpu.big", "power.cpu.little"])
    every = read_rails(path, [])

    assert some.at_s.tolist() == pytest.approx([0.0, 1.0, 2.0])
    assert some.power_w.tolist() == pytest.approx([1.5, 3.5, 3.5])
    assert some.end_s == pytest.approx(3.0)
    assert every.power_w.tolist() == pytest.approx([4.5, 6.5, 6.5])
    with pytest.raises(ScenarioError, match=r"--rail 'gpu' is not in .*rails are power.cpu.big"):
        read_rails(path, ["gpu"])
    path.write_text("ts,rail,value\n0,a,5\n1000000000,a,4\n")
    with pytest.raises(DataError, match="energy of rail 'a' falls; the device was restarted"):
        read_rails(path, [])


def recorded(path: Path, rails, counts) -> Path:
    """A Perfetto trace of rails (session, index, name) and of counts.

    A count is (session, index, joules, its own fields of time, those of its packet).
    """
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = protos.Trace()
    for session, index, name in rails:
        power_rails = trace.packet.add().power_rails
        power_rails.session_uuid = session
        power_rails.rail_descriptor.add(index=index, rail_name=name)
    for session, index, joule, time, packet_time in counts:
        power_rails = trace.packet.add(**packet_time).power_rails
        power_rails.session_uuid = session
        power_rails.energy_data.add(index=index, energy=int(joule * 1e6), **time)
    path.write_bytes(trace.SerializeToString())
    return path


def test_rails_of_a_recorded_trace_are_those_of_its_export(tmp_path):
    rails = [(0, index, f"power.{name}") for index, name in enumerate(RAILS)]
    counts: list[Any] = [
        (0, index, joule, {"timestamp_ms": s * 1000}, {})
        for index, pairs in enumerate(RAILS.values())
        for s, joule in pairs
    ]
    path = recorded(tmp_path / "my.perfetto-trace", rails, counts)

    log = read_rails(path, ["power.cpu.big", "power.cpu.little"])
    assert log.power_w.tolist() == pytest.approx([1.5, 3.5, 3.5])
    for content, message in ((b"\xff" * 40, "is no Perfetto trace"), (b"", "holds no power rails")):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"my\.perfetto-trace.*{message}"):
            read_rails(path, [])


def test_a_count_without_a_time_has_that_of_its_packet(tmp_path):
    def read(**clock: int) -> PowerLog:
        # 2 W, then 4 W; the times of the packets are later than those of their counts.
        counts = [
            (0, 3, 1, {"timestamp_ms": 10_000}, {"timestamp": 10_500_000_000}),
            (0, 3, 3, {}, {"timestamp": 11_000_000_000, **clock}),
            (0, 3, 7, {"timestamp_ms": 12_000}, {"timestamp": 12_500_000_000}),
        ]
        return read_rails(recorded(tmp_path / "my.pftrace", [(0, 3, "S2S_VDD_G3D")], counts), [])

    for log in (read(), read(timestamp_clock_id=6)):  # 6: BOOTTIME
        assert log.at_s.tolist() == pytest.approx([0.0, 1.0])
        assert log.power_w.tolist() == pytest.approx([2.0, 4.0])
    with pytest.raises(DataError, match="none of the clock BOOTTIME; export the counters as CSV"):
        read(timestamp_clock_id=128)


def test_sessions_of_rails_number_them_separately(tmp_path):
    # Two sessions, whose rail 0 is not the same; 1 W and 3 W.
    counts: list[Any] = [
        (session, 0, second * watt, {"timestamp_ms": second * 1000}, {})
        for second in (1, 2, 3)
        for session, watt in ((7, 1), (8, 3))
    ]
    path = recorded(tmp_path / "my.pftrace", [(7, 0, "cpu"), (8, 0, "gpu")], counts)

    assert read_rails(path, ["cpu"]).power_w.tolist() == pytest.approx([1.0] * 2)
    assert read_rails(path, ["gpu"]).power_w.tolist() == pytest.approx([3.0] * 2)


def test_a_long_step_between_counts_is_exact_inside_a_window_and_refused_at_its_end(tmp_path):
    counts = "".join(
        f"{s * 10**9},a,{joule * 10**6}\n" for s, joule in [(0, 0), (1, 2), (2, 4), (20, 40)]
    )
    (tmp_path / "r.csv").write_text(f"ts,rail,value\n{counts}30000000000,a,\n")
    log = read_rails(tmp_path / "r.csv", [])

    assert log.mean_w([(0.0, 20.0)]).mean_w == pytest.approx(2.0)
    assert "1 rows left out without a time or an energy" in log.notes
    with pytest.raises(DataError, match="the next sample comes 18 s later, a gap of 80% of"):
        log.mean_w([(0.0, 10.0)])


NEEDED = "seconds,samples,batch_size"


@pytest.mark.parametrize(("text", "message"), [
    (timed((FOUR[0], 1.0)), "row 2: calibration takes two timed runs or more"),
    (timed((FOUR[0], 1.0), (FOUR[0], 1.1)), "row 2: the runs are too alike"),
    (timed((FOUR[0], 1e-3), (FOUR[1], 1e3)), "row 2: the times leave nothing for arithmetic"),
    (timed((FOUR[0], 1.0), (FOUR[1], -1.0)), "row 3: seconds = '-1.0' must be a number above"),
    ("a,b\n1,2\n", "row 1: no column 'seconds'"),
    (f"{NEEDED}\n1,2,3\n4,5,6\n", "row 2: has neither a model nor FLOP"),
    (f"{NEEDED},model\n1,2,3,2nn\n", "row 2: input = '' is no shape"),
    (f"{NEEDED},model,input\n1,2,3,lognet,3x3\n", "row 2, model:1: model.kind.*'lognet'"),
    (f"{NEEDED}\n1,2.5,3\n", "row 2: samples = 2.5 must be a whole number"),
])  # fmt: skip
def test_a_fault_of_the_runs_names_file_row_and_column(tmp_path, text, message):
    runs = tmp_path / "runs.csv"
    runs.write_text(text)

    with pytest.raises(DataError, match=rf"runs\.csv, {message}"):
        calibrate(tmp_path / "my.yaml", like="pixel-6", title=None, runs=runs, power=None)
    assert not (tmp_path / "my.yaml").exists()


@pytest.mark.parametrize(("file", "power", "message"), [
    ({"like": "pixel-99"}, {}, "--like 'pixel-99'"),
    ({"like": "jetson-nano-cpu-5w"}, {}, "extends 'jetson-nano-cpu' itself"),
    ({"like": "reproduction/jetson-nano-fedgcs"}, {}, "extends 'jetson-nano-cpu'|reproduces a"),
    ({"name": "my.txt"}, {}, "a device file ends in .yaml; rename it"),
    ({}, {"train": []}, "--power needs --idle FROM:TO and --train FROM:TO"),
    ({}, {"idle": [(10, 20)], "train": [(0, 10)]}, r"draws 2\.05 W, not more than idle at 7.05 W"),
    ({}, {"rails": ("cpu",)}, "--rail names power rails, and .* has none"),
    ({}, {"log": "odd.csv"}, "no column of time with a unit of ns, us"),
    ({}, {"log": "far.csv"}, r"idle_awake_w\.value = 2050"),
])  # fmt: skip
def test_files_windows_and_logs_that_do_not_fit_are_refused(tmp_path, file, power, message):
    monsoon(tmp_path / "log.csv")
    monsoon(tmp_path / "far.csv", "kW")
    (tmp_path / "odd.csv").write_text("when,what\n1,2\n")
    changes = {name: power[name] for name in power if name != "log"}

    with pytest.raises((DataError, ScenarioError), match=message):
        calibrated(
            tmp_path, power=request(tmp_path / power.get("log", "log.csv"), **changes), **file
        )
    assert not any(tmp_path.glob("my.*"))
