"""Features of a numerical platform, and platforms on equal platforms."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import fleetsim
from fleetsim import simulate
from fleetsim.errors import ScenarioError
from fleetsim.host import numerics
from fleetsim.kernels.cpu import gemm, numerical_platform, processor
from fleetsim.kernels.cpu.numerical_platform import forms_of, require_portable, resolve
from fleetsim.record.manifest import PlatformRecord
from fleetsim.record.saved_run import open_run
from fleetsim.training.preparation import prepare_task
from fleetsim.training.prepared_task import TaskRequest

ZEN_3 = "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\nflags : fma avx2\n"
ZEN_5 = "vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\nflags : fma avx2 avx512_vnni\n"
HASWELL = "vendor_id : GenuineIntel\ncpu family : 6\nmodel : 63\nflags : fma avx2\n"

SCENARIO = ["stop.rounds=1", "fleet.size=12", "server.cohort=4"]
PROGRAM = """
import sys
import fleetsim
run = fleetsim.run(fleetsim.load("quickstart", sys.argv[2:]), out=sys.argv[1], workers=2)
"""


def in_environment(folder: Path, sets: list[str], **variables: str) -> fleetsim.Run:
    """A run in a process of its own, in which libraries read these variables afresh."""
    kept = {name: value for name, value in os.environ.items() if name not in numerics.DECIDING}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), *sets],
        env={**kept, **variables},
        check=True,
        capture_output=True,
    )
    return open_run(folder)


def is_v3() -> bool:
    return processor.has_flag(processor.cpuinfo(), "avx2") and processor.has_flag(
        processor.cpuinfo(), "fma"
    )


needs_v3 = pytest.mark.skipif(not is_v3(), reason="the processor lacks AVX2 or FMA")


def test_other_processors_and_forms_are_other_platforms(monkeypatch: pytest.MonkeyPatch):
    """The task is the same, and so are the versions; the forms of two products are not."""
    monkeypatch.delenv(numerics.VARIABLE, raising=False)
    scenario = fleetsim.load("quickstart", SCENARIO)
    request = TaskRequest(scenario.task, scenario.trainer, 1, 1, scenario.fleet.size)
    platforms: list[PlatformRecord] = []
    for text in (ZEN_3, HASWELL):
        chosen = forms_of(text)
        monkeypatch.setattr(processor, "cpuinfo", lambda text=text: text)
        for module in (numerical_platform, gemm):
            monkeypatch.setattr(module, "forms", lambda chosen=chosen: chosen)
        task = prepare_task(request, train=True, torch_device="cpu", workers=1)
        assert task.trainer_kind == "stacked"
        platforms.append(PlatformRecord.of(task.platform, task.forms))
    one, other = platforms

    assert one.id != other.id
    assert one.features["processor"] == "AuthenticAMD family 25 model 1"
    assert one.features["onednn"] == "convolutions, long sums"
    assert other.features["onednn"] == "convolutions"
    assert one.forms == other.forms == {"products": "MKL"}


def test_a_platform_names_libraries_their_settings_and_what_they_dispatch_on(monkeypatch):
    monkeypatch.delenv(numerics.VARIABLE, raising=False)
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    features = resolve(torch_device="cpu")

    assert (features["MKL_CBWR"], features["torch"]) == ("AVX2", torch.__version__)
    assert features["torch_simd"] == torch.backends.cpu.get_cpu_capability()
    assert {"numpy", "numpy_simd", "system", "python", "numba", "onednn"} <= set(features)


@needs_v3
@pytest.mark.slow
def test_portable_runs_give_the_same_bytes_whatever_the_libraries_would_choose(tmp_path: Path):
    """The variables name less than this processor has, as an older one would have less.

    They change the digest in the fastest mode, so the test would find out a mode without effect.
    """
    less = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    fastest = [
        in_environment(tmp_path / "fastest", SCENARIO),
        in_environment(tmp_path / "less", SCENARIO, **less),
    ]
    portable = [
        in_environment(
            tmp_path / f"portable-{len(more)}", SCENARIO, FLEETSIM_NUMERICS="portable", **more
        )
        for more in ({}, less)
    ]
    digests, ids = (
        [[value(run.manifest) for run in runs] for runs in (fastest, portable)]
        for value in (lambda m: m.digest, lambda m: m.platforms[0].id)
    )

    assert digests[0][0] != digests[0][1]
    assert digests[1][0] == digests[1][1]
    assert ids[0][0] != ids[0][1]
    assert ids[1][0] == ids[1][1]
    features = portable[0].manifest.platforms[0].features
    assert (features["numerics"], features["torch_simd"]) == ("portable", "AVX2")
    assert not {"processor", "caches", "instructions"} & set(features)


COMMAND = """
import sys
from multiprocessing import get_context
from types import SimpleNamespace

