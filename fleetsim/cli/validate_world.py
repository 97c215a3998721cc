"""The verb `validate-world`: compare the models with measurements and theory."""

from pathlib import Path
from typing import Annotated

import typer

from fleetsim.cli.terminal import console, output
from fleetsim.host import paths


def validate_world(
    out: Annotated[Path, typer.Option(help="Folder for the page and its figures.")] = Path(
        "validation"
    ),
) -> None:
    """Compare the models with measurements and theory; half a minute.

    Writes validation.md and figures: device times, memory, heat, fading, queues and traces, with
    errors and sources. Published traces are checked if they are below $FLEETSIM_DATA.
    """
    from fleetsim.progress import steps
    from fleetsim.validation.page import SECTION_MAKERS, write

    with steps(list(SECTION_MAKERS), console) as begin:
        sections = []
        for name, make in SECTION_MAKERS.items():
            begin(name)
            sections.append(make())
    output(write(sections, paths.local(out)))
