"""Resources that one op makes and others use: how they are named, and how a handle of either form is followed.

The newer ops hand on a `ResourceHandle`, the older ones a ref to two strings (container and name).  Source: TensorFlow's
container rules (`shared_name`, else the node's name where the op asks for it, else a name that only this node knows).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import RESOURCE, STRING, VARIANT, DataType
from placesim.core.errors import InvalidArgumentError, NotFoundError
from placesim.core.protobuf_wire import message_field, number_field
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.abstract_tensor import Sketch, as_array, stacked
from placesim.ops.kernels.device_resources import TYPE_HASHES, ResourceHandle, VariableResource
from placesim.ops.kernels.kernel import Compute, Kernel, KernelContext, Table
from placesim.ops.kernels.memory_rules import MemoryRule
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeFunction, format_dims, scalar, with_rank, with_value
from placesim.ops.kernels.string_tensors import flat_strings, string_array

DEFAULT_CONTAINER, STEP_CONTAINER = "localhost", "__per_step_0"
"""Containers of resources without one, and of resources that last for one step."""
VALID_CONTAINER = re.compile(r"[A-Za-z0-9.][A-Za-z0-9\-./]*")

Finder = Callable[[Any, KernelContext], Any]
"""Function that follows a handle of either form."""


def name_resource(attrs: Attrs, context: KernelContext, kind: str, by_node: bool = False) -> ResourceHandle:
    """The handle of the resource that attrs `container` and `shared_name` name; InvalidArgumentError for names not allowed.

    `kind` is its C++ type; `by_node`: nodes of one name share it where `shared_name` is empty.
    """
    container, shared = attrs["container"], attrs["shared_name"]
    if container and not VALID_CONTAINER.fullmatch(container):
        raise InvalidArgumentError(f"container contains invalid characters: {container}")
    # such names are what a resource private to its node gets
    if shared.startswith("_"):
        raise InvalidArgumentError(f"shared_name cannot start with '_':{shared}")
    name = shared or (context.node if by_node else _private_name(context))
    return ResourceHandle(context.device, container or DEFAULT_CONTAINER, name, kind)


def _private_name(context: KernelContext) -> str:
    found: str | None = context.node_state.get("resource_name")
    if found is None:
        found = context.node_state["resource_name"] = context.resources.private_name(context.node)
    return found


def strings_of(handle: ResourceHandle) -> VariableResource:
    """A ref to the two strings by which the older ops know a resource."""
    return VariableResource(handle.name, STRING, string_array([handle.container.encode(), handle.name.encode()], (2,)))


def handle_of(holder: Any, kind: str, device: str) -> ResourceHandle:
    """The handle behind a handle of either form: itself, `[2]` strings, or a variable of them.

    InvalidArgumentError if it is no pair of strings.
    """
    if isinstance(holder, ResourceHandle):
        return holder
    strings = np.asarray(holder.value if isinstance(holder, VariableResource) else holder, object)
    # a handle that went through an op as a tensor of one element
    if strings.dtype == object and strings.size == 1 and isinstance(strings.reshape(-1)[0], ResourceHandle):
        found: ResourceHandle = strings.reshape(-1)[0]
        return found
    if strings.size != 2:
        raise InvalidArgumentError(f"Resource handle must have 2 elements, but had shape: {format_dims(strings.shape)}")
    # strings do not tell the device: it is the one that asks
    container, name = (text.decode(errors="backslashreplace") for text in flat_strings(strings))
    return ResourceHandle(device, container, name, kind)


def build_finder(kind: str) -> Finder:
    """Function that looks up the resource of this C++ type by a handle of either form.

    InvalidArgumentError for a handle of another type, NotFoundError if there is none (the older form tells no type).
    """

    def find(holder: Any, context: KernelContext) -> Any:
        return context.resources.lookup(handle_of(holder, kind, context.device), kind)

    return find


def make_anonymous(context: KernelContext, kind: str, label: str, make: Callable[[], Any]) -> ResourceHandle:
    """The handle of a new resource of this C++ type that no name leads to."""
    handle = ResourceHandle(context.device, DEFAULT_CONTAINER, context.resources.private_name(label), kind)
    context.resources.lookup_or_create(handle, make, is_anonymous=True)
    return handle


def find_in_step(key: str, kind: str, context: KernelContext) -> Any:
    """Resource of this step by key (container and name); raises NotFoundError if it is missing."""
    found = context.step_resources.get(key)
    if found is None:
        raise NotFoundError(f"Resource {STEP_CONTAINER}/{key}/{kind} does not exist.")
    return found


def serialise_handle(handle: ResourceHandle) -> bytes:
    """A handle as a `ResourceHandleProto`."""
    texts = ((1, handle.device), (2, handle.container), (3, handle.name))
    found = b"".join(message_field(field, text.encode("utf-8", "surrogateescape")) for field, text in texts)
    found += number_field(4, TYPE_HASHES.get(handle.type, 0)) + message_field(5, handle.type.encode())
    if handle.dtype is None:
        return found
    dims = handle.tensor_shape.dims
    sizes = number_field(3, 1) if dims is None else b"".join(message_field(2, number_field(1, dim)) for dim in dims)
    return found + message_field(6, number_field(1, handle.dtype.number) + message_field(2, sizes))


def both_forms(make: Callable[..., ResourceHandle]) -> tuple[Compute, Compute]:
    """Kernels of the older op, which returns strings, and the newer one, from `(inputs, attrs, context) -> handle`."""

    def give_strings(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        return (strings_of(make(inputs, attrs, context)),)

    def give_handle(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        return (make(inputs, attrs, context),)

    return give_strings, give_handle


def makers(older: str, newer: str, make: Callable[..., ResourceHandle], infer_newer: ShapeFunction = scalar) -> Table:
    """The rows of the two ops that make a resource, from `(inputs, attrs, context) -> handle`."""
    give_strings, give_handle = both_forms(make)
    return {
        older: Kernel(give_strings, infer_two_strings, needs_context=True),
        newer: Kernel(give_handle, infer_newer, needs_context=True),
    }


def users(
    older: str,
    newer: str,
    compute: Compute,
    infer_older: ShapeFunction,
    infer_newer: ShapeFunction,
    may_wait: bool = False,
    memory: MemoryRule | None = None,
) -> Table:
    """The rows of the two ops that use a resource by a handle of either form, and so compute alike."""
    return {
        older: Kernel(compute, infer_older, needs_context=True, may_wait=may_wait, memory=memory),
        newer: Kernel(compute, infer_newer, needs_context=True, may_wait=may_wait, memory=memory),
    }


def check_signature(
    holder: Any, types: tuple[Sequence[DataType], Sequence[DataType]], expected: tuple[Sequence[DataType], Sequence[DataType]]
) -> None:
    """InvalidArgumentError unless an op's types, of inputs after the handle and of outputs, are those its resource expects."""
    if [tuple(side) for side in types] == [tuple(side) for side in expected]:
        return
    handle = "resource" if isinstance(holder, ResourceHandle) else "string_ref"
    sides = [
        # the handle stands first on both sides: a string until its name takes its place
        f"{types_text((STRING, *given))}->{types_text(made)}".replace("string", handle, 1)
        for given, made in (types, expected)
    ]
    raise InvalidArgumentError(f"Signature mismatch, have: {sides[0]} expected: {sides[1]}")


