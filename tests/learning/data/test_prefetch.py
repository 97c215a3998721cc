import threading
from pathlib import Path

import numpy as np
import pytest

from fleetsim.errors import DataError
from fleetsim.learning.data import prefetch
from fleetsim.learning.data.dataset import Dataset
from fleetsim.learning.data.digits import DigitsSettings
from fleetsim.learning.data.loading import DatasetSettings, load_dataset
from fleetsim.learning.data.prefetch import Prefetch
from fleetsim.learning.data.published.mnist import MnistSettings
from fleetsim.learning.data.synthetic import SyntheticSettings

SYNTHETIC = SyntheticSettings(alpha=1.0, beta=1.0)


def same(one: Dataset, other: Dataset) -> bool:
    return np.array_equal(one.train_inputs, other.train_inputs) and np.array_equal(
        one.test_labels, other.test_labels
    )


@pytest.mark.parametrize("settings", [SYNTHETIC, DigitsSettings()])
def test_it_is_the_set_that_the_arguments_name(settings: DatasetSettings) -> None:
    result = Prefetch(settings, seed=3, num_clients=4).take()

    assert same(result, load_dataset(settings, seed=3, num_clients=4))


def test_it_is_read_before_anybody_asks_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    is_read = threading.Event()

    def spy(*args: object, **kwargs: object) -> Dataset:
        threads.append(threading.current_thread().name)
        result = load_dataset(*args, **kwargs)  # type: ignore[arg-type]
        is_read.set()
        return result

    monkeypatch.setattr(prefetch, "load_dataset", spy)
    reading = Prefetch(SYNTHETIC, seed=3, num_clients=4)
    assert is_read.wait(60)

    # It is not kept: who asks again waits for another.
    assert reading.take() is not reading.take()
    assert threads == ["fleetsim data", threading.current_thread().name]
    # A library is not imported beside whatever is imported now.
    Prefetch(DigitsSettings(), seed=3, num_clients=4)
    assert len(threads) == 2


def test_its_faults_are_raised_where_it_is_taken(tmp_path: Path) -> None:
    reading = Prefetch(MnistSettings(folder=str(tmp_path)), seed=1, num_clients=2)

    with pytest.raises(DataError, match="train-images"):
        reading.take()
