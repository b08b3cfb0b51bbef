"""Structures of a dataset's elements: nested tuples and dictionaries of specs, and the tensors of elements.

Unlike in `tf.nest`, a list is not a structure: it becomes a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from placesim.tf1.data.datasets import Dataset, VariantDataset
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import SparseTensor, SparseTensorValue
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.types.type_specs import NoneTensorSpec, SparseTensorSpec, TensorSpec, TypeSpec, type_spec_of

# --- nests ----------------------------------------------------------------------------------------------------------


def is_nested(value: TensorLike) -> bool:
    """Whether a value is a structure: a tuple or a dictionary."""
    return isinstance(value, tuple | Mapping) and not isinstance(value, SparseTensorValue)


def flatten(structure: object) -> list[Any]:
    """The leaves of a structure; the leaves of a dictionary are in the order of its sorted keys."""
    return list(_leaves(structure))


def _leaves(structure: Any) -> Iterator[Any]:
    if not is_nested(structure):
        yield structure
        return
    for part in _parts(structure):
        yield from _leaves(part)


def _parts(structure: Any) -> Sequence[Any]:
    if isinstance(structure, Mapping):
        return [structure[key] for key in sorted(structure)]
    return structure  # type: ignore[no-any-return]


def pack(structure: object, leaves: Sequence[Any]) -> Any:
    """The structure with other leaves."""
    return _packed(structure, iter(leaves))


def _packed(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    return pack_parts(structure, [_packed(part, leaves) for part in _parts(structure)])


def map_structure(function: Callable[..., Any], *structures: object) -> Any:
    """Structure of the function's results for corresponding leaves."""
    return pack(structures[0], [function(*leaves) for leaves in zip(*map(flatten, structures), strict=True)])


def pack_parts(structure: object, parts: Sequence[Any]) -> Any:
    """The structure with other parts at its outermost level."""
    if isinstance(structure, Mapping):
        found = dict(zip(sorted(structure), parts, strict=True))
        return type(structure)((key, found[key]) for key in structure)  # type: ignore[call-arg]
    return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)


def pack_up_to(shallow: Any, given: Any) -> list[Any]:
    """Parts of `given` at the leaves of the structure `shallow`; a part may be a structure itself.

    Raises ValueError or TypeError if `given` has another structure down to these leaves.
    """
    if not is_nested(shallow):
        return [given]
    if not is_nested(given) and not isinstance(given, list):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(given).__name__}."
        )
    if len(given) != len(shallow):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{len(given)}, while shallow structure has length {len(shallow)}."
        )
    parts = [given[key] for key in sorted(shallow)] if isinstance(shallow, Mapping) else given
    found: list[Any] = []
    for part, inner in zip(_parts(shallow), parts, strict=True):
        found += pack_up_to(part, inner)
    return found


# --- specs ----------------------------------------------------------------------------------------------------------


class DatasetSpec(TypeSpec):
    """`tf.data.DatasetSpec`: spec of an element that is itself a dataset."""

    __slots__ = ("element_spec", "shape")

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self.element_spec = element_spec
        self.shape = TensorShape(dataset_shape)

    @property
    def value_type(self) -> type:
        return Dataset

    def _parts(self) -> tuple[Any, ...]:
        return repr(self.element_spec), self.shape.sizes

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, {self.shape!r})"


_TOLD_BY_SPEC = (DatasetSpec, NoneTensorSpec)
"""Specs that stand for themselves in structures of types, of shapes and of classes."""


def spec_from_types(output_types: object, output_shapes: object = None, output_classes: object = None) -> Any:
    """Spec of an element from types, shapes (default unknown) and classes (default tensors)."""
    if output_shapes is None:
        output_shapes = map_structure(lambda _: TensorShape(None), output_types)
    shapes = pack_up_to(output_types, without_shapes(output_types, output_shapes))
    classes = [Tensor] * len(shapes) if output_classes is None else flatten(output_classes)
    rows = zip(flatten(output_types), shapes, classes, strict=True)
    found = [
        (SparseTensorSpec if issubclass(kind, SparseTensor) else TensorSpec)(TensorShape(shape), dtype)
        for dtype, shape, kind in rows
    ]
    return pack(output_types, found)


