"""Wrong answers of parts of the user's own during a run: one line with their name and file."""

import pytest

from fleetsim.contracts import Wire
from fleetsim.errors import PluginError
from fleetsim.interactive import run
from fleetsim.learning.local.algorithms.published import Scaffold


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "answer", "text"),
    [
        ("wire", lambda *_: 650, "must return a Wire of whole numbers, got 650"),
        ("wire", lambda *_: Wire(download_byte=0.5),  # type: ignore[arg-type]
         "must return a Wire of whole numbers, got Wire(download_byte=0.5"),
        ("server_step", lambda self, server, step: ("model", server),
         "must return a model of floats of shape (650,), got 'model'"),
        ("server_step", lambda self, server, step: (step.after, server["no such array"]),
         "fails: KeyError: 'no such array'"),
    ],
)  # fmt: skip
def test_a_wrong_answer_of_a_training_is_one_line_of_the_user(
    method, answer, text, scenario, tmp_path
):
    training = type("Mine", (Scaffold,), {method: answer})
    with pytest.raises(PluginError) as caught:
        run(scenario, out=tmp_path / "run", local=training, workers=1)

    line = str(caught.value)
    assert line.startswith(f"local {__name__}:Mine: {method} {text}")
    assert __file__ in line
    assert "\n" not in line
