"""Descriptions of keys: the docstrings under the fields of settings, read where they are shown.

Pydantic would read them when a class is made, which took half of the import of a scenario.
"""

import ast
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise

from pydantic import BaseModel


def description(model: type[BaseModel], name: str) -> str | None:
    """Return the description of a field, else the docstring under it; None if it has neither.

    A class whose source is not at hand has no docstrings.
    """
    stated = model.model_fields[name].description
    if stated is not None:
        return stated
    owners = (each for each in model.__mro__ if issubclass(each, BaseModel))
    return next((docs[name] for docs in map(docstrings, owners) if name in docs), None)


@functools.cache
def docstrings(cls: type) -> Mapping[str, str | None]:
    """Return the docstring of every field that the body of a class names."""
    if cls is BaseModel:
        return {}
    try:
        source = inspect.getsource(sys.modules[cls.__module__])
    except (KeyError, OSError, TypeError):  # typed into an interpreter, or made without a source
        return {}
    return _by_class(source).get(cls.__qualname__, {})


@functools.cache
def _by_class(source: str) -> Mapping[str, Mapping[str, str | None]]:
    """Return the docstrings of the fields of every class of a module, by its qualified name."""
    return dict(_classes(ast.parse(source), ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, dict[str, str | None]]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name, body=body):
                yield prefix + name, dict(_fields(body))
                yield from _classes(child, f"{prefix}{name}.")
            case ast.FunctionDef(name=name):
                yield from _classes(child, f"{prefix}{name}.<locals>.")
            case ast.stmt():
                yield from _classes(child, prefix)


def _fields(body: list[ast.stmt]) -> Iterator[tuple[str, str | None]]:
    for statement, below in pairwise([*body, ast.Pass()]):
        match statement, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                yield name, inspect.cleandoc(text)
            case ast.AnnAssign(target=ast.Name(id=name)), _:
                yield name, None