def without_shapes(types: Any, shapes: Any) -> Any:
    """Shapes in the structure of the types: at each leaf is one shape, even if it is a list or tuple of sizes."""
    if not is_nested(types):
        return TensorShape(shapes)
    if isinstance(types, Mapping):
        return {key: without_shapes(types[key], shapes[key]) for key in types}
    return tuple(without_shapes(one, shape) for one, shape in zip(types, shapes, strict=True))


def types_of(spec: object) -> Any:
    """Element types of a spec in its structure; datasets and None represent themselves."""
    return map_structure(lambda one: one if isinstance(one, _TOLD_BY_SPEC) else one.dtype, spec)


def shapes_of(spec: object) -> Any:
    """Shapes of a spec in its structure; datasets and None represent themselves."""
    return map_structure(lambda one: one if isinstance(one, _TOLD_BY_SPEC) else one.shape, spec)


def classes_of(spec: object) -> Any:
    """Classes of a spec's values in its structure; datasets and None represent themselves."""
    return map_structure(lambda one: one if isinstance(one, _TOLD_BY_SPEC) else one.value_type, spec)


class ElementTypes:
    """Base class of iterators: properties of their elements, from `element_spec`."""

    element_spec: Any

    @property
    def output_types(self) -> Any:
        return types_of(self.element_spec)

    @property
    def output_shapes(self) -> Any:
        return shapes_of(self.element_spec)

    @property
    def output_classes(self) -> Any:
        return classes_of(self.element_spec)


# --- components: the tensors of an element --------------------------------------------------------------------------


def component_types(spec: object) -> list[dtypes.DType]:
    """Types of an element's tensors: variant for sparse tensors and datasets."""
    return [one.dtype if isinstance(one, TensorSpec) else dtypes.variant for one in _held(spec)]


def component_shapes(spec: object) -> list[TensorShape]:
    """Shapes of an element's tensors: unknown for a sparse tensor."""
    return [TensorShape(None) if isinstance(one, SparseTensorSpec) else one.shape for one in _held(spec)]


def _held(spec: object) -> list[Any]:
    """The leaf specs whose values are tensors at run time: all except None's."""
    return [one for one in flatten(spec) if not isinstance(one, NoneTensorSpec)]


def normalize(element: object, spec: object = None) -> Any:
    """The element with its leaves converted to tensors; sparse tensors and datasets stay."""
    leaves = flatten(element)
    specs = [None] * len(leaves) if spec is None else flatten(spec)
    found: list[Any] = []
    with name_scope("normalize_element"):
        for i, (leaf, wanted) in enumerate(zip(leaves, specs, strict=True)):
            if leaf is None or isinstance(leaf, Dataset | SparseTensor):
                found.append(leaf)
            elif isinstance(leaf, SparseTensorValue):
                found.append(SparseTensor.from_value(leaf))
            else:
                dtype = getattr(wanted, "dtype", None)
                found.append(convert_to_tensor(leaf, dtype, name=f"component_{i}"))
    return pack(element, found)


def spec_of(element: object) -> Any:
    """Spec of an element whose leaves are tensors or composite values."""
    return map_structure(lambda leaf: NoneTensorSpec() if leaf is None else type_spec_of(leaf), element)


def to_tensors(element: object) -> list[Tensor]:
    """The tensors of an element."""
    found: list[Tensor] = []
    for leaf in flatten(element):
        if leaf is None:
            continue
        if isinstance(leaf, SparseTensor):
            found.append(gen("SerializeSparse")(leaf.indices, leaf.values, leaf.dense_shape, out_type=dtypes.variant))
        else:
            found.append(convert_to_tensor(getattr(leaf, "_variant_tensor", leaf)))
    return found


