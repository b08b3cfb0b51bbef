"""Classes and functions that a script registers, so that Keras finds them by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_objects: dict[str, Any] = {}


def get_custom_objects() -> dict[str, Any]:
    """The objects by name, to which a script adds its own."""
    return _objects


@contextmanager
def custom_object_scope(*args: Mapping[str, Any]) -> Iterator[None]:
    """Add objects within a `with` block."""
    before = dict(_objects)
    for given in args:
        _objects.update(given)
    try:
        yield
    finally:
        _objects.clear()
        _objects.update(before)


CustomObjectScope = custom_object_scope
