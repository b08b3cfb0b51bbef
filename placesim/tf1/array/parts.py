"""Select and repeat elements: slices, gathers, masks and conditions."""

from __future__ import annotations

from typing import Any

import numpy as np

from placesim.tf1.array.creation import ones, zeros
from placesim.tf1.array.shaping import concat, expand_dims, rank, reshape, shape, squeeze, stack
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike, is_ragged
from placesim.tf1.math.reductions import reduce_sum, reduction_axes
from placesim.tf1.ops.arguments import renamed
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


def slice(input_: object, begin: TensorLike, size: TensorLike, name: str | None = None) -> Any:
    """`tf.slice`."""
    return gen("Slice")(input_, begin, size, name=name)


def gather(
    params: TensorLike,
    indices: TensorLike,
    validate_indices: object = None,
    name: str | None = None,
    axis: TensorLike | None = None,
    batch_dims: int = 0,
) -> Any:
    """`tf.gather`; of a resource variable, only the needed rows are read."""
    if is_ragged(params) or is_ragged(indices):
        from placesim.tf1.ragged.computing import gather as gather_rows  # few scripts have ragged tensors

        return gather_rows(params, indices, axis, batch_dims, name)
    if axis is None:
        axis = batch_dims
    known = constant_value(axis) if isinstance(axis, Tensor) else axis
    if known != 0:
        return gen("GatherV2")(params, indices, axis, batch_dims=batch_dims, name=name)
    if hasattr(params, "sparse_read"):
        try:
            return params.sparse_read(indices, name=name)
        except AttributeError:
            pass  # a reference variable, which is read like a tensor
    return gen("GatherV2")(params, indices, axis, name=name)


def gather_nd(
    params: TensorLike, indices: TensorLike, name: str | None = None, batch_dims: object = 0, bad_indices_policy: str = ""
) -> Any:
    """`tf.gather_nd`."""
    if batch_dims != 0:
        raise NotImplementedError(
            "tf.gather_nd with batch_dims is not there; gather along reshaped indices, or `convert` the "
            "GraphDef that TensorFlow writes"
        )
    if hasattr(params, "gather_nd"):
        try:
            return params.gather_nd(indices, name=name)
        except AttributeError:
            pass
    return gen("GatherNd")(params, indices, name=name, bad_indices_policy=bad_indices_policy)


def batch_gather(params: TensorLike, indices: TensorLike, name: str | None = None) -> Any:
    """`tf.batch_gather`."""
    with name_scope(name, "BatchGather", [params, indices]):
        indices = convert_to_tensor(indices, name="indices")
        params = convert_to_tensor(params, name="params")
        if indices.shape.rank is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        return _gathered_in_batches(params, indices, indices.shape.rank)


def _gathered_in_batches(params: Tensor, indices: Tensor, count: int) -> Any:
    """Gather along axis `count - 1`, with all axes before it as batch axes; `params` is flattened over these `count` axes."""
    indices_shape, params_shape = shape(indices), shape(params)
    kind = indices.dtype.base_dtype
    places: Any = indices
    step = ones((), kind)
    sizes = gen("Cast")(params_shape, kind)
    for axis in reversed(np.arange(1, count).tolist()):
        length = sizes[axis - 1]
        step *= sizes[axis]
        start, one = zeros((), kind), ones((), kind)
        starts = gen("Range")(start, length, one) * step
        places += reshape(starts, stack([1] * (axis - 1) + [length] + [1] * (count - axis)))
    flat = reshape(places, [-1])
    outer = params_shape[count:]
    inner = gen("Prod")(params_shape[:count], [0], False)
    found = gather(reshape(params, concat([[inner], outer], 0)), flat)
    found = reshape(found, concat([indices_shape, outer], 0))
    static = indices.shape[: count - 1].merge_with(params.shape[: count - 1])
    found.set_shape(static.concatenate(indices.shape[count - 1 : count]).concatenate(params.shape[count:]))
    return found


def boolean_mask(tensor: Any, mask: TensorLike, name: str | None = "boolean_mask", axis: Any = None) -> Any:
    """`tf.boolean_mask`."""
    with name_scope(name, values=[tensor, mask]):
        tensor = convert_to_tensor(tensor, name="tensor")
        mask = convert_to_tensor(mask, name="mask")
        known = mask.shape.rank
        if known == 0:
            raise ValueError("mask cannot be scalar.")
        if known is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions are None.  E.g. shape=[None] is ok, but "
                "shape=None is not."
            )
        found = constant_value(0 if axis is None else axis)
        static, axis = tensor.shape, axis if found is None else int(found)
        if found is not None:
            static[axis : axis + known].assert_is_compatible_with(mask.shape)
        # a tensor as axis makes an addition for each bound
        count = gen("Prod")(shape(tensor)[axis : axis + known], [0])
        tensor = reshape(tensor, concat([shape(tensor)[:axis], [count], shape(tensor)[axis + known :]], 0))
        if found is not None:
            last = axis + known
            first = static[axis:last].num_elements()
            tensor.set_shape(TensorShape(static[:axis]).concatenate([first]).concatenate(static[last:]))
        flat = reshape(mask, [-1])
        places = squeeze(where_v2(flat), [1])
        return gather(tensor, places, axis=axis)


def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, name: str | None = None) -> Any:
    """`tf.where`."""
    return _where("Select", condition, x, y, name)


def where_v2(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, name: str | None = None) -> Any:
    """`tf.where_v2`: like `where`, with broadcasting."""
    return _where("SelectV2", condition, x, y, name)


