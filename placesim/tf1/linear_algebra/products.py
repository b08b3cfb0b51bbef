"""Products over chosen axes, norms and traces, and `linspace` and `polyval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.tf1.array.creation import matrix_diag_part, range, zeros_like
from placesim.tf1.array.parts import where as where_of_one_shape
from placesim.tf1.array.parts import where_v2
from placesim.tf1.array.shaping import concat, expand_dims, reshape, squeeze, stack, transpose
from placesim.tf1.array.shaping import rank as array_rank
from placesim.tf1.array.shaping import shape as array_shape
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.math.casting import conj
from placesim.tf1.math.elementwise import abs
from placesim.tf1.math.products import matmul
from placesim.tf1.math.reductions import reduce_max, reduce_sum
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes


def trace(x: TensorLike, name: str | None = None) -> Any:
    """`tf.linalg.trace`."""
    with name_scope(name, "Trace", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        return reduce_sum(matrix_diag_part(x), [-1], name=scope)


def norm(
    tensor: TensorLike,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Any:
    """`tf.norm`: of vectors along one axis, or of matrices along two."""
    keepdims = bool(renamed("keepdims", keepdims, "keep_dims", keep_dims))
    is_matrix = isinstance(axis, list | tuple)
    if is_matrix and len(axis) != 2:
        raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}")
    _check_norm(ord, axis, is_matrix)
    if axis is not None and not is_matrix:
        axis = (axis,)
    with name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        if ord in ("fro", "euclidean", 2, 2.0):
            if is_matrix and ord in (2, 2.0):
                raise NotImplementedError(
                    "tf.norm of matrices with ord=2 is not there; `convert` of TensorFlow's GraphDef works"
                )
            found = gen("Sqrt")(reduce_sum(x * conj(x), axis, True))
        else:
            found = abs(x)
            first = None if axis is None else axis[0]
            if ord == 1:
                found = reduce_sum(found, first, True)
                if is_matrix:
                    found = reduce_max(found, axis[-1], True)
            elif ord == np.inf:
                if is_matrix:
                    found = reduce_sum(found, axis[1], True)
                found = reduce_max(found, first, True)
            else:
                found = gen("Pow")(reduce_sum(gen("Pow")(found, ord), axis, True), 1.0 / ord)
        return found if keepdims else squeeze(found, axis)


def _check_norm(ord: Any, axis: Any, is_matrix: bool) -> None:
    if is_matrix:
        if axis[0] == axis[1]:
            raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {tuple(axis)}")
        if ord not in ("euclidean", "fro", 1, 2, np.inf):
            raise ValueError(f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {ord}")
    elif ord not in ("euclidean", 1, 2, np.inf) and (isinstance(ord, str) or not np.isreal(ord) or ord <= 0):
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}")


def tensordot(a: TensorLike, b: TensorLike, axes: TensorLike, name: str | None = None) -> Any:
    """`tf.tensordot`."""
    with name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, name="b")
        a_axes, b_axes = _contracted(a, axes)
        a_matrix, a_free, a_static = _as_matrix(a, a_axes, False)
        b_matrix, b_free, b_static = _as_matrix(b, b_axes, True)
        product = matmul(a_matrix, b_matrix)
        if isinstance(a_free, list) and isinstance(b_free, list):
            if product.shape.is_fully_defined() and product.shape.as_list() == a_free + b_free:
                return product
            return reshape(product, a_free + b_free, name=scope)
        a_dims = convert_to_tensor(a_free, dtypes.int32)
        b_dims = convert_to_tensor(b_free, dtypes.int32)
        found = reshape(product, concat([a_dims, b_dims], 0), name=scope)
        if a_static is not None and b_static is not None:
            found.set_shape(a_static + b_static)
        return found


def _contracted(a: Tensor, axes: Any) -> tuple[Any, Any]:
    """Summed axes of each input: lists if known, tensors for an unknown rank."""
    if isinstance(axes, int | np.integer):
        count = a.shape.rank
        if axes < 0:
            raise ValueError(f"`axes` must be at least 0. Received: {axes}.")
        if count is None:
            last = array_rank(a)
            return range(last - axes, last, dtype=dtypes.int32), range(axes, dtype=dtypes.int32)
        if axes > count:
            raise ValueError(
                f"`axes` must not be larger than the number of dimensions of tensor {a}.  Received {axes}, vs tensor "
                f"dimensions {count}."
            )
        return [int(i) for i in np.arange(count - axes, count)], [int(i) for i in np.arange(axes)]
    if isinstance(axes, Tensor):
        first: Any = axes
        return first[0], first[1]
    if len(axes) != 2:
        raise ValueError(f"`axes` must be an integer or have length 2. Received {axes}.")
    one, two = ([part] if isinstance(part, int | np.integer) else part for part in axes)
    if len(one) != len(two):
        raise ValueError(f"Different number of contraction axes `a` and `b`, {len(one)} != {len(two)}.")
    return [int(axis) for axis in one], [int(axis) for axis in two]


def _as_matrix(x: Tensor, axes: Any, flipped: bool) -> tuple[Any, Any, Any]:
    """The tensor as a matrix, contracted axes last (first if `flipped`); sizes of the other axes; and their static sizes."""
    rank = x.shape.rank
    if rank is None or isinstance(axes, Tensor):
        return _as_matrix_when_run(x, axes, flipped)
    axes = [int(axis) if axis >= 0 else int(axis) + rank for axis in axes]
    free = [i for i in np.arange(rank).tolist() if i not in axes]
    perm = axes + free if flipped else free + axes
    sizes = x.shape.as_list()
    if x.shape.is_fully_defined():
        known = [int(size) for size in sizes if size is not None]
        left = [known[i] for i in free]
        outer, inner = int(np.prod(left)), int(np.prod([known[i] for i in axes]))
        moved = x if perm == sorted(perm) else transpose(x, perm)
        wanted = [inner, outer] if flipped else [outer, inner]
        return moved if moved.shape.as_list() == wanted else reshape(moved, wanted), left, left
    static = [sizes[i] for i in free]
    axes_tensor = convert_to_tensor(axes, dtypes.int32, name="axes")
    free_tensor = convert_to_tensor(free, dtypes.int32, name="free")
    return *_rearranged(x, array_shape(x), free_tensor, axes_tensor, flipped), static


def _as_matrix_when_run(x: Tensor, axes: TensorLike, flipped: bool) -> tuple[Any, Any, Any]:
    """Like `_as_matrix`, for a rank or axes known only at run time."""
    measured, rank = array_shape(x), array_rank(x)
    axes_tensor = convert_to_tensor(axes, dtypes.int32, name="axes")
    axes_tensor = where_of_one_shape(gen("GreaterEqual")(axes_tensor, 0), axes_tensor, axes_tensor + rank)
    free_tensor = gen("ListDiff")(range(rank), axes_tensor)[0]
    return *_rearranged(x, measured, free_tensor, axes_tensor, flipped), None


def _rearranged(x: Tensor, measured: object, free: Any, axes: TensorLike, flipped: bool) -> tuple[Any, Any]:
    """The tensor as a matrix, and a tensor of the sizes of the axes `free`."""
    free_dims = gen("GatherV2")(measured, free, 0)
    axes_dims = gen("GatherV2")(measured, axes, 0)
    from placesim.tf1.math.reductions import reduce_prod

    outer_size, inner_size = reduce_prod(free_dims), reduce_prod(axes_dims)
    all_axes = concat([axes, free] if flipped else [free, axes], 0)
    wanted_shape = stack([inner_size, outer_size] if flipped else [outer_size, inner_size])
    return reshape(transpose(x, all_axes), wanted_shape), free_dims


def einsum(equation: str, *inputs: TensorLike, **kwargs: object) -> Any:
    """`tf.einsum`: one Einsum for up to two operands."""
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"Invalid keyword arguments for einsum: {', '.join(kwargs)}. Valid arguments: name, optimize, greedy.")
    if len(inputs) > 2:
        raise NotImplementedError("tf.einsum of more than two operands is not there; contract two at a time")
    with name_scope(name, "einsum", [equation, *inputs]):
        return gen("Einsum")(list(inputs), _full_equation(equation, len(inputs)))


def _full_equation(equation: str, count: int) -> str:
    """The equation without blanks, and with its output: by default the labels that occur once, sorted."""
    found = equation.replace(" ", "")
    if found.count(",") != count - 1:
        raise ValueError(f'Got {count} inputs for equation "{equation}", expecting {found.count(",") + 1}')
    if "->" in found:
        return found
    labels = found.replace(",", "").replace("...", "")
    output = "".join(sorted(label for label in set(labels) if labels.count(label) == 1))
    return f"{found}->{'...' if '...' in found else ''}{output}"


def linspace(start: TensorLike, stop: TensorLike, num: TensorLike, name: str | None = None, axis: int = 0) -> Any:
    """`tf.linspace`: `num` points from start to stop."""
    with name_scope(name, "linspace", [start, stop]):
        start = convert_to_tensor(start, name="start")
        stop = convert_to_tensor(stop, start.dtype, name="stop")
        count = convert_to_tensor(num, dtypes.int32, name="num")
        return _points(start, stop, count, axis)


def _points(start: Tensor, stop: TensorLike, num: TensorLike, axis: int) -> Any:
    """First, inner and last points along a new axis; only the first point if `num` is 1."""
    kind = start.dtype
    count = cast_always(num, dtypes.int32)
    cast_always(count, kind)  # TensorFlow makes this op, which nothing reads
    both = gen("BroadcastArgs")(array_shape(start), array_shape(stop))
    start, stop = gen("BroadcastTo")(start, both), gen("BroadcastTo")(stop, both)
    first, last = expand_dims(start, axis), expand_dims(stop, axis)
    sizes: Any = array_shape(first)
    rank = array_shape(sizes)[0]
    axis = where_v2(axis >= 0, axis, rank + axis)
    inner = gen("Maximum")(count - 2, 0)
    steps = gen("Maximum")(count - 1, 1)
    delta = (last - first) / cast_always(steps, kind)
    end = where_v2(count >= 0, steps, -1)
    places = cast_always(range(1, end, dtype=dtypes.int64), kind)
    is_axis = gen("Equal")(axis, range(rank))
    moved = delta * reshape(places, where_v2(is_axis, inner, 1))
    joined = concat((first, first + moved, last), axis)
    begin = zeros_like(sizes)
    size = concat((sizes[0:axis], reshape(count, [1]), sizes[axis + 1 :]), 0)
    return gen("Slice")(joined, begin, size)


def cast_always(x: TensorLike, dtype: DTypeLike) -> Any:
    """Make a Cast even if the tensor has the type."""
    return gen("Cast")(x, dtype)


def polyval(coeffs: Sequence[TensorLike], x: TensorLike, name: str | None = None) -> Any:
    """`tf.math.polyval`: the highest power's coefficient comes first."""
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with name_scope(name, "polyval", [*coeffs, x]) as scope:
        x = convert_to_tensor(x, name="x")
        if not coeffs:
            return zeros_like(x, name=scope)
        parts = [convert_to_tensor(part, name=f"coeff_{i}") for i, part in enumerate(coeffs)]
        found: Any = parts[0]
        for part in parts[1:]:
            found = part + found * x
        return found
