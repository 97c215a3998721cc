"""A page as it is parsed: its elements, and the texts of scripts, styles and the rest."""

from html.parser import HTMLParser
from pathlib import Path


class ParsedPage(HTMLParser):
    """Elements of a page with their attributes, and its texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"script": [], "style": [], "text": []}
        self._inside = "text"
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in self.texts else "text"
        if self._inside != "text":
            self.texts[self._inside].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = "text"

    def handle_data(self, data: str) -> None:
        if self._inside == "text":
            self.texts["text"].append(data)
        else:
            self.texts[self._inside][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of the elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    def attributes(self, name: str) -> list[str]:
        """Values of an attribute, of all elements."""
        return [value for _, attributes in self.elements if (value := attributes.get(name))]

    @property
    def words(self) -> str:
        """Text that a reader sees, with single spaces."""
        return " ".join(" ".join(self.texts["text"]).split())
