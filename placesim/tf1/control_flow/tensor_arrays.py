"""`tf.TensorArray`: tensors of one type, written and read by index.  Each write returns a new TensorArray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from placesim.tf1.control_flow.versions import is_version_2
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import dtypes, nest
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape


class _Contents:
    """State shared by all arrays of one handle: the known element shape, and the colocation."""

    def __init__(self, element_shape: TensorShape) -> None:
        self.element_shape = element_shape
        self.colocated_with: Tensor | None = None


class TensorArray:
    """An array of `size` tensors; `flow` orders its reads and writes."""

    version_2: ClassVar[type[TensorArray]]
    """Class of arrays implemented as tensor lists, set by its module."""

    def __new__(cls, *args: object, **kwargs: object) -> TensorArray:
        """With version 2 control flow, make a TensorListArray."""
        if cls is TensorArray and is_version_2():
            return super().__new__(TensorArray.version_2)
        return super().__new__(cls)

    def __init__(
        self,
        dtype: DTypeLike,
        size: int | Tensor | None = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: ShapeLike | None = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        self._check(handle, size, dynamic_size, clear_after_read, tensor_array_name, element_shape)
        self._describe(dtype, size, dynamic_size, infer_shape, element_shape, colocate_with_first_write_call)
        self._handle: Tensor
        self._flow: Tensor
        with name_scope(name, "TensorArray", [handle, size, flow]) as scope:
            # an array around an existing handle makes no op, except a flow if none is given
            if handle is not None:
                self._handle = handle
                self._flow = constant_flow() if flow is None else flow
                return
            # None means True; an explicit value is refused together with a handle
            clears = True if clear_after_read is None else clear_after_read
            graph = get_default_graph()
            with ExitStack() as scopes:
                if self._is_colocated:
                    # the first written value determines its device
                    scopes.enter_context(graph.device(None))
                    scopes.enter_context(graph.colocate_with(None, ignore_existing=True))
                self._handle, self._flow = gen("TensorArrayV3")(
                    size=size,
                    dtype=self._dtype,
                    element_shape=self._contents.element_shape,
                    identical_element_shapes=infer_shape,
                    dynamic_size=self._dynamic_size,
                    clear_after_read=clears,
                    tensor_array_name=tensor_array_name or "",
                    name=scope,
                )

    def _describe(
        self,
        dtype: DTypeLike,
        size: int | Tensor | None,
        dynamic_size: bool | None,
        infer_shape: bool,
        element_shape: ShapeLike | None,
        colocates: bool,
    ) -> None:
        self._dynamic_size = bool(dynamic_size)
        self._size = size
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        # a given element shape is always checked
        self._infers_shape = infer_shape or element_shape is not None
        self._is_colocated = colocates
        # shared by the copies that writes return: all are one array
        self._contents = _Contents(TensorShape(element_shape))

    @staticmethod
    def _check(
        handle: object,
        size: int | Tensor | None,
        dynamic_size: object,
        clears: object,
        array_name: object,
        element_shape: ShapeLike | None,
    ) -> None:
        if handle is not None:
            for value, word in ((array_name, "tensor_array_name"), (size, "size"), (dynamic_size, "dynamic_size")):
                if value:
                    raise ValueError(f"Cannot provide both a `handle` and `{word}` arguments at the same time.")
            if clears is not None:
                raise ValueError("Cannot provide both `handle` and `clear_after_read` arguments at the same time.")
            if not isinstance(handle, Tensor):
                raise TypeError(f"Expected `handle` to be a Tensor, but got `{handle}` of type `{type(handle)}` instead.")
        elif size is None:
            raise ValueError("Argument `size` must be provided if handle is not provided.")

    flow: Tensor = read_only("_flow")
    dtype: dtypes.DType = read_only("_dtype")
    dynamic_size: bool = read_only("_dynamic_size")
    element_shape: TensorShape = read_only("_contents.element_shape")

    @property
    def handle(self) -> Tensor:
        return self._handle

    @property
    def op(self) -> Operation:
        return self._handle.op

    def _merge_element_shape(self, shape: TensorShape) -> None:
        if not self._infers_shape:
            return
        known = self._contents.element_shape
        if not shape.is_compatible_with(known):
            raise ValueError(f"Inconsistent shapes: saw {shape} but expected {known} ")
        self._contents.element_shape = known.merge_with(shape)

    @contextmanager
    def _beside(self, value: Tensor) -> Iterator[None]:
        """Context whose ops are colocated with the first written value."""
        if not self._is_colocated:
            yield
            return
        if self._contents.colocated_with is None:
            self._contents.colocated_with = value
        with get_default_graph().colocate_with(self._contents.colocated_with):
            yield

    def identity(self) -> TensorArray:
        """The same array, with the current control dependencies."""
        return build_with_flow(self, gen("Identity")(self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """The array of the gradients with respect to this array's elements."""
        flow = self._flow if flow is None else flow
        graph = get_default_graph()
        with name_scope(name, "TensorArrayGrad", [self._handle]), graph.colocate_with(self._handle):
            handle, _ = gen("TensorArrayGradV3")(handle=self._handle, source=source, flow_in=flow, name=name)
            # the gradient array must exist before anything is written to it
            with graph.control_dependencies([handle]):
                after = gen("Identity")(flow, name="gradient_flow")
            found = TensorArray(
                self._dtype, handle=handle, flow=after, infer_shape=self._infers_shape, colocate_with_first_write_call=False
            )
            found._contents.element_shape = self._contents.element_shape
            return found

    def read(self, index: object, name: str | None = None) -> Tensor:
        """The element at an index."""
        found: Tensor = gen("TensorArrayReadV3")(
            handle=self._handle, index=index, flow_in=self._flow, dtype=self._dtype, name=name
        )
        if self.element_shape.rank is not None:
            found.set_shape(self.element_shape)
        return found

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """The array after writing an element."""
        return self._filled("TensorArrayWrite", name, value, is_stacked=False, index=index)

    def scatter(self, indices: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """The array after writing the parts of a tensor, split along its first dimension."""
        return self._filled("TensorArrayScatter", name, value, is_stacked=True, indices=indices)

    def _filled(self, word: str, name: str | None, value: TensorLike, is_stacked: bool, **places: TensorLike) -> TensorArray:
        """The array after an op that writes a value."""
        with name_scope(name, word, [self._handle, value, *places.values()]):
            tensor = self._converted(value, is_stacked)
            with self._beside(tensor):
                flow = gen(word + "V3")(handle=self._handle, value=tensor, flow_in=self._flow, name=name, **places)
            return build_with_flow(self, flow)

    def _converted(self, value: TensorLike, is_stacked: bool | None = None) -> Tensor:
        """Convert a value to write: one element or stacked elements.  If `is_stacked` is None, the known element shape stays.

        Raises ValueError for another type, or another shape than earlier elements.
        """
        tensor = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
        if tensor.dtype.base_dtype is not self._dtype:
            raise ValueError(f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype {tensor.dtype.name} ")
        if is_stacked is not None:
            self._merge_element_shape(tensor.shape[1:] if is_stacked else tensor.shape)
        return tensor

    def stack(self, name: str | None = None) -> Tensor:
        """All elements, stacked."""
        from placesim.tf1.array.creation import range as range_of

        with get_default_graph().colocate_with(self._handle), name_scope(name, "TensorArrayStack", [self._handle]):
            found = self.gather(range_of(0, self.size()), name=name)
            if self.element_shape.rank is not None:
                found.set_shape([self._known_size(), *self.element_shape.as_list()])
            return found

    def _known_size(self) -> int | None:
        if self._dynamic_size or self._size is None:
            return None
        size = constant_value(self._size) if isinstance(self._size, Tensor) else self._size
        return None if size is None else int(size)

    def gather(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """The elements at the indices, stacked."""
        found: Tensor = gen("TensorArrayGatherV3")(
            handle=self._handle,
            indices=indices,
            flow_in=self._flow,
            dtype=self._dtype,
            element_shape=self.element_shape,
            name=name,
        )
        if self.element_shape.rank is not None:
            found.set_shape([None, *self.element_shape.as_list()])
        return found

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, concatenated along their first dimension."""
        known = self.element_shape
        rest = None if known.rank is None else known.as_list()[1:]
        found: Tensor
        found, _ = gen("TensorArrayConcatV3")(
            handle=self._handle, flow_in=self._flow, dtype=self._dtype, element_shape_except0=TensorShape(rest), name=name
        )
        if rest is not None:
            length = None
            # otherwise elements may differ in length, so their number tells nothing
            if self._infers_shape:
                count = constant_value(self.size())
                first = known.as_list()[0]
                length = None if count is None or first is None else int(count) * first
            found.set_shape([length, *rest])
        return found

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """The array of a tensor's parts along its first dimension."""
        from placesim.tf1.array.creation import range as range_of
        from placesim.tf1.array.shaping import shape

        with name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            return self.scatter(range_of(0, shape(value)[0]), value, name=name)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array of a tensor's pieces, which have these lengths along its first dimension."""
        from placesim.tf1.math.casting import cast

        with name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = convert_to_tensor(value, dtype=self._dtype, name="value")
            with self._beside(value):
                lengths = cast(lengths, dtypes.int64)
                self._merge_lengths(value, lengths)
                flow = gen("TensorArraySplitV3")(
                    handle=self._handle, value=value, lengths=lengths, flow_in=self._flow, name=name
                )
            return build_with_flow(self, flow)

    def _merge_lengths(self, value: Tensor, lengths: Tensor) -> None:
        """If all pieces of a tensor have one length, make it the first dimension of the element shape."""
        known = constant_value(lengths)
        if value.shape.rank is not None and known is not None and known.size and known.max() == known.min():
            self._merge_element_shape(TensorShape([int(known.flat[0]), *value.shape.as_list()[1:]]))

    def size(self, name: str | None = None) -> Tensor:
        """Number of elements."""
        # the number is known, so TensorFlow makes no op for it
        if not self._dynamic_size and self._size is not None:
            return convert_to_tensor(self._size, dtypes.int32)
        found: Tensor = gen("TensorArraySizeV3")(handle=self._handle, flow_in=self._flow, name=name)
        return found

    def close(self, name: str | None = None) -> Operation:
        """Free the memory."""
        found: Operation = gen("TensorArrayCloseV3")(handle=self._handle, name=name)
        return found


def constant_flow() -> Tensor:
    """The flow of an array that was made from a handle alone."""
    # a flow is a float without a meaning: only its edges count
    return convert_to_tensor(0.0, dtypes.float32)


def build_with_flow(array: TensorArray, flow: Tensor) -> TensorArray:
    """Copy an array, with another flow."""
    with name_scope(None, "TensorArray" if array.handle is not None else "TensorArrayV2", [array.handle, None, flow]):
        # TensorFlow opens this scope for its new array, and makes no op
        pass
    found = object.__new__(type(array))
    found.__dict__.update(array.__dict__)
    found._flow = flow
    return found


def pack_with_flows(structure: object, tensors: Sequence[Tensor]) -> Any:
    """Pack tensors into a structure.  In place of a TensorArray, pack a copy of it whose flow is the tensor."""
    leaves = nest.flatten(structure, expand_composites=True)
    found = [
        build_with_flow(leaf, tensor) if isinstance(leaf, TensorArray) else tensor
        for leaf, tensor in zip(leaves, tensors, strict=True)
    ]
    return nest.pack_sequence_as(structure, found, expand_composites=True)
