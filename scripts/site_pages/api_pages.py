"""Pages of the Python interface: public names and contracts, from signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import fleetsim
from fleetsim import contracts
from scripts.site_pages.key_pages import markdown

SECTION = re.compile(
    r"^(Args|Attributes|Raises|Returns|Yields):\n((?:[ ]{4}.*\n?|\n)+)", re.MULTILINE
)
ITEM = re.compile(r"^(\w+): (.*(?:\n[ ]+.*)*)", re.MULTILINE)
QUALIFIED = re.compile(r"\b(?:\w+\.)+(?=\w)")


def with_sections(docstring: str) -> str:
    r"""Return a docstring as Markdown, its sections of arguments and exceptions as lists.

    >>> with_sections("Open it.\n\nRaises:\n    DataError: it is\n        damaged.")
    'Open it.\n\n**Raises**\n\n- `DataError`: it is damaged.'
    """

    def section(match: re.Match[str]) -> str:
        body = textwrap.dedent(match[2]).strip()
        items = [f"- `{name}`: {' '.join(text.split())}" for name, text in ITEM.findall(body)]
        return f"**{match[1]}**\n\n{chr(10).join(items) or ' '.join(body.split())}\n"

    text = SECTION.sub(section, docstring)
    return markdown(re.sub(r"^(>>> .*(?:\n.+)*)", r"```python\n\1\n```", text, flags=re.M)).strip()


def signature(function: Any) -> str:
    """Return the arguments of a function, types without the names of their modules."""
    found = inspect.signature(function)
    parameters = [one for one in found.parameters.values() if one.name != "self"]
    text = str(found.replace(parameters=parameters))
    return QUALIFIED.sub("", re.sub(r"'([^']*)'(?=[,)=\] ]|$)", r"\1", text).replace("typing.", ""))


def attributes(cls: type) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and docstring of the attributes of a class that have one."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    for node, after in pairwise(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(after, ast.Expr):
            continue
        if isinstance(after.value, ast.Constant) and isinstance(node.target, ast.Name):
            yield (
                node.target.id,
                ast.unparse(node.annotation),
                inspect.cleandoc(str(after.value.value)),
            )


def entry(kind: str, title: str, *paragraphs: str, depth: int = 3) -> str:
    """Return an entry of the Python domain, whose name the search finds."""
    fence = ":" * depth
    body = "\n\n".join(filter(None, paragraphs))
    return f"{fence}{{py:{kind}}} {title}\n\n{body}\n{fence}\n"


def of_class(cls: type) -> str:
    """Return the entry of a class: docstring, attributes, and what it can do."""
    is_error = issubclass(cls, Exception)
    parts = [with_sections(inspect.getdoc(cls) or "")]
    parts += [
        entry("attribute", f"{name}: {kind}", with_sections(text))
        for name, kind, text in attributes(cls)
    ]
    for name, member in vars(cls).items():
        is_method = inspect.isfunction(member)
        if name.startswith("_") or not (
            is_method or isinstance(member, property | cached_property)
        ):
            continue
        text = with_sections(inspect.getdoc(member) or "")
        parts.append(
            entry("method", f"{name}{signature(member)}", text)
            if is_method
            else entry("property", name, text)
        )
    return entry("exception" if is_error else "class", cls.__name__, *parts, depth=4)


def of(name: str, thing: Any) -> str:
    """Return the entry of a public name."""
    if inspect.isclass(thing):
        return of_class(thing)
    return entry(
        "function", f"{name}{signature(thing)}", with_sections(inspect.getdoc(thing) or "")
    )


def pages() -> dict[str, str]:
    """Return the pages of public names and of contracts, by place."""
    public = [name for name in fleetsim.__all__ if name != "__version__"]
    names = [name for name in vars(contracts) if not name.startswith("_")]
    told = [name for name in names if inspect.isclass(getattr(contracts, name))]
    told = [name for name in told if getattr(contracts, name).__module__.startswith("fleetsim.")]
    return {
        "reference/python.md": "\n".join(
            [
                "# Python: public names\n",
                "For users of Python. After this page you know every name of `import fleetsim`."
                " How to work with them: [](/python.md).\n",
                "```{py:module} fleetsim\n```\n",
                *(of(name, getattr(fleetsim, name)) for name in public if name != "Selector"),
            ]
        ),
        "reference/contracts.md": "\n".join(
            [
                "# Contracts: records and Protocols\n",
                "For users who write [parts of their own](/plugins.md). After this page you know"
                " the Protocol that a part satisfies, and the records that it gets.\n",
                markdown(inspect.cleandoc(str(contracts.__doc__)).split("\n\n", 2)[2]) + "\n",
                "```{py:module} fleetsim.contracts\n```\n",
                *(of(name, getattr(contracts, name)) for name in sorted(told)),
            ]
        ),
    }
