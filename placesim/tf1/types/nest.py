"""Nested structures of Python values: lists, tuples, named tuples, dictionaries and composite tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MappingView, Sequence
from typing import Any

from placesim.tf1.sparse.values import IndexedSlices, SparseTensor


def is_nested(value: object) -> bool:
    """Whether a value is a structure, not a leaf."""
    return isinstance(value, list | tuple | Mapping | MappingView | range)


def flatten(structure: object, expand_composites: bool = False) -> list[Any]:
    """Leaves of a structure; those of a dictionary are in the order of its sorted keys.

    `expand_composites` replaces sparse values by their tensors.
    """
    return list(_leaves(structure, expand_composites))


def _leaves(structure: object, expands: bool) -> Iterator[Any]:
    if is_nested(structure):
        for part in parts(structure):
            yield from _leaves(part, expands)
    elif expands and isinstance(structure, IndexedSlices | SparseTensor):
        yield from components(structure)
    else:
        yield structure


def parts(structure: Any) -> Sequence[Any]:
    """Direct parts of a structure."""
    if isinstance(structure, Mapping):
        return [structure[key] for key in _sorted_keys(structure)]
    if isinstance(structure, MappingView):
        return list(structure)  # type: ignore[call-overload, no-any-return]
    return structure  # type: ignore[no-any-return]


def _sorted_keys(structure: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        raise TypeError(f"nest only supports dicts with sortable keys: {list(structure)}") from None


def components(composite: IndexedSlices | SparseTensor) -> list[Any]:
    """The tensors that a sparse value consists of, in TensorFlow's order."""
    if isinstance(composite, SparseTensor):
        return [composite.indices, composite.values, composite.dense_shape]
    dense_shape = [] if composite.dense_shape is None else [composite.dense_shape]
    return [composite.values, composite.indices, *dense_shape]


def with_components(composite: IndexedSlices | SparseTensor, tensors: Sequence[Any]) -> IndexedSlices | SparseTensor:
    """Return a sparse value of the same class as `composite`, made of other tensors."""
    return SparseTensor(*tensors) if isinstance(composite, SparseTensor) else IndexedSlices(*tensors)


def pack_sequence_as(structure: object, flat_sequence: Sequence[Any], expand_composites: bool = False) -> Any:
    """Copy a structure with `flat_sequence` as its leaves.  Raises ValueError for a wrong number, TypeError for no sequence."""
    if not is_nested(flat_sequence):
        raise TypeError(
            f"Attempted to pack value:\n  {flat_sequence}\ninto a structure, but found incompatible type "
            f"`{type(flat_sequence)}` instead."
        )
    if not is_nested(structure) and not (expand_composites and isinstance(structure, IndexedSlices | SparseTensor)):
        if len(flat_sequence) != 1:
            raise ValueError(
                f"The target structure is of type `{type(structure)}`\n  {structure}\nHowever the input is a sequence "
                f"({type(flat_sequence)}) of length {len(flat_sequence)}.\n  {flat_sequence}\nnest cannot guarantee that it is "
                "safe to map one to the other."
            )
        return flat_sequence[0]
    rest = iter(flat_sequence)
    try:
        packed = _packed(structure, rest, expand_composites)
    except StopIteration:
        rest = iter([None])
        packed = None
    if next(rest, _END) is not _END:
        raise ValueError(
            f"Could not pack sequence. Structure had {len(flatten(structure, expand_composites))} atoms, but flat_sequence had "
            f"{len(flat_sequence)} items.  Structure: {structure}, flat_sequence: {flat_sequence}."
        )
    return packed


_END = object()


def _packed(structure: Any, rest: Iterator[Any], expands: bool) -> Any:
    if is_nested(structure):
        return like(structure, [_packed(part, rest, expands) for part in parts(structure)])
    if expands and isinstance(structure, IndexedSlices | SparseTensor):
        return with_components(structure, [next(rest) for _ in components(structure)])
    return next(rest)


def like(structure: Any, new_parts: Sequence[Any]) -> Any:
    """Copy a structure with other direct parts."""
    if isinstance(structure, Mapping):
        found = dict(zip(_sorted_keys(structure), new_parts, strict=True))
        in_order = [(key, found[key]) for key in structure]
        if type(structure) is dict:
            return dict(in_order)
        factory = getattr(structure, "default_factory", _END)
        return type(structure)(in_order) if factory is _END else type(structure)(factory, in_order)  # type: ignore[call-arg]
    return type(structure)(*new_parts) if hasattr(structure, "_fields") else type(structure)(new_parts)


def map_structure(func: Callable[..., Any], *structures: object, expand_composites: bool = False) -> Any:
    """Apply `func` to the leaves at each place, and return a structure of its results.

    Raises ValueError or TypeError if the structures differ.
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structures:
        raise ValueError("Must provide at least one structure")
    first, *others = structures
    for other in others:
        assert_same_structure(first, other, expand_composites=expand_composites)
    flat = [flatten(structure, expand_composites) for structure in structures]
    return pack_sequence_as(first, [func(*leaves) for leaves in zip(*flat, strict=True)], expand_composites)


class _Difference(Exception):
    def __init__(self, kind: type[Exception], message: str) -> None:
        super().__init__(message)
        self.kind = kind


def assert_same_structure(nest1: object, nest2: object, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise ValueError for structures of different form, TypeError for different sequence types."""
    try:
        _compare(nest1, nest2, check_types)
    except _Difference as difference:
        shown = f"First structure: {_described(nest1)}\n\nSecond structure: {_described(nest2)}"
        raise difference.kind(
            f"The two structures don't have the same nested structure.\n\n{shown}\n\nMore specifically: {difference}\n"
            f"Entire first structure:\n{_dotted(nest1)}\nEntire second structure:\n{_dotted(nest2)}"
        ) from None


def _compare(first: Any, second: Any, checks_types: bool) -> None:
    if is_nested(first) != is_nested(second):
        nested, plain = (first, second) if is_nested(first) else (second, first)
        raise _Difference(
            ValueError, f'Substructure "{_described(nested)}" is a sequence, while substructure "{_described(plain)}" is not'
        )
    if not is_nested(first):
        return
    if checks_types and _kind(first) is not _kind(second):
        raise _Difference(
            TypeError,
            "The two namedtuples don't have the same sequence type. "
            f"First structure {_described(first)} has type {type(first).__name__}, "
            f"while second structure {_described(second)} has type {type(second).__name__}",
        )
    if isinstance(first, Mapping) and isinstance(second, Mapping) and set(first) != set(second):
        raise _Difference(
            ValueError,
            "The two dictionaries don't have the same set of keys. "
            f"First structure has keys {_described(list(first))}, while second structure has keys {_described(list(second))}",
        )
    if len(first) != len(second):
        shown = f"First structure: {_described(first)}. Second structure: {_described(second)}"
        raise _Difference(ValueError, f"The two structures don't have the same number of elements. {shown}")
    for one, other in zip(parts(first), parts(second), strict=True):
        _compare(one, other, checks_types)


def _kind(structure: object) -> type:
    return dict if isinstance(structure, Mapping) else type(structure)


def _described(structure: object) -> str:
    # TensorFlow names the class of a graph's tensors so
    name = type(structure).__name__
    return f"type={'SymbolicTensor' if name == 'Tensor' else name} str={structure}"


def _dotted(structure: object) -> str:
    return str(map_structure(lambda leaf: _DOT, structure))


class _Dot:
    def __repr__(self) -> str:
        return "."


_DOT = _Dot()
