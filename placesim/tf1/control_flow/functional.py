"""`tf.map_fn`, `tf.scan`, `tf.foldl` and `tf.foldr`: loops over the first dimension of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from placesim.tf1.array.shaping import shape
from placesim.tf1.control_flow.loops import while_loop
from placesim.tf1.control_flow.tensor_arrays import TensorArray
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape


@contextmanager
def _cached_variables() -> Iterator[None]:
    """Context whose variables are cached on the device of the op that reads them, unless the scope has a caching device."""
    from placesim.tf1.variables.scopes import get_variable_scope

    scope = get_variable_scope()
    sets = scope.caching_device is None
    if sets:
        # a variable would be copied again in each iteration
        scope.set_caching_device(lambda op: op.device)
    try:
        yield
    finally:
        if sets:
            scope.set_caching_device(None)


def _converted(elems: object) -> list[Tensor]:
    return [convert_to_tensor(elem, name="elem") for elem in nest.flatten(elems)]


def _length(elems: list[Tensor]) -> Any:
    if any(elem.shape.rank == 0 for elem in elems):
        raise ValueError("Elements in elems must be 1+ dimensional Tensors, not scalars")
    for elem in elems:
        if elem.shape.rank is not None and elem.shape.as_list()[0] is not None:
            # a known length is a number in the graph: the loop then has a constant limit
            return elem.shape.as_list()[0]
    return shape(elems[0])[0]


def _unstacked(elems: list[Tensor], length: Any, knows_shape: bool) -> list[TensorArray]:
    arrays = [
        TensorArray(
            elem.dtype, size=length, dynamic_size=False, element_shape=elem.shape[1:] if knows_shape else None, infer_shape=True
        )
        for elem in elems
    ]
    return [array.unstack(elem) for array, elem in zip(arrays, elems, strict=True)]


def _stacked(arrays: list[TensorArray], length: object) -> list[Tensor]:
    found = [array.stack() for array in arrays]
    for tensor in found:
        # stacking does not tell the number of elements
        tensor.set_shape(TensorShape([length if isinstance(length, int) else None]).concatenate(tensor.shape[1:]))
    return found


def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """`tf.map_fn`: results of a function for each element, as tensors.  Raises TypeError if it is not callable."""
    if not callable(fn):
        raise TypeError(f"The provided function {getattr(fn, '__name__', fn)} is not callable. fn must be callable.")
    # `dtype` is the older name of the argument
    dtype = fn_output_signature if dtype is None else dtype
    with name_scope(name, "map", nest.flatten(elems)), _cached_variables():
        flat = _converted(elems)
        types = [elem.dtype for elem in flat] if dtype is None else nest.flatten(dtype)
        length = _length(flat)
        sources = _unstacked(flat, length, knows_shape=False)
        # made before the arrays of results, as in TensorFlow: the order of nodes is the order of the log (6.5.3)
        first = constant(0)
        results = [TensorArray(kind, size=length, dynamic_size=False, infer_shape=infer_shape) for kind in types]

        def compute(i: Tensor, arrays: Any) -> Any:
            value = fn(nest.pack_sequence_as(elems, [source.read(i) for source in sources]))
            nest.assert_same_structure(elems if dtype is None else dtype, value)
            written = [array.write(i, part) for array, part in zip(arrays, nest.flatten(value), strict=True)]
            return i + 1, written

        _, results = while_loop(
            lambda i, _: i < length,
            compute,
            (first, results),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=length,
        )
        return nest.pack_sequence_as(elems if dtype is None else dtype, _stacked(results, length))


def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: object = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.scan`: all values of an accumulator over the elements.  Raises TypeError if `fn` is not callable."""
    _check_callable(fn)
    with name_scope(name, "scan", nest.flatten(elems)), _cached_variables():
        flat = _converted(elems)
        length = _length(flat)
        sources = _unstacked(flat, length, knows_shape=True)

        def first_index() -> Any:
            # TensorFlow makes the subtraction again for each use
            return length - 1 if reverse else 0

        if initializer is None:
            start, passed, structure = [source.read(first_index()) for source in sources], 1, elems
        else:
            start, passed, structure = [convert_to_tensor(item) for item in nest.flatten(initializer)], 0, initializer
        results = [
            TensorArray(
                item.dtype,
                size=length,
                element_shape=item.shape if infer_shape else None,
                dynamic_size=False,
                infer_shape=infer_shape,
            )
            for item in start
        ]
        if initializer is None:
            results = [array.write(first_index(), item) for array, item in zip(results, start, strict=True)]

        def compute(i: Tensor, accumulated: Any, arrays: Any) -> Any:
            element = nest.pack_sequence_as(elems, [source.read(i) for source in sources])
            value = fn(nest.pack_sequence_as(structure, accumulated), element)
            nest.assert_same_structure(structure, value)
            parts = nest.flatten(value)
            written = [array.write(i, part) for array, part in zip(arrays, parts, strict=True)]
            return i - 1 if reverse else i + 1, parts, written

        begin = length - 1 - passed if reverse else passed
        _, _, results = while_loop(
            (lambda i, _1, _2: i >= 0) if reverse else (lambda i, _1, _2: i < length),
            compute,
            (begin, start, results),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=length,
        )
        return nest.pack_sequence_as(structure, _stacked(results, length))


def foldl(
    fn: Callable[..., Any],
    elems: object,
    initializer: object = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.foldl`: last value of an accumulator over the elements in order.  Raises TypeError if `fn` is not callable."""
    return _folded(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name or "foldl", backwards=False)


def foldr(
    fn: Callable[..., Any],
    elems: object,
    initializer: object = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """`tf.foldr`: like `foldl`, from the last element to the first.  Raises TypeError if `fn` is not callable."""
    return _folded(fn, elems, initializer, parallel_iterations, back_prop, swap_memory, name or "foldr", backwards=True)


def _folded(
    fn: Callable[..., Any],
    elems: Any,
    initializer: object,
    parallel_iterations: int,
    back_prop: bool,
    swap_memory: bool,
    name: str,
    backwards: bool,
) -> Any:
    _check_callable(fn)
    with name_scope(None, name, nest.flatten(elems)), _cached_variables():
        flat = _converted(elems)
        length = _length(flat)
        # unlike in `map_fn`, each array is filled before the next is made
        sources = [_unstacked([elem], length, knows_shape=False)[0] for elem in flat]

        def element(i: object) -> Any:
            return nest.pack_sequence_as(elems, [source.read(i) for source in sources])

        begin: Any
        if initializer is not None:
            # backwards, TensorFlow passes the length on without making a new constant
            begin, start = length if backwards else constant(0), initializer
        elif backwards:
            begin = length - 1
            start = element(begin)
        else:
            start, begin = element(0), constant(1)

        def compute(i: Tensor, accumulated: object) -> Any:
            if backwards:
                i = i - 1
                return [i, fn(accumulated, element(i))]
            result = fn(accumulated, element(i))
            return [i + 1, result]

        _, result = while_loop(
            (lambda i, _: i > 0) if backwards else (lambda i, _: i < length),
            compute,
            [begin, start],
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=length,
        )
        return result


def _check_callable(fn: object) -> None:
    if not callable(fn):
        raise TypeError(f"{getattr(fn, '__name__', fn)} is not callable. Please provide a callable function.")