def ask(queue):
    import torch
    from fleetsim.learning.torch_settings import configure_torch
    configure_torch()
    queue.put((torch.backends.cpu.get_cpu_capability(), torch.backends.mkldnn.enabled))

if __name__ == "__main__":
    from fleetsim import cli
    # A report takes longer than all the rest.
    page = SimpleNamespace(write_report=lambda run: None)
    summary = SimpleNamespace(terminal_lines=lambda run: [])
    sys.modules["fleetsim.report.pages"] = SimpleNamespace(
        run_page=page, summary=summary
    )
    try:
        cli.main()
    finally:
        queue = get_context("spawn").Queue()
        get_context("spawn").Process(target=ask, args=(queue,)).start()
        print(*queue.get())
"""


@pytest.mark.slow
@needs_v3
def test_the_command_line_chooses_the_mode_before_libraries_are_loaded(tmp_path: Path):
    """A spawned process, as on systems without fork, knows only what the environment says."""
    (tmp_path / "command.py").write_text(COMMAND)
    kept = {name: value for name, value in os.environ.items() if name not in numerics.DECIDING}
    words = ["run", "synthetic-fedprox", "--no-train", "--set", "stop.rounds=1", "--out", "run"]
    done = subprocess.run(
        [sys.executable, "command.py", *words, "--numerics", "portable"],
        env={**kept, "PYTHONPATH": str(Path(fleetsim.__file__).parents[1])},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    features = open_run(tmp_path / "run").manifest.platforms[0].features

    assert features["numerics"] == "portable"
    assert (features["torch_simd"], features["onednn"]) == ("AVX2", "off")
    assert done.stdout.splitlines()[-1] == "AVX2 False"


def test_a_mode_that_came_too_late_is_refused(monkeypatch: pytest.MonkeyPatch):
    """NumPy and torch were loaded by other tests."""
    monkeypatch.setenv(numerics.VARIABLE, "portable")
    monkeypatch.delenv("MKL_CBWR", raising=False)
    numerics.settle()

    with pytest.raises(ScenarioError, match=r"import fleetsim first, or start Python with: .*MKL"):
        require_portable(torch_device="cpu")


def test_the_portable_mode_is_for_the_processor(monkeypatch: pytest.MonkeyPatch):
    for name, value in {**numerics.portable_variables(), numerics.VARIABLE: "portable"}.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ScenarioError, match=r"^--torch-device: cuda has kernels of its own"):
        require_portable(torch_device="cuda")


def test_a_mode_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(numerics.VARIABLE, "exact")

    with pytest.raises(ScenarioError, match="FLEETSIM_NUMERICS='exact': is neither fastest nor"):
        numerics.chosen()


def test_a_run_holds_blas_to_one_thread_and_names_its_platform(tmp_path: Path):
    """On several, dot products of more than 10,000 numbers would differ between machines."""
    seen: list[int] = []

    def look(_progress: object) -> None:
        seen.extend(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

    scenario = fleetsim.load("synthetic-fedprox", ["stop.rounds=1"])
    with threadpool_limits(limits=2, user_api="blas"):
        # A callback of `fleetsim.run` has the caller's settings.
        run = simulate.run(scenario, out=tmp_path / "run", train=False, on_progress=look)
    (platform,) = json.loads((run.folder / "manifest.json").read_text())["platforms"]

    assert set(seen) == {1}
    assert platform["features"] == resolve(torch_device="cpu")
    assert len(platform["id"]) == 12


def test_caches_are_read_as_linux_lays_them_out(tmp_path: Path):
    for index, (kind, level, size) in enumerate(
        (("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "1024K"))
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{value}\n")

    assert processor.caches(tmp_path) == "L1 48K, L2 1024K"
    assert processor.caches(tmp_path / "nowhere") == ""


def test_the_family_is_amds_and_instructions_have_to_be_on_every_processor() -> None:
    assert [processor.amd_family(text) for text in (ZEN_3, ZEN_5, HASWELL, "")] == [25, 26, 0, 0]
    assert processor.has_flag(f"{ZEN_5}\n{ZEN_5}", "avx512_vnni")
    for text, flag in ((f"{ZEN_5}\n{ZEN_3}", "avx512_vnni"), (ZEN_5, "avx512"), ("", "fma")):
        assert not processor.has_flag(text, flag)
