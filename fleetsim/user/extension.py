"""Settings classes with the kinds of plug-ins beside those of fleetsim.

The class of the whole scenario is made anew with more members in some unions, so that checks,
messages, schema and the resolved scenario treat a plug-in as any other kind.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Union, get_args

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from fleetsim.schema.strict_yaml import KeyPath
from fleetsim.settings import Settings

S = TypeVar("S", bound=Settings)


def extended(model: type[S], added: Mapping[KeyPath, Sequence[type[Settings]]]) -> type[S]:
    """Return a subclass whose mappings at some key paths may also be of added classes.

    Every mapping on the way, in each of its forms, is extended alike. A form that lacks the next
    key stays as it is.
    """
    by_key: dict[str, dict[KeyPath, Sequence[type[Settings]]]] = {}
    for (key, *below), classes in added.items():
        by_key.setdefault(str(key), {})[tuple(below)] = classes
    fields: dict[str, Any] = {}
    for key, below_key in by_key.items():
        info = model.model_fields.get(key)
        if info is None:
            continue
        members: list[Any] = list(get_args(info.annotation)) or [info.annotation]
        deeper = {path: classes for path, classes in below_key.items() if path}
        if deeper:
            members = [extended(member, deeper) for member in members]
        members += below_key.get((), ())
        union: Any = Union  # of types that are known only now
        fields[key] = (union[tuple(members)], _field(info, is_union=len(members) > 1))
    return create_model(
        model.__name__,
        __base__=model,
        __doc__=model.__doc__,
        # There is no source in which pydantic could look for them; the fields have theirs.
        __cls_kwargs__={"use_attribute_docstrings": False},
        **fields,
    )


def _field(info: FieldInfo, *, is_union: bool) -> Any:
    """Return a field with the default and description of another; unions have `kind`."""
    discriminator = info.discriminator or ("kind" if is_union else None)
    options: dict[str, Any] = {"description": info.description, "discriminator": discriminator}
    if info.default_factory is not None:
        return Field(default_factory=info.default_factory, **options)
    return Field(... if info.is_required() else info.default, **options)