def to_batched_tensors(element: object) -> list[Tensor]:
    """The tensors of a batch of elements.  Raises ValueError for a scalar."""
    found: list[Tensor] = []
    for leaf in flatten(element):
        if leaf is None:
            continue
        if isinstance(leaf, SparseTensor):
            found.append(gen("SerializeManySparse")(leaf.indices, leaf.values, leaf.dense_shape, out_type=dtypes.variant))
        else:
            if leaf.shape.rank == 0:
                raise ValueError("Unbatching a tensor is only supported for rank >= 1")
            found.append(leaf)
    return found


def from_tensors(spec: object, tensors: Sequence[Tensor]) -> Any:
    """Make an element from its tensors, in the structure of its spec."""
    left = iter(tensors)
    return map_structure(lambda one: None if isinstance(one, NoneTensorSpec) else _from_tensor(one, next(left)), spec)


def _from_tensor(spec: object, tensor: Tensor) -> Any:
    if isinstance(spec, DatasetSpec):
        return VariantDataset(tensor, spec.element_spec)
    if isinstance(spec, SparseTensorSpec):
        return _deserialized(spec, tensor)
    if isinstance(spec, TensorSpec):
        tensor.set_shape(spec.shape)
    return tensor


def _deserialized(spec: SparseTensorSpec, tensor: Tensor) -> SparseTensor:
    """Deserialised sparse tensor, whose dense shape is a constant if it is known, or else a stack of sizes."""
    indices, values, dense_shape = gen("DeserializeSparse")(tensor, dtype=spec.dtype)
    sizes = spec.shape.sizes
    if sizes is None:
        return SparseTensor(indices, values, dense_shape)
    indices.set_shape([None, len(sizes)])
    if all(size >= 0 for size in sizes):
        dense_shape = constant(list(sizes), dtypes.int64, name="shape")
    elif any(size >= 0 for size in sizes):
        parts = gen("Unpack")(dense_shape, num=len(sizes), name="unstack")
        known = [constant(size, dtypes.int64) if size >= 0 else part for size, part in zip(sizes, parts, strict=True)]
        dense_shape = gen("Pack")(known, name="stack")
    dense_shape.set_shape([len(sizes)])
    return SparseTensor(indices, values, dense_shape)


# --- changes of specs -----------------------------------------------------------------------------------------------


def batched(spec: object, size: int | None) -> Any:
    """The spec of a batch of elements."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, DatasetSpec):
            return DatasetSpec(leaf.element_spec, TensorShape([size]).concatenate(leaf.shape))
        if isinstance(leaf, NoneTensorSpec):
            return leaf
        return type(leaf)(TensorShape([size]).concatenate(leaf.shape), leaf.dtype)

    return map_structure(one, spec)


def unbatched(spec: object) -> Any:
    """The spec of the elements of a batch.  Raises ValueError for scalars."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, NoneTensorSpec):
            return leaf
        if leaf.shape.rank == 0:
            raise ValueError("Cannot unbatch an input with scalar components.")
        return type(leaf)(leaf.shape[1:], leaf.dtype)

    return map_structure(one, spec)


def common(first: Any, second: Any) -> Any | None:
    """Most specific spec compatible with both; None if there is none."""
    if is_nested(first) != is_nested(second):
        return None
    if is_nested(first):
        if type(first) is not type(second) or len(first) != len(second):
            return None
        if isinstance(first, Mapping) and set(first) != set(second):
            return None
        found = [common(one, other) for one, other in zip(_parts(first), _parts(second), strict=True)]
        return None if None in found else pack_parts(first, found)
    if type(first) is not type(second):
        return None
    if isinstance(first, DatasetSpec):
        inner = common(first.element_spec, second.element_spec)
        return None if inner is None else DatasetSpec(inner, first.shape)
    if isinstance(first, NoneTensorSpec):
        return first
    if first.dtype is not second.dtype:
        return None
    return type(first)(first.shape.most_specific_compatible_shape(second.shape), first.dtype)
