"""Interruption of a run, as by Ctrl-C."""

from collections.abc import Callable
from typing import Any

import pytest


def interrupted(run: Callable[..., Any], *given: Any, after: int = 1, **options: Any) -> None:
    """Make a run that is interrupted after a round."""

    def stop(progress: Any) -> None:
        if progress.round == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(*given, on_progress=stop, **options)
