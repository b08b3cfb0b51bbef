"""`tf_inspect`: Python's `inspect`, with functions that see through the wrappers of a function."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from placesim.tf1.internals.decorators import unwrap


class ArgSpec(NamedTuple):
    """Positional parameters of a function, as Python 2 describes them."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(obj: Any) -> ArgSpec:
    """Positional parameters of a function; a method's include `self`."""
    return ArgSpec(*getfullargspec(obj)[:4])


def getfullargspec(obj: Any) -> inspect.FullArgSpec:
    """All parameters of a function, without annotations, since TensorFlow's functions have none; a method's include `self`."""
    return inspect.getfullargspec(unwrap(obj)[1])._replace(annotations={})


def fn_args(fn: Any) -> tuple[str, ...]:
    """Names of the positional parameters that a call of the function gives, without `self` of a bound method."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(one.name for one in inspect.signature(fn).parameters.values() if one.kind in kinds)


def has_kwargs(fn: Any) -> bool:
    """Whether a function takes any keyword arguments."""
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in inspect.signature(fn).parameters.values())


def __getattr__(name: str) -> Any:
    return inspect if name == "_inspect" else getattr(inspect, name)