def types_text(dtypes: Sequence[DataType]) -> str:
    """`int64, string`."""
    return ", ".join(dtype.name for dtype in dtypes)


def shapes_text(shapes: Sequence[Dims]) -> str:
    """`[[2,?], []]`."""
    return "[" + ", ".join(map(format_dims, shapes)) + "]"


# --- values of any type in collections ------------------------------------------------------------------------------


def slices(value: Any, dtype: DataType) -> list[Any]:
    """A tensor `[n, ...]` cut along its first axis; a scalar resource or variant is the object itself."""
    if isinstance(value, Sketch):
        return [value[i] for i in range(len(value))]
    array = np.asarray(value, dtype.numpy)
    pieces = [array[i : i + 1].reshape(array.shape[1:]) for i in range(len(array))]
    return [piece.item() for piece in pieces] if dtype in (RESOURCE, VARIANT) and array.ndim == 1 else pieces


def stack_values(values: Sequence[Any], dtype: DataType, shape: Sequence[int] = ()) -> Any:
    """Stack values of equal shape along a new first axis; `shape` is an element's, used if there are none."""
    if not values:
        return np.empty((0, *shape), dtype.numpy)
    # numpy would take apart an object that looks like a sequence
    if dtype in (RESOURCE, VARIANT) and not isinstance(values[0], np.ndarray):
        boxed = np.empty(len(values), object)
        for index, value in enumerate(values):
            boxed[index] = value
        return boxed
    return stacked([as_array(value, dtype) for value in values])


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a value; an object that is no array is a scalar."""
    return value.shape if isinstance(value, np.ndarray | np.generic | Sketch) else ()


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_two_strings(context: ShapeContext) -> Sequence[Dims]:
    """The older form of a handle, `[2]`."""
    return ((2,),)


def infer_unknown_outputs(context: ShapeContext) -> Sequence[Dims]:
    """One unknown shape for each output, whose types an attr lists."""
    types = next((context.attrs[name] for name in ("component_types", "dtypes") if name in context.attrs), ())
    return (None,) * len(types)


def check_two_strings(context: ShapeContext, index: int = 0) -> None:
    """ShapeError if an input cannot be the older form of a handle."""
    with_value(with_rank(context.shapes[index], 1)[0], 2)


def infer_takes_two_strings(context: ShapeContext) -> Sequence[Dims]:
    """No output, for the older form of a handle; ShapeError if it is none."""
    check_two_strings(context)
    return ()


def infer_scalar_of_two_strings(context: ShapeContext) -> Sequence[Dims]:
    """A scalar for the older form of a handle; ShapeError if it is none."""
    check_two_strings(context)
    return ((),)
