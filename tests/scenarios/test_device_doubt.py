"""Runs whose device figures have errors: what is on record, and what follows from it."""

import json
from pathlib import Path

import pytest

from fleetsim.fleet.devices.figures import figures
from fleetsim.fleet.devices.hardware_files import HardwareFiles
from fleetsim.fleet.devices.uncertainty import FigureErrors
from fleetsim.record.saved_run import Run
from fleetsim.report.pages.run_page import write_report
from fleetsim.scenario import load
from fleetsim.simulate import run

DOUBT = "fleet.uncertainty={inferred: 0.3, measured: 0.05}"
PLAIN_RADIO = Path(__file__).parents[1] / "plain-radio.yaml"
LONE = f"""\
name: lone
task:
  dataset: {{kind: blank, input_shape: [64], num_classes: 10, median_samples: 100, sigma: 0}}
  model: {{kind: logistic}}
  local: {{epochs: 2, batch_size: 30, optimizer: {{kind: sgd, learning_rate: 0.1}}}}
fleet:
  size: 1
  devices: {{jetson-nano-cpu: 1.0}}
  network: {{kind: wifi}}
  channel:
    kind: constant
    down_bit_per_s: 1.0e4
    up_bit_per_s: 2.0e4
    unmetered_radio: {PLAIN_RADIO}
  thermal: {{kind: none}}
  uncertainty: {{inferred: 0.3, measured: 0.05}}
server: {{cohort: 1}}
stop: {{rounds: 1}}
"""


def drawn_by(done: Run) -> dict[tuple[str, str], float]:
    return {(one.name, one.figure): one.used for one in done.manifest.device_figures}


def quick(out: Path, *changes: str) -> Run:
    small = ["stop.rounds=3", "fleet.size=12", "server.cohort=4", "task.partition.min_samples=2"]
    return run(load("quickstart", [*small, *changes]), out=out, train=False)


def test_time_and_joules_of_a_lone_device_follow_its_figures_as_drawn(tmp_path):
    """Logistic regression of 64 inputs and 10 classes: one layer, 650 parameters, 1,280 FLOP.

    Two epochs of 100 samples in batches of 30 are 8 batches and 200 samples of 3 passes.
    """
    (tmp_path / "lone.yaml").write_text(LONE, encoding="utf-8")
    done = run(load(tmp_path / "lone.yaml"), out=tmp_path / "run", train=False)
    used = {key: value for (_, key), value in drawn_by(done).items()}
    (task,) = done.tasks.to_dict("records")
    batch_s = used["compute.parameter_s_per_mparam"] * 650 / 1e6
    batch_s += used["compute.dispatch_s"] + used["compute.layer_s"]
    flop_per_s = used["compute.phi.gemm"] * used["compute.conv_gflop_per_s"] * 1e9
    compute_s = 8 * batch_s + 3 * 200 * 1280 / flop_per_s

    assert task["outcome"] == "delivered"
    assert task["compute_s"] == pytest.approx(compute_s, rel=1e-12)
    # The upload begins in the tail of the download, which is paid already.
    paid_s = used["tail_s"] - compute_s
    assert 0.0 < paid_s < task["upload_s"]
    whole_s = task["download_s"] + task["compute_s"] + task["upload_s"]
    expected_j = {
        "compute": used["power.train_above_idle_w"] * compute_s,
        "receive": used["wifi.receive_w"] * task["download_s"],
        "transmit": used["wifi.transmit_w"] * task["upload_s"] - used["tail_w"] * paid_s,
        "tail": 2 * used["tail_w"] * used["tail_s"],
        "idle": used["power.idle_awake_w"] * whole_s,
    }
    used_j = {component: task[f"energy_{component}_j"] for component in expected_j}
    assert used_j == pytest.approx(expected_j, rel=1e-9)


def test_the_manifest_lists_exactly_the_figures_that_differ_from_the_files(tmp_path):
    done = quick(tmp_path / "run", DOUBT)
    scenario, drawn = load("quickstart"), drawn_by(done)
    names = [("devices", name) for name in scenario.fleet.devices]
    names += [("radios", name) for name in ("lte", "wifi", "wired")]

    def all_of(files):
        return {
            (name, key): figure
            for kind, name in names
            for key, figure in figures(files.file(kind, name))
            if hasattr(figure, "value")
        }

    sourced = all_of(HardwareFiles())
    written = json.loads((done.folder / "manifest.json").read_text())["device_figures"]

    assert drawn.keys() < sourced.keys()
    assert len(written) == len(drawn) == len({*drawn})
    for one in done.manifest.device_figures:
        figure = sourced[one.name, one.figure]
        assert (one.sourced, one.inferred) == (figure.value, figure.inferred)
        assert one.used != one.sourced
    errors = FigureErrors(scenario.seed, inferred=0.3, measured=0.05)
    used = {
        key: figure.value for key, figure in all_of(HardwareFiles().with_errors(errors)).items()
    }
    assert used == {key: figure.value for key, figure in sourced.items()} | drawn


@pytest.mark.slow
def test_without_doubt_a_run_is_as_before_and_neither_record_nor_page_names_a_figure(
    tmp_path, without_figures
):
    plain, drawn = quick(tmp_path / "plain"), quick(tmp_path / "drawn", DOUBT)
    zero = quick(tmp_path / "zero", "fleet.uncertainty={inferred: 0, measured: 0}")
    page, other = (write_report(done).read_text(encoding="utf-8") for done in (drawn, plain))
    one = drawn.manifest.device_figures[0]

    assert zero.manifest.digest == plain.manifest.digest != drawn.manifest.digest
    assert zero.manifest.world_hash == plain.manifest.world_hash != drawn.manifest.world_hash
    assert plain.manifest.device_figures == zero.manifest.device_figures == ()
    assert "Device figures as drawn" in page
    assert "Device figures as drawn" not in other
    assert f'<th scope="row">{one.name} {one.figure}</th>' in page
    cells = ("inferred", f"{one.sourced:.4g}", f"{one.factor:.3f}", f"{one.used:.4g}")
    assert "".join(f"<td>{cell}</td>" for cell in cells) in page
