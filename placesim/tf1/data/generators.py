"""`Dataset.from_generator`: three functions start a Python generator, get its next element, and end it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from placesim.tf1.data import mapping, sources, structures
from placesim.tf1.data.building import element_attrs
from placesim.tf1.data.datasets import Dataset, VariantDataset
from placesim.tf1.data.functions import ElementFunction
from placesim.tf1.functions.python_functions import eager_py_func, numpy_function
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_n_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.type_specs import TensorSpec, TypeSpec

_CALLER = "Dataset_from_generator"


class _GeneratorRuns:
    """Running generators of one dataset, by number."""

    def __init__(self, generator: Callable[..., Any]) -> None:
        self._generator = generator
        self._numbers = itertools.count()
        self._args: dict[int, tuple[Any, ...]] = {}
        self._iterators: dict[int, Iterator[Any]] = {}

    def begin(self, *args: object) -> np.ndarray[Any, Any]:
        number = next(self._numbers)
        self._args[number] = args
        return np.array(number, np.int64)

    def next(self, number: Any) -> Any:
        key = int(number)
        if key not in self._iterators:
            self._iterators[key] = iter(self._generator(*self._args.pop(key)))
        return next(self._iterators[key])

    def end(self, number: Any) -> np.ndarray[Any, Any]:
        self._iterators.pop(int(number), None)
        return np.array(0, np.int64)


def from_generator(
    generator: Callable[..., Any],
    output_types: object = None,
    output_shapes: object = None,
    args: Sequence[Any] | None = None,
    output_signature: object = None,
    name: str | None = None,
) -> Dataset:
    """Elements of a Python generator.  Raises TypeError and ValueError for wrong arguments."""
    if not callable(generator):
        raise TypeError("`generator` must be a Python callable.")
    spec = _spec(output_types, output_shapes, output_signature)
    given = () if args is None else tuple(convert_n_to_tensor(args, name="args"))
    running = _GeneratorRuns(generator)
    # TensorFlow calls Python by EagerPyFunc for a signature, and for a single tensor of unknown rank; else by PyFunc.
    has_shapes = bool(spec.shape if isinstance(spec, TensorSpec) else spec)
    asks = _asked_by_types if output_types is not None and has_shapes else _asked

    def get_iterator_id_fn(unused_dummy: object) -> Any:
        return numpy_function(running.begin, list(given), dtypes.int64)

    def generator_next_fn(iterator_id_t: Any) -> Any:
        return asks(running, spec, iterator_id_t)

    def finalize_fn(iterator_id_t: object) -> Any:
        return numpy_function(running.end, [iterator_id_t], dtypes.int64)

    def flat_map_fn(dummy_arg: Any) -> Dataset:
        return _generated(dummy_arg, get_iterator_id_fn, generator_next_fn, finalize_fn, spec)

    found = mapping.flat_mapped(sources.from_tensors(0), flat_map_fn)
    return VariantDataset(found._variant_tensor, found._spec, found._options)


def _spec(types: object, shapes: object, signature: object) -> Any:
    if signature is not None:
        if types is not None:
            raise TypeError("The `output_types` argument can not be used together with the `output_signature` argument.")
        if shapes is not None:
            raise TypeError("The `output_shapes` argument can not be used together with the `output_signature` argument.")
        for leaf in structures.flatten(signature):
            if not isinstance(leaf, TypeSpec):
                raise TypeError(
                    "`output_signature` must contain objects that are subclass of `tf.TypeSpec` but found "
                    f"{type(leaf)} which is not."
                )
        return signature
    if types is None:
        raise TypeError(
            "To specify the output signature you need to provide either the `output_signature` argument or the `output_types` "
            "argument."
        )
    given = structures.map_structure(dtypes.as_dtype, types)
    return structures.map_structure(lambda spec: TensorSpec(spec.shape, spec.dtype), structures.spec_from_types(given, shapes))


def _generated(
    dummy: Tensor, init: Callable[..., Any], following: Callable[..., Any], final: Callable[..., Any], spec: object
) -> Dataset:
    begins = ElementFunction(init, _CALLER, TensorSpec([], dtypes.int32))
    number = begins.output_spec
    asks = ElementFunction(following, _CALLER, number)
    ends = ElementFunction(final, _CALLER, number)
    variant = gen("GeneratorDataset")(
        [dummy, *begins.captured],
        asks.captured,
        ends.captured,
        init_func=begins.name,
        next_func=asks.name,
        finalize_func=ends.name,
        **element_attrs(spec),
    )
    return VariantDataset(variant, spec)


# --- the next element -----------------------------------------------------------------------------------------------


def _asked_by_types(running: _GeneratorRuns, spec: object, number: Tensor) -> Any:
    leaves = structures.flatten(spec)

    def generator_py_func(iterator_id: TensorLike) -> Any:
        return _arrays(running.next(iterator_id), spec, leaves, by_types=True)

    found = numpy_function(generator_py_func, [number], [leaf.dtype for leaf in leaves])
    for tensor, leaf in zip(found, leaves, strict=True):
        tensor.set_shape(leaf.shape)
    return structures.pack(spec, found)


def _asked(running: _GeneratorRuns, spec: object, number: Tensor) -> Any:
    leaves = structures.flatten(spec)

    def generator_py_func(iterator_id: TensorLike) -> Any:
        return _arrays(running.next(iterator_id), spec, leaves, by_types=False)

    found = eager_py_func(generator_py_func, [number], [leaf.dtype for leaf in leaves])
    return structures.from_tensors(spec, found)


def _arrays(values: TensorLike, spec: object, leaves: Sequence[Any], by_types: bool) -> list[Any]:
    """Arrays of a generator's element.  Raises TypeError if it does not match the spec."""
    try:
        parts = structures.pack_up_to(spec, values)
    except (TypeError, ValueError):
        raise _other_structure(structures.types_of(spec) if by_types else spec, values) from None
    found = []
    for part, leaf in zip(parts, leaves, strict=True):
        try:
            array = _array(part, leaf.dtype)
        except (TypeError, ValueError):
            if not by_types:
                raise _other_structure(spec, values) from None
            raise TypeError(
                "`generator` yielded an element that could not be converted to the expected type. The expected type was "
                f"{leaf.dtype.name}, but the yielded element was {part}."
            ) from None
        if not leaf.shape.is_compatible_with(array.shape):
            raise TypeError(
                f"`generator` yielded an element of shape {array.shape} where an element of shape {leaf.shape} was expected."
            )
        found.append(array)
    return found


def _other_structure(wanted: Any, values: Any) -> TypeError:
    return TypeError(
        "`generator` yielded an element that did not match the expected structure. The expected structure was "
        f"{wanted}, but the yielded element was {values}."
    )


def _array(value: TensorLike, dtype: dtypes.DType) -> np.ndarray[Any, Any]:
    found = np.asarray(value)
    if dtype is dtypes.string:
        if found.dtype.kind not in "SUO":
            raise TypeError
        texts = [item.encode() if isinstance(item, str) else item for item in found.reshape(-1).tolist()]
        flat = np.empty(len(texts), object)
        flat[:] = texts
        return flat.reshape(found.shape)
    if found.dtype.kind in "SUO":
        raise TypeError
    return found.astype(dtype.as_numpy_dtype)
