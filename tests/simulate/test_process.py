"""Runs in threads and forked processes of one process, and the process that they leave behind.

Each program runs in a process of its own, with a limit of time: the fault to find is a hang.
"""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

BEGIN = """
import os, random, sys, tempfile
import concurrent.futures as futures
import multiprocessing as mp
home = tempfile.mkdtemp()
import fleetsim

def job(seed, **keys):
    out = tempfile.mkdtemp(dir=home) + "/run"
    keys = {"workers": 1, **keys}
    changes = {"stop.rounds": 2, "fleet.size": 20, "trainer.kind": "serial"}
    return fleetsim.run(
        "quickstart", changes, seed=seed, out=out, progress=False, **keys
    ).manifest.digest
"""


def output(tmp_path, program: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(BEGIN + program)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(file)],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_process_forked_after_runs_or_in_a_callback_gives_the_same_bytes(tmp_path) -> None:
    printed = output(
        tmp_path,
        """
import torch
torch.set_num_threads(2)
torch.ones(1000, 1000).exp()  # starts threads, which no fork keeps
job(2, train=False)
expected = job(1)
fork = mp.get_context("fork")
with futures.ProcessPoolExecutor(1, fork) as pool:
    digests = [pool.submit(job, 1, workers=workers).result() for workers in (1, 2)]
with fork.Pool(1) as pool:
    digests.append(pool.apply(job, (1,), {"workers": None}))
    try:
        pool.apply(job, (1,), {"workers": 2})
    except fleetsim.ScenarioError as fault:
        print("this process is a daemon" in str(fault))

def forks(progress):
    if progress.round == 1 and (child := os.fork()) == 0:
        os._exit(0 if job(1) == expected else 1)
    elif progress.round == 1:
        digests.append(os.waitpid(child, 0)[1] or expected)

job(3, on_progress=forks)
print(digests == [expected] * 4)
""",
    )

    assert printed.split() == ["True", "True"]


def test_threads_and_runs_in_callbacks_give_the_same_bytes(tmp_path) -> None:
    printed = output(
        tmp_path,
        """
expected = job(1)
with futures.ThreadPoolExecutor(2) as pool:
    digests = list(pool.map(job, [1, 1]))
    inner = lambda progress: digests.append(pool.submit(job, 1).result())
    digests.append(job(1, on_progress=inner))
    digests.append(job(1, on_progress=lambda progress: digests.append(job(1))))
print(digests == [expected] * 8)
""",
    )

    assert printed == "True"


def test_a_run_neither_depends_on_the_callers_settings_nor_changes_them(tmp_path) -> None:
    printed = output(
        tmp_path,
        """
def state():
    return (random.getstate(), np.random.get_state()[1].tolist(), np.geterr(),
        torch.get_rng_state().tolist(), torch.get_num_threads(), torch.get_default_dtype(),
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"), torch.get_default_device(),
        torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
        torch.backends.mkldnn.enabled, torch.backends.nnpack.set_flags(True),
        sys.float_info.min / 2, os.getcwd(), dict(os.environ))

before = random.getstate(), dict(os.environ)
expected = job(1)  # imports rich, torch and numba
print(before == (random.getstate(), dict(os.environ)))
import numpy as np
import torch
drawn = []
on_progress = lambda progress: drawn.append(random.random())
torch.set_num_threads(3)
torch.set_default_dtype(torch.float64)
torch.use_deterministic_algorithms(True, warn_only=True)
torch.set_float32_matmul_precision("medium")
torch.set_flush_denormal(True)
torch.backends.mkldnn.enabled = False
np.seterr(all="raise")
with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16), torch.device("meta"):
    before = state()
    print(job(1) == expected, state() == before)
    random.seed(3)
    job(1, on_progress=on_progress)
drawn.append(random.random())
random.seed(3)
print(drawn == [random.random() for _ in range(3)])
""",
    )

    assert printed.split() == ["True"] * 4
