"""Slices of tensors by Python's index syntax, such as `x[1:, 0]`."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike, TypedTensor
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.dimensions import Dimension

_NO_INDEX = (
    "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid indices"
)
_INDEX_TYPES = (dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8)


class Spec:
    """An index in the form of StridedSlice: three vectors, and masks."""

    def __init__(self, key: Any) -> None:
        self.begin: list[Any] = []
        self.end: list[Any] = []
        self.strides: list[Any] = []
        self.masks = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)
        for index, part in enumerate(key if isinstance(key, list | tuple) else [key]):
            self._take(part, 1 << index)

    def _take(self, part: Any, bit: int) -> None:
        if isinstance(part, slice):
            self._take_slice(part, bit)
        elif part is Ellipsis:
            self._add(0, 0, 1, "ellipsis_mask", bit)
        elif part is None:
            self._add(0, 0, 1, "new_axis_mask", bit)
        else:
            _check_index(part)
            is_long = isinstance(part, Tensor) and part.dtype.base_dtype is dtypes.int64
            self._add(part, part + 1, constant(1, dtypes.int64) if is_long else 1, "shrink_axis_mask", bit)

    def _add(self, begin: TensorLike, end: object, stride: object, mask: str = "", bit: int = 0) -> None:
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)
        if mask:
            self.masks[mask] |= bit

    def _take_slice(self, part: slice, bit: int) -> None:
        given = [part.start, part.stop, part.step]
        for value in given:
            if value is not None:
                _check_index(value)
        self.masks["begin_mask"] |= bit if given[0] is None else 0
        self.masks["end_mask"] |= bit if given[1] is None else 0
        kind = next((value.dtype.base_dtype for value in given if isinstance(value, Tensor)), None)
        for i, default in enumerate((0, 0, 1)):
            if given[i] is None:  # the default has the type of a tensor in the slice
                given[i] = default if kind is None else constant(default, kind)
        self._add(*given)


def _check_index(value: TensorLike) -> None:
    if isinstance(value, numbers.Integral | Dimension):
        return
    dtype = getattr(value, "dtype", None)
    try:
        is_index = dtype is not None and dtypes.as_dtype(dtype).base_dtype in _INDEX_TYPES
    except TypeError:
        is_index = False
    shape = getattr(value, "shape", None)
    rank = getattr(shape, "rank", None) if not isinstance(shape, tuple) else len(shape)
    if not is_index or rank == 1:
        raise TypeError(f"{_NO_INDEX}, got {value!r}")


def slice_tensor(tensor: TypedTensor, key: object, var: object = None) -> Any:
    """`tensor[key]`; a boolean tensor or array is a mask.  Raises TypeError for an invalid index."""
    if (
        isinstance(key, bool)
        or (isinstance(key, Tensor) and key.dtype.base_dtype is dtypes.bool_)
        or (isinstance(key, np.ndarray) and key.dtype == bool)
    ):
        from placesim.tf1.array.parts import boolean_mask

        return boolean_mask(tensor, key)
    spec = Spec(key)
    with name_scope(None, "strided_slice", [tensor]) as scope:
        begin, end, strides = _packed(spec)
        masks: dict[str, Any] = spec.masks
        return strided_slice(tensor, begin, end, strides, name=scope, **masks)


def _packed(spec: Spec) -> list[Any]:
    from placesim.tf1.array.shaping import stack
    from placesim.tf1.math.casting import cast

    if not spec.begin:
        empty = constant([], dtypes.int32)
        return [empty, empty, empty]
    packed = [stack(part) for part in (spec.begin, spec.end, spec.strides)]
    kinds = {tensor.dtype.base_dtype for tensor in packed}
    if len(kinds) > 1 and dtypes.int64 in kinds:
        packed = [tensor if tensor.dtype.base_dtype is dtypes.int64 else cast(tensor, dtypes.int64) for tensor in packed]
    return packed


def strided_slice(
    input_: object,
    begin: TensorLike,
    end: object,
    strides: object = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: object = None,
    name: str | None = None,
) -> Any:
    """`tf.strided_slice`."""
    if strides is None:
        from placesim.tf1.array.creation import ones_like

        strides = ones_like(begin)
    return gen("StridedSlice")(
        input_, begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask, name=name
    )
