"""Console whose output holds no control characters but its own.

An escape sequence in a name, a column or a message could rewrite what the terminal shows. So all
that fleetsim writes to a terminal goes through this console, or through `fleetsim.cli.terminal`.
"""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fleetsim.quoting import printable


class PlainConsole(Console):
    """Console that prints unprintable characters of any content as their codes."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render a text, a table or a bar; the console's own control codes are kept."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=printable(segment.text))
