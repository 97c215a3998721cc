"""Checks of a built site: local links and anchors that exist, and nothing from other hosts."""

import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
"""Attributes of elements that a browser loads by itself."""
ELSEWHERE = re.compile(r"^(?:[a-z]+:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:@import|url\()\s*['\"]?((?:https?:)?//[^'\")\s]+)")


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.add(found["href"])
        if tag in LOADED and found.get("rel") != "canonical":
            self.loaded.add(found.get(LOADED[tag], ""))


def faults(home: Path) -> list[str]:
    """Return one line for each broken link and each request to another host."""
    read = {path.resolve(): _Page(path.read_text("utf-8")) for path in home.rglob("*.html")}
    found = defaultdict(set)
    for path, page in read.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link) or ELSEWHERE.match(link):
                continue
            name, anchor = urldefrag(link)
            target = (path.parent / unquote(name)).resolve() if name else path
            if not target.exists():
                found[path].add(f"no file for the link {link}")
            elif anchor and target in read and unquote(anchor) not in read[target].anchors:
                found[path].add(f"no anchor for the link {link}")
        found[path].update(f"loads {one}" for one in page.loaded if ELSEWHERE.match(one))
    for path in home.rglob("*.css"):
        found[path].update(f"loads {one}" for one in IN_STYLES.findall(path.read_text("utf-8")))
    return [
        f"{path.name}: {line}" for path, lines in sorted(found.items()) for line in sorted(lines)
    ]
