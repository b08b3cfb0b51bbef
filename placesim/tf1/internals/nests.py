"""Functions of TensorFlow's own `nest` over the upper levels of structures, and over paths to their leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from placesim.tf1.types.nest import flatten, is_nested, like, pack_sequence_as, parts


def _is_namedtuple(instance: object, strict: bool = False) -> bool:
    return isinstance(instance, tuple) and hasattr(instance, "_fields")


def assert_shallow_structure(
    shallow_tree: object, input_tree: object, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise TypeError or ValueError if a structure does not begin with the levels of `shallow_tree`."""
    if not is_nested(shallow_tree):
        return
    if not is_nested(input_tree):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(input_tree)}."
        )
    is_both_mapping = isinstance(shallow_tree, Mapping) and isinstance(input_tree, Mapping)
    if check_types and type(shallow_tree) is not type(input_tree) and not is_both_mapping:
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type "
            f"{type(input_tree)}, while shallow structure has type {type(shallow_tree)}."
        )
    lengths = len(parts(input_tree)), len(parts(shallow_tree))
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"The two structures don't have the same sequence length. Input structure has length {lengths[0]}, while shallow "
            f"structure has length {lengths[1]}."
        )
    for shallow, given in zip(parts(shallow_tree), parts(input_tree), strict=True):
        assert_shallow_structure(shallow, given, check_types)


def flatten_up_to(
    shallow_tree: object, input_tree: object, check_types: bool = True, expand_composites: bool = False
) -> list[Any]:
    """Parts of a structure at the places of the leaves of `shallow_tree`.  Raises TypeError and ValueError."""
    assert_shallow_structure(shallow_tree, input_tree, check_types)
    return list(_up_to(shallow_tree, input_tree))


def _up_to(shallow: object, given: object) -> Iterator[Any]:
    if not is_nested(shallow):
        yield given
        return
    for upper, part in zip(parts(shallow), parts(given), strict=True):
        yield from _up_to(upper, part)


def map_structure_up_to(shallow_tree: object, func: Callable[..., Any], *inputs: object, **kwargs: Any) -> Any:
    """Apply `func` to the parts of structures at the places of the leaves of `shallow_tree`.  Raises ValueError."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    flat = [flatten_up_to(shallow_tree, one, **kwargs) for one in inputs]
    return pack_sequence_as(shallow_tree, [func(*leaves) for leaves in zip(*flat, strict=True)])


def get_traverse_shallow_structure(
    traverse_fn: Callable[[Any], Any], structure: object, expand_composites: bool = False
) -> Any:
    """Copy of a structure: True at each leaf, False in place of a part for which `traverse_fn` is false.  Raises TypeError."""
    found = traverse_fn(structure)
    if not is_nested(structure):
        if not isinstance(found, bool):
            raise TypeError(f"traverse_fn returned structure: {found} for non-structure: {structure}")
        return found
    if isinstance(found, bool):
        found = [found] * len(parts(structure))
        if not any(found):
            return False
    else:
        assert_shallow_structure(found, structure)
        found = parts(found)
    inside = zip(found, parts(structure), strict=True)
    return like(structure, [get_traverse_shallow_structure(traverse_fn, part) if is_in else False for is_in, part in inside])


def flatten_with_tuple_paths(structure: object, expand_composites: bool = False) -> list[tuple[tuple[Any, ...], Any]]:
    """Pairs of the keys and indices that lead to a leaf, and the leaf."""
    return list(_with_paths(structure, ()))


def flatten_with_joined_string_paths(
    structure: object, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """Pairs of a path as a string, and the leaf."""
    return [(separator.join(map(str, path)), leaf) for path, leaf in _with_paths(structure, ())]


def _with_paths(structure: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if not is_nested(structure):
        yield path, structure
        return
    keys = sorted(structure) if isinstance(structure, Mapping) else getattr(structure, "_fields", range(len(structure)))
    for key, part in zip(keys, parts(structure), strict=True):
        yield from _with_paths(part, (*path, key))


def map_structure_with_paths(func: Callable[..., Any], *structure: Any, **kwargs: object) -> Any:
    """Apply `func` to the path of a leaf and the leaves there, and return a structure of its results."""
    paths = [path for path, _ in flatten_with_joined_string_paths(structure[0])]
    flat = [flatten(one) for one in structure]
    return pack_sequence_as(structure[0], [func(*row, **kwargs) for row in zip(paths, *flat, strict=True)])