def _where(op: str, condition: TensorLike, x: TensorLike | None, y: TensorLike | None, name: str | None) -> Any:
    if x is None and y is None:
        with name_scope(name, "Where", [condition]) as scope:
            condition = convert_to_tensor(condition, preferred_dtype=dtypes.bool_, name="condition")
            return gen("Where")(condition, name=scope)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return gen(op)(condition, x, y, name=name)


def reverse_sequence(
    input: TensorLike,
    seq_lengths: object,
    seq_axis: object = None,
    batch_axis: object = None,
    name: str | None = None,
    seq_dim: object = None,
    batch_dim: object = None,
) -> Any:
    """`tf.reverse_sequence`."""
    seq_axis = renamed("seq_axis", seq_axis, "seq_dim", seq_dim)
    batch_axis = renamed("batch_axis", batch_axis, "batch_dim", batch_dim)
    return gen("ReverseSequence")(input, seq_lengths, seq_axis, 0 if batch_axis is None else batch_axis, name=name)


def setdiff1d(x: TensorLike, y: TensorLike, index_dtype: object = dtypes.int32, name: str | None = None) -> Any:
    """`tf.setdiff1d`."""
    return gen("ListDiff")(x, y, index_dtype, name=name)


def repeat(input: TensorLike, repeats: TensorLike, axis: int | None = None, name: str | None = None) -> Any:
    """`tf.repeat`: repeat each element `repeats` times along an axis; without an axis, in the flattened tensor."""
    if axis is None:
        input, axis = reshape(input, [-1]), 0
    with name_scope(name, "Repeat", [input, repeats]):
        data = convert_to_tensor(input, name="data")
        times = convert_to_tensor(repeats, name="repeats")
        if not times.dtype.is_integer:
            raise TypeError(
                f"Argument `tensor` (name: repeats) must be of type integer. Received `tensor` = {times} of dtype: "
                f"{times.dtype}"
            )
        times = gen("Cast")(times, dtypes.int32)
        times.shape.with_rank_at_most(1)
        sizes = shape(data, out_type=times.dtype)
        axis = _positive_axis(axis, data.shape.rank)
        if times.shape.num_elements() == 1:
            times = reshape(times, [])
            wide = _tiled(expand_dims(data, axis + 1), axis + 1, times)
            return reshape(wide, concat([sizes[:axis], [times * sizes[axis]], sizes[axis + 1 :]], 0))
        return _repeated(data, times, sizes, axis)


def _positive_axis(axis: int, known: int | None) -> int:
    if known is None:
        raise NotImplementedError("tf.repeat of a tensor of unknown rank is not there; set its shape")
    if not -known <= axis < known:
        raise ValueError(f"axis={axis} out of bounds: expected {-known}<=axis<{known}")
    return axis if axis >= 0 else axis + known


def _tiled(data: Any, axis: int, times: object) -> Any:
    multiples: list[Any] = [1] * data.shape.rank
    multiples[axis] = times
    return gen("Tile")(data, multiples)


def _repeated(data: Tensor, times: Tensor, sizes: Tensor, axis: int) -> Any:
    """Repeat element i `times[i]` times: tile all elements by the largest number, then mask out the excess."""
    if times.shape.rank == 1:
        data.shape.dims[axis].assert_is_compatible_with(times.shape[0])  # type: ignore[index]
        times = gen("BroadcastTo")(times, [sizes[axis]])
    each = times
    if times.shape.rank != axis + 1:
        own, count = shape(times), rank(times)
        times = gen("BroadcastTo")(times, concat([sizes[: axis + 1 - count], own], 0))
        times.set_shape([None] * (axis + 1))
    most = gen("Max")(times, reduction_axes(times, None))
    most = gen("Maximum")(constant(0, dtypes.int32, name="zero"), most)
    mask = sequence_mask(times, most)
    found = boolean_mask(_tiled(expand_dims(data, axis + 1), axis + 1, most), mask)
    if axis:
        total = reduce_sum(each, gen("Range")(0, rank(each), 1))
        found = reshape(found, concat([sizes[:axis], [total], sizes[axis + 1 :]], 0))
    one = 1 if times.shape[0].value == 1 else None
    found.set_shape(data.shape[:axis].concatenate([one]).concatenate(data.shape[axis + 1 :]))
    return found


def sequence_mask(
    lengths: TensorLike, maxlen: Any = None, dtype: DTypeLike | None = dtypes.bool_, name: str | None = None
) -> Tensor:
    """`tf.sequence_mask`."""
    with name_scope(name, "SequenceMask", [lengths, maxlen]):
        lengths = convert_to_tensor(lengths)
        if maxlen is None:
            # here TensorFlow makes a Const of the axes even for a scalar
            all_axes = constant([], dtypes.int32) if lengths.shape.rank == 0 else reduction_axes(lengths, None)
            maxlen = gen("Max")(lengths, all_axes)
            maxlen = gen("Maximum")(constant(0, maxlen.dtype), maxlen)
        else:
            maxlen = convert_to_tensor(maxlen)
        if maxlen.shape.rank not in (None, 0):
            raise ValueError(
                f"Argument `maxlen` must be scalar for sequence_mask, received `maxlen` = {maxlen} with shape "
                f"'{maxlen.shape}' instead"
            )
        row = gen("Range")(constant(0, maxlen.dtype), maxlen, constant(1, maxlen.dtype))
        column = gen("Cast")(expand_dims(lengths, -1), maxlen.dtype)
        found: Tensor = row < column
        if dtype is None or found.dtype.is_compatible_with(dtype):
            return found
        return gen("Cast")(found, dtype)  # type: ignore[no-any-return]
