"""`tf.TensorArray` for version 2 control flow: a tensor list, which is also the array's flow."""

from __future__ import annotations

from typing import Any

from placesim.tf1.control_flow.tensor_arrays import TensorArray, build_with_flow
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.math.casting import cast
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes
from placesim.tf1.types.shapes import TensorShape


def element_shape_argument(shape: TensorShape) -> Any:
    """Shape argument of list ops: -1 for an unknown rank, a new Const for a scalar."""
    if shape.rank is None:
        return -1
    # a Python list, which the op turns into a Const of its own
    sizes = [-1 if size is None else size for size in shape.as_list()]
    return sizes or constant([], dtypes.int32)


class TensorListArray(TensorArray):
    """Array implemented as a tensor list; each write returns a new list."""

    def __init__(
        self,
        dtype: DTypeLike,
        size: int | Tensor | None = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: object = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: ShapeLike | None = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if handle is None and flow is None and size is None:
            raise ValueError("Argument `size` must be provided if argument `flow` is not provided.")
        if flow is not None and size is not None:
            raise ValueError("Cannot provide both `flow` and `size` arguments at the same time.")
        # a list is a value and lives where it is made, so nothing is colocated with it
        self._describe(dtype, size, dynamic_size, infer_shape, element_shape, colocates=False)
        with name_scope(name, "TensorArrayV2", [size, flow]) as scope:
            if flow is not None:
                self._flow = flow
                return
            shape = element_shape_argument(self.element_shape)
            self._flow = gen("TensorListReserve")(shape, size, self._dtype, name=scope)

    @property
    def handle(self) -> Any:
        return None

    _handle = handle

    @property
    def op(self) -> Operation:
        return self._flow.op

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        raise NotImplementedError

    def read(self, index: Any, name: str | None = None) -> Tensor:
        with name_scope(name, "TensorArrayV2Read", [self._flow, index]):
            shape = element_shape_argument(self.element_shape)
            found: Tensor = gen("TensorListGetItem")(self._flow, index, shape, self._dtype, name=name)
            return found

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        with name_scope(name, "TensorArrayV2Write", [self._flow, index, value]):
            tensor = self._converted(value, is_stacked=False)
            flow = gen("TensorListSetItem")(
                self._flow, index, tensor, resize_if_index_out_of_bounds=self._dynamic_size, name=name
            )
            return build_with_flow(self, flow)

    def scatter(self, indices: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        with name_scope(name, "TensorArrayScatter", [self._flow, value, indices]):
            tensor = self._converted(value, is_stacked=True)
            flow = gen("TensorListScatterIntoExistingList")(self._flow, tensor, indices, name=name)
            return build_with_flow(self, flow)

    def stack(self, name: str | None = None) -> Tensor:
        with name_scope(name, "TensorArrayV2Stack", [self._flow]):
            known = self._known_size()
            shape = element_shape_argument(self.element_shape)
            found: Tensor = gen("TensorListStack")(self._flow, shape, self._dtype, -1 if known is None else known, name=name)
            return found

    def gather(self, indices: TensorLike, name: str | None = None) -> Tensor:
        shape = element_shape_argument(self.element_shape)
        found: Tensor = gen("TensorListGather")(self._flow, indices, shape, self._dtype, name=name)
        return found

    def concat(self, name: str | None = None) -> Tensor:
        known = self.element_shape
        # elements may differ in their first dimension
        shape = TensorShape(None if known.rank is None else [None, *known.as_list()[1:]])
        found: Tensor = gen("TensorListConcatV2")(
            self._flow, element_shape_argument(shape), constant([], dtypes.int64), self._dtype, name=name
        )[0]
        return found

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        with name_scope(name, "TensorArrayUnstack", [self._flow, value]):
            tensor = self._converted(value, is_stacked=True)
            flow = gen("TensorListFromTensor")(tensor, element_shape_argument(tensor.shape[1:]))
            return build_with_flow(self, flow)

    def split(self, value: TensorLike, lengths: Any, name: str | None = None) -> TensorArray:
        with name_scope(name, "TensorArraySplit", [self._flow, value, lengths]):
            tensor = self._converted(value)
            lengths = cast(lengths, dtypes.int64)
            self._merge_lengths(tensor, lengths)
            flow = gen("TensorListSplit")(tensor, element_shape_argument(self.element_shape), lengths, name=name)
            return build_with_flow(self, flow)

    def size(self, name: str | None = None) -> Tensor:
        if not self._dynamic_size and self._size is not None:
            return convert_to_tensor(self._size, dtypes.int32)
        found: Tensor = gen("TensorListLength")(self._flow, name=name)
        return found

    def close(self, name: str | None = None) -> Operation:
        # a list is freed with its last reader
        found: Operation = gen("NoOp")(name=name)
        return found


TensorArray.version_2 = TensorListArray
