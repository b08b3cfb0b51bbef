"""Resources that one op creates and others use: their names, and their lookup by a handle.

A newer op returns a `ResourceHandle`. An older op returns a reference to two strings, container and name. Source: TensorFlow's
rules for names: `shared_name`, else the node's name if the op requests it, else a private name.
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
from placesim.ops.kernels.device_resources import DEFAULT_CONTAINER, TYPE_HASHES, ResourceHandle, VariableResource
from placesim.ops.kernels.kernel import PLAIN, Compute, Kernel, KernelContext, Table, Trait
from placesim.ops.kernels.memory_rules import MemoryRule
from placesim.ops.kernels.shapes import (
    Dims,
    ShapeContext,
    ShapeFunction,
    format_dims,
    infer_by,
    scalar,
    with_rank,
    with_value,
)
from placesim.ops.kernels.string_tensors import flat_strings, string_array

STEP_CONTAINER = "__per_step_0"
"""Container of resources that last for one step."""
VALID_CONTAINER = re.compile(r"[A-Za-z0-9.][A-Za-z0-9\-./]*")

Finder = Callable[[Any, KernelContext], Any]
"""A function `(handle, context) -> resource`; the handle comes from a newer or an older op."""


def name_resource(attrs: Attrs, context: KernelContext, kind: str, by_node: bool = False) -> ResourceHandle:
    """Return the handle of the resource named by attrs `container` and `shared_name`.

    `kind` is the resource's C++ type. With `by_node`, an empty `shared_name` means the node's name, so that nodes with this
    name share the resource. Raises InvalidArgumentError for invalid names.
    """
    container, shared = attrs["container"], attrs["shared_name"]
    if container and not VALID_CONTAINER.fullmatch(container):
        raise InvalidArgumentError(f"container contains invalid characters: {container}")
    # private resources have such names
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
    """Return a reference to the two strings by which the older ops name a resource."""
    return VariableResource(handle.name, STRING, string_array([handle.container.encode(), handle.name.encode()], (2,)))


def handle_of(holder: Any, kind: str, device: str) -> ResourceHandle:
    """Return `holder` if it is a handle, else the handle that its two strings name. Raises InvalidArgumentError for others."""
    if isinstance(holder, ResourceHandle):
        return holder
    strings = np.asarray(holder.value if isinstance(holder, VariableResource) else holder, object)
    # an op may have made it a tensor of one element
    if strings.dtype == object and strings.size == 1 and isinstance(strings.reshape(-1)[0], ResourceHandle):
        found: ResourceHandle = strings.reshape(-1)[0]
        return found
    if strings.size != 2:
        raise InvalidArgumentError(f"Resource handle must have 2 elements, but had shape: {format_dims(strings.shape)}")
    # strings name no device, so the caller's device is meant
    container, name = (text.decode(errors="backslashreplace") for text in flat_strings(strings))
    return ResourceHandle(device, container, name, kind)


def build_finder(kind: str) -> Finder:
    """Return a function that looks up a resource of C++ type `kind` by a newer or older op's handle.

    It raises InvalidArgumentError for a newer handle of another type, and NotFoundError for a missing resource.
    """

    def find(holder: Any, context: KernelContext) -> Any:
        return context.resources.lookup(handle_of(holder, kind, context.device), kind)

    return find


def make_anonymous(context: KernelContext, kind: str, label: str, make: Callable[[], Any]) -> ResourceHandle:
    """Create a resource of C++ type `kind` without a name; return its handle."""
    handle = ResourceHandle(context.device, DEFAULT_CONTAINER, context.resources.private_name(label), kind)
    context.resources.lookup_or_create(handle, make, is_anonymous=True)
    return handle


def find_in_step(key: str, kind: str, context: KernelContext) -> Any:
    """Return the resource of this step with this key, `container/name`. Raises NotFoundError if it is missing."""
    found = context.step_resources.get(key)
    if found is None:
        raise NotFoundError(f"Resource {STEP_CONTAINER}/{key}/{kind} does not exist.")
    return found


def serialise_handle(handle: ResourceHandle) -> bytes:
    """Return a handle as a serialized `ResourceHandleProto`."""
    texts = ((1, handle.device), (2, handle.container), (3, handle.name))
    found = b"".join(message_field(field, text.encode("utf-8", "surrogateescape")) for field, text in texts)
    found += number_field(4, TYPE_HASHES.get(handle.type, 0)) + message_field(5, handle.type.encode())
    if handle.dtype is None:
        return found
    dims = handle.tensor_shape.dims
    sizes = number_field(3, 1) if dims is None else b"".join(message_field(2, number_field(1, dim)) for dim in dims)
    return found + message_field(6, number_field(1, handle.dtype.number) + message_field(2, sizes))


def both_forms(make: Callable[..., ResourceHandle]) -> tuple[Compute, Compute]:
    """Return the kernels of the older and the newer op that create a resource; `make` returns its handle."""

    def give_strings(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        return (strings_of(make(inputs, attrs, context)),)

    def give_handle(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        return (make(inputs, attrs, context),)

    return give_strings, give_handle


def makers(older: str, newer: str, make: Callable[..., ResourceHandle], infer_newer: ShapeFunction = scalar) -> Table:
    """Return the table rows of the older and the newer op that create a resource; `make` returns its handle."""
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
    traits: Trait = PLAIN,
) -> Table:
    """Return the table rows of the older and the newer op that compute the same with a resource."""
    row = Kernel(compute, infer_older, needs_context=True, may_wait=may_wait, memory=memory, traits=traits)
    return {older: row, newer: row._replace(shape=infer_newer)}


def check_signature(
    holder: Any, types: tuple[Sequence[DataType], Sequence[DataType]], expected: tuple[Sequence[DataType], Sequence[DataType]]
) -> None:
    """Raise InvalidArgumentError unless `types`, an op's input and output types, are those `expected` for the resource.

    The handle is not among the input types.
    """
    if [tuple(side) for side in types] == [tuple(side) for side in expected]:
        return
    handle = "resource" if isinstance(holder, ResourceHandle) else "string_ref"
    sides = [
        # the first type in each text is the handle's: it is written as `string`, which is then replaced
        f"{types_text((STRING, *given))}->{types_text(made)}".replace("string", handle, 1)
        for given, made in (types, expected)
    ]
    raise InvalidArgumentError(f"Signature mismatch, have: {sides[0]} expected: {sides[1]}")


def types_text(dtypes: Sequence[DataType]) -> str:
    """Return types as text: `int64, string`."""
    return ", ".join(dtype.name for dtype in dtypes)


def shapes_text(shapes: Sequence[Dims]) -> str:
    """Return shapes as text: `[[2,?], []]`."""
    return "[" + ", ".join(map(format_dims, shapes)) + "]"


# --- values of any type in collections ------------------------------------------------------------------------------


def slices(value: Any, dtype: DataType) -> list[Any]:
    """Return the rows of a tensor `[n, ...]`; an element of a vector of resources or variants becomes the object itself."""
    if isinstance(value, Sketch):
        return [value[i] for i in range(len(value))]
    array = np.asarray(value, dtype.numpy)
    pieces = [array[i : i + 1].reshape(array.shape[1:]) for i in range(len(array))]
    return [piece.item() for piece in pieces] if dtype in (RESOURCE, VARIANT) and array.ndim == 1 else pieces


def stack_values(values: Sequence[Any], dtype: DataType, shape: Sequence[int] = ()) -> Any:
    """Stack values of equal shape along a new first axis; without values, `shape` is the shape of an element."""
    if not values:
        return np.empty((0, *shape), dtype.numpy)
    # numpy would take apart an object that looks like a sequence
    if dtype in (RESOURCE, VARIANT) and not isinstance(values[0], np.ndarray):
        found = np.empty(len(values), object)
        for index, value in enumerate(values):
            found[index] = value
        return found
    return stacked([as_array(value, dtype) for value in values])


# --- shape functions ------------------------------------------------------------------------------------------------


infer_two_strings = infer_by("-> [2]")
"""Shape of an older op's handle."""
infer_takes_two_strings = infer_by("[2] ->")
infer_scalar_of_two_strings = infer_by("[2] -> []")


def infer_unknown_outputs(context: ShapeContext) -> Sequence[Dims]:
    """Return an unknown shape for each output type in attr `component_types` or `dtypes`."""
    types = next((context.attrs[name] for name in ("component_types", "dtypes") if name in context.attrs), ())
    return (None,) * len(types)


def check_two_strings(context: ShapeContext, index: int = 0) -> None:
    """Raise ShapeError unless an input can be an older op's handle, `[2]`."""
    with_value(with_rank(context.shapes[index], 1)[0], 2)
