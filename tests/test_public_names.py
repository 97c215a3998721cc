import pydoc
import subprocess
import sys

import pytest

import fleetsim


def test_the_public_names_are_sorted_and_all_there():
    assert fleetsim.__all__ == sorted(fleetsim.__all__, key=str)
    for name in fleetsim.__all__:
        assert getattr(fleetsim, name) is not None


def test_dir_and_help_show_the_public_names():
    shown = pydoc.plain(pydoc.render_doc(fleetsim))

    assert dir(fleetsim) == sorted(fleetsim.__all__)
    for words in ("run(", "open_run(folder: ", "class Run(", "class ScenarioError(FaultsError)"):
        assert words in shown


@pytest.mark.slow
def test_import_dir_and_help_do_not_wait_for_torch():
    program = """
import sys
import fleetsim
print(*sorted({name.split(".")[0] for name in sys.modules} & {"numpy", "pydantic", "torch"}))
dir(fleetsim)
print("pydantic" in sys.modules)
import pydoc
pydoc.render_doc(fleetsim)
print("torch" in sys.modules, "matplotlib" in sys.modules)
"""

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "\nFalse\nFalse False\n"
