"""Fetches of `Session.run` in any structure -> tensors and operations; their values -> the same structure."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from placesim.tf1.errors import InaccessibleTensorError
from placesim.tf1.session.values import composite_of

if TYPE_CHECKING:
    from placesim.tf1.graphs.graph import Graph

Build: TypeAlias = Callable[[Sequence[Any]], Any]


class Fetches(NamedTuple):
    """The distinct fetched `elements`, and a function that builds the result from their values."""

    elements: tuple[Any, ...]
    build: Build


def flatten_fetches(graph: Graph, fetches: object) -> Fetches:
    """Flatten fetches.  Raises TypeError and ValueError, with TensorFlow's messages, for other values than graph elements."""
    elements: dict[Any, int] = {}

    def place(element: object) -> int:
        return elements.setdefault(element, len(elements))

    build = _builder(graph, fetches, place)
    return Fetches(tuple(elements), build)


def _builder(graph: Graph, fetch: Any, place: Callable[[Any], int]) -> Build:
    if fetch is None:
        kind = type(fetch).__name__
        raise TypeError(f'Argument `fetch` = {fetch} has invalid type "{kind}". Cannot be None')
    if isinstance(fetch, list | tuple):
        return _sequence(fetch, [_builder(graph, item, place) for item in fetch])
    if isinstance(fetch, collections.abc.Mapping):
        return _mapping(fetch, [_builder(graph, item, place) for item in fetch.values()])
    if hasattr(type(fetch), "__attrs_attrs__"):
        names = [attribute.name for attribute in type(fetch).__attrs_attrs__]
        return _record(fetch, [_builder(graph, getattr(fetch, name), place) for name in names])
    composite = composite_of(fetch)
    if composite is not None:
        made = composite.build
        places = [place(_element(graph, part)) for part in composite.parts(fetch)]
        return lambda values: made([values[i] for i in places])
    position = place(_element(graph, fetch))
    return lambda values: values[position]


def _sequence(fetch: object, builds: Sequence[Build]) -> Build:
    kind = type(fetch)
    if isinstance(fetch, list):
        return lambda values: [build(values) for build in builds]
    if kind is tuple:
        return lambda values: tuple([build(values) for build in builds])
    return lambda values: kind(*[build(values) for build in builds])


def _mapping(fetch: Any, builds: Sequence[Build]) -> Build:
    keys = list(fetch)
    kind = type(fetch)

    def build(values: Sequence[Any]) -> Any:
        found = kind(fetch.default_factory) if isinstance(fetch, collections.defaultdict) else kind()
        for key, made in zip(keys, builds, strict=True):
            found[key] = made(values)
        return found

    return build


def _record(fetch: object, builds: Sequence[Build]) -> Build:
    return lambda values: type(fetch)(*[build(values) for build in builds])


def _element(graph: Graph, fetch: object) -> Any:
    """Tensor or operation of a fetch."""
    try:
        found = graph.as_graph_element(fetch, allow_tensor=True, allow_operation=True)
    except TypeError as error:
        kind = type(fetch).__name__
        raise TypeError(
            f'Argument `fetch` = {fetch} has invalid type "{kind}" must be a string or Tensor. ({error})'
        ) from error
    except (ValueError, KeyError) as error:
        raise ValueError(f"Argument `fetch` = {fetch} cannot be interpreted as a Tensor. ({error})") from error
    if not graph.is_fetchable(found):
        raise InaccessibleTensorError(
            f"Operation {getattr(found, 'op', found).name} has been marked as not fetchable. Typically this happens when it is "
            "defined in another function or code block. Use return values, explicit Python locals or TensorFlow collections to "
            "access it."
        )
    return found
