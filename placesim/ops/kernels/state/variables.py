"""Ref variables and resource variables: created, read, assigned, incremented and deleted.

A ref input is the `VariableResource` itself, a resource input its `ResourceHandle`. `find_variable` returns the variable for
either, so that a ref op and its resource op are one function. A kernel replaces a variable's array and does not write into it,
unless `may_overwrite` says that nothing else has it. So readers keep the old value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType
from placesim.core.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, OutOfRangeError
from placesim.ops.attributes import Attrs, Shape
from placesim.ops.kernels.abstract_tensor import own_copy
from placesim.ops.kernels.cost_model import COPY, DISPATCH, ELEMENTWISE, VIEW
from placesim.ops.kernels.device_resources import (
    DEFAULT_CONTAINER,
    REF_VARIABLE_TYPE,
    UNINITIALIZED,
    VARIABLE_TYPE,
    ResourceHandle,
    VariableResource,
    check_kind,
)
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, Tensor, Trait, one_per_output, per_element, zeros
from placesim.ops.kernels.memory_rules import ITSELF, KernelMemory, writes_variables
from placesim.ops.kernels.shapes import (
    Dims,
    HandleShape,
    ShapeContext,
    ShapeError,
    format_dims,
    infer_by,
    merge,
    merged,
    no_outputs,
    scalar,
    shape_attr,
    unchanged,
    with_rank,
)
from placesim.ops.process.buffer_ownership import may_overwrite


def find_variable(holder: VariableResource | ResourceHandle, context: KernelContext) -> VariableResource:
    """Return the variable of a ref or resource input.

    Raises NotFoundError if a resource variable was never written, InvalidArgumentError for a handle of another resource.
    """
    if isinstance(holder, VariableResource):
        return holder
    found: VariableResource = context.resources.lookup(holder, VARIABLE_TYPE)
    return found


def value_of(holder: VariableResource | ResourceHandle, context: KernelContext) -> Tensor:
    """Return the value of a ref or resource input. Raises FailedPreconditionError if a ref was never written (12.3.1)."""
    return ref_value(find_variable(holder, context))


def ref_value(variable: VariableResource) -> Tensor:
    """Return a variable's value. Raises FailedPreconditionError if it was never written (12.3.1)."""
    if variable.value is None:
        raise FailedPreconditionError(UNINITIALIZED + variable.name)
    return np.asarray(variable.value)


def check_type(variable: VariableResource, dtype: DataType, verb: str) -> None:
    """Raise InvalidArgumentError if a variable's type is not the op's; in TensorFlow the process may end."""
    if variable.dtype is not dtype:
        raise InvalidArgumentError(
            f"Trying to {verb} variable with wrong dtype. Expected {dtype.name} got {variable.dtype.name}"
        )


def typed_value(holder: VariableResource | ResourceHandle, context: KernelContext, dtype: DataType) -> Tensor:
    """Return the value of a variable of this type. Raises the errors of `value_of` and `check_type`."""
    variable = find_variable(holder, context)
    check_type(variable, dtype, "use")
    return value_of(variable, context)


def writable_value(holder: VariableResource | ResourceHandle, context: KernelContext, dtype: DataType) -> Tensor:
    """Return a variable's value for a kernel that writes into it: a copy, unless nothing else refers to its memory.

    Raises the errors of `typed_value`.
    """
    is_free = may_overwrite(find_variable(holder, context))
    value = typed_value(holder, context, dtype)
    return value if is_free else np.array(value, order="C")


def ref_output(holder: VariableResource | ResourceHandle) -> tuple[VariableResource, ...]:
    """Return the outputs of an op that updates a variable: the ref itself, or nothing for a resource."""
    return (holder,) if isinstance(holder, VariableResource) else ()


# --- making ---------------------------------------------------------------------------------------------------------


def make_ref_variable(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the ref variable named by attr `shared_name` or the node, created if missing.

    Raises InvalidArgumentError for a shape whose rank is known, but not all sizes.
    """
    handle = ResourceHandle(
        context.device, attrs["container"] or DEFAULT_CONTAINER, attrs["shared_name"] or context.node, REF_VARIABLE_TYPE
    )
    return (context.resources.lookup_or_create(handle, lambda: _new_variable(handle.name, attrs)),)


def _new_variable(name: str, attrs: Attrs) -> VariableResource:
    # TensorFlow treats a variable without elements as initialized
    if "shape" not in attrs:  # recorded graphs may lack it
        raise NotFoundError("No attr named 'shape' in NodeDef:")
    dims = attrs["shape"].dims
    if dims is not None and -1 in dims:
        raise InvalidArgumentError(f"Shape {attrs['shape']} is not fully defined")
    empty = dims is not None and 0 in dims
    return VariableResource(name, attrs["dtype"], np.empty(dims, attrs["dtype"].numpy) if empty else None, dims)


def make_temporary_variable(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return a new ref variable of this step. Raises InvalidArgumentError for a shape that is not fully known."""
    # TensorFlow does not initialize the memory; zeros make runs repeatable
    name = attrs["var_name"] or context.node
    dims = attrs["shape"].dims or ()
    if -1 in dims:
        raise InvalidArgumentError(f"Shape {format_dims(dims)} is not fully defined")
    variable = VariableResource(name, attrs["dtype"], zeros(dims, attrs["dtype"]), dims)
    context.step_resources["tmp_var:" + name] = variable
    return (variable,)


def destroy_temporary_variable(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the last value of a temporary variable, and delete the variable. Raises NotFoundError if it is missing."""
    name = attrs["var_name"]
    if context.step_resources.pop("tmp_var:" + name, None) is None:
        raise NotFoundError(f"Resource __per_step_0/{name}/N10tensorflow19TemporaryVariableOp6TmpVarE does not exist.")
    return (inputs[0].value,)


def make_handle(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handle of a resource variable, which need not exist yet."""
    container, name = attrs["container"] or DEFAULT_CONTAINER, attrs["shared_name"] or context.node
    return (ResourceHandle(context.device, container, name, dtype=attrs["dtype"], tensor_shape=attrs["shape"]),)


def make_handles(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the handles of several resource variables. Raises InvalidArgumentError for attrs of another length."""
    problem = _count_problem(attrs, ("dtypes", "shapes", "shared_names", "containers"))
    if problem is not None:
        raise InvalidArgumentError(problem)
    rows = zip(attrs["containers"], attrs["shared_names"], attrs["dtypes"], attrs["shapes"], strict=True)
    return [
        ResourceHandle(context.device, container or DEFAULT_CONTAINER, name or context.node, dtype=dtype, tensor_shape=shape)
        for container, name, dtype, shape in rows
    ]


def _count_problem(attrs: Attrs, names: Sequence[str]) -> str | None:
    """Return the error for the first of these attrs whose length is not the number of handles; None if all fit."""
    for name in names:
        if len(attrs[name]) != attrs["N"]:
            return f"Mismatched number of {name} (n={attrs['N']}, num {name}={len(attrs[name])})"
    return None


# --- reading --------------------------------------------------------------------------------------------------------


def read_variable(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the value of a resource variable.

    Raises FailedPreconditionError if it was never written (12.3.2), InvalidArgumentError for another type than attr `dtype`.
    """
    variable = _readable_variable(inputs[0], context)
    check_type(variable, attrs["dtype"], "read")
    return (variable.value,)


def _readable_variable(handle: ResourceHandle, context: KernelContext) -> VariableResource:
    try:
        return find_variable(handle, context)
    except (InvalidArgumentError, NotFoundError) as error:
        raise FailedPreconditionError(
            f"Could not find variable {handle.name}. This could mean that the variable has been deleted. In TF1, it can also "
            f"mean the variable is uninitialized. Debug info: container={handle.container}, status error message="
            f"{error.message}"
        ) from None


def disable_copy_on_read(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Do nothing, as reads never copy. Raises FailedPreconditionError if the variable was never written."""
    _readable_variable(inputs[0], context)
    return ()


def read_variables(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the values of several resource variables. Raises FailedPreconditionError that names variables never written."""
    missing = [handle.name for handle in inputs if not is_written(handle, context)]
    if missing:
        raise FailedPreconditionError(
            f"In ReadVariablesOp the following variables were found uninitialized: {', '.join(missing)}"
        )
    return [find_variable(handle, context).value for handle in inputs]


def is_written(holder: VariableResource | ResourceHandle, context: KernelContext) -> bool:
    """Whether a variable has a value."""
    try:
        return find_variable(holder, context).value is not None
    except (InvalidArgumentError, NotFoundError):
        return False


def tell_written(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return a scalar: whether the variable has a value. Never fails (12.3.4)."""
    return (np.bool_(is_written(inputs[0], context)),)


def tell_shape(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the shape of a resource variable's value, a vector. Raises NotFoundError if the variable was never written."""
    return (np.array(value_of(inputs[0], context).shape, attrs["out_type"].numpy),)


# --- assigning ------------------------------------------------------------------------------------------------------


def assign(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Set a ref variable to a copy of a value. Raises InvalidArgumentError with `validate_shape` if their shapes differ."""
    variable, value = inputs
    held = variable.shape if variable.value is None else np.shape(variable.value)
    # a partly unknown shape allows any value
    if attrs["validate_shape"] and held is not None and held != np.shape(value) and min(held, default=0) >= 0:
        raise InvalidArgumentError(
            "Assign requires shapes of both tensors to match. "
            f"lhs shape= {format_dims(held)} rhs shape= {format_dims(np.shape(value))}"
        )
    variable.value = own_copy(value)
    return (variable,)


def assign_resource(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Set a resource variable's value, and create the variable if missing.

    Raises InvalidArgumentError for an invalid handle, another type, and with `validate_shape` for another shape.
    """
    handle, value = inputs
    check_kind(handle, VARIABLE_TYPE)
    dtype = attrs["dtype"]
    variable = context.resources.lookup_or_create(handle, lambda: VariableResource(handle.name, dtype))
    if variable.dtype is not dtype:
        raise InvalidArgumentError(
            f"Trying to assign variable with wrong dtype. Expected {variable.dtype.name} got {dtype.name}"
        )
    if attrs["validate_shape"] and variable.value is not None and np.shape(variable.value) != np.shape(value):
        raise InvalidArgumentError(
            "Trying to assign to variable with tensor with wrong shape. "
            f"Expected {format_dims(np.shape(variable.value))} got {format_dims(np.shape(value))}"
        )
    # no copy is needed, as no kernel changes its inputs
    variable.value = value
    return ()


def _change(ufunc: np.ufunc, variable: VariableResource, update: Tensor) -> None:
    """Set a variable to `ufunc(value, update)`, in place if nothing else holds its array."""
    if may_overwrite(variable):
        ufunc(variable.value, update, out=variable.value)
    else:
        variable.value = ufunc(variable.value, update)


def build_update(ufunc: np.ufunc) -> tuple[Kernel, Kernel]:
    """Return the ref and the resource kernel that set a variable to `ufunc(value, update)`, tensors of one shape.

    They raise InvalidArgumentError if the shapes differ, and the errors of `value_of`.
    """

    def update_ref(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        variable, update = inputs
        value = value_of(variable, context)
        if value.shape != np.shape(update):
            raise InvalidArgumentError("Parameters and update must be the same size")
        del value
        _change(ufunc, variable, update)
        return (variable,)

    def update_resource(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        handle, update = inputs
        value = typed_value(handle, context, attrs["dtype"])
        if value.shape != np.shape(update):
            raise InvalidArgumentError(
                f"Cannot update variable with shape {format_dims(value.shape)} "
                f"using a Tensor with shape {format_dims(np.shape(update))}, shapes must be equal."
            )
        del value
        _change(ufunc, find_variable(handle, context), update)
        return ()

    return (
        Kernel(update_ref, merged, one_per_output, needs_context=True, cost=COPY),
        Kernel(
            update_resource,
            _infer_merged_handle,
            per_element(1),
            needs_context=True,
            memory=writes_variables(1),
            cost=ELEMENTWISE._replace(updated=1),
        ),
    )


# --- counting and forgetting ----------------------------------------------------------------------------------------


def select_ref(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Return the reference at `index` among the others.

    Raises FailedPreconditionError for one without a value, and InvalidArgumentError unless the index is a scalar in range.
    """
    index, *refs = inputs
    for ref in refs:
        ref_value(ref)
    if np.ndim(index):
        raise InvalidArgumentError(f"Index must be a scalar, but it has shape {format_dims(np.shape(index))}")
    if not 0 <= index < len(refs):
        raise InvalidArgumentError(f"Index must be in the range [0, {len(refs)}) but got {index}")
    return (refs[int(index)],)


def count_up(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Increment a scalar variable, and return its old value. Raises OutOfRangeError at attr `limit`.

    Raises InvalidArgumentError for a variable that is not a scalar, or has another type than the op.
    """
    value = value_of(inputs[0], context)
    dtype = find_variable(inputs[0], context).dtype
    if dtype is not attrs["T"]:  # TensorFlow's process ends here
        raise InvalidArgumentError(f"Trying to count variable with wrong dtype. Expected {attrs['T']} got {dtype}")
    if value.ndim:
        raise InvalidArgumentError(f"input is not a scalar: {format_dims(value.shape)}")
    if value >= attrs["limit"]:
        raise OutOfRangeError(f"Reached limit of {attrs['limit']}")
    # 1 of the value's type, so that int32 wraps as in C
    find_variable(inputs[0], context).value = value + value.dtype.type(1)
    return (value,)


def destroy_resource(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Delete a resource. Raises NotFoundError if it is missing, unless attr `ignore_lookup_error` is set."""
    try:
        context.resources.delete(inputs[0])
    except NotFoundError:
        if not attrs["ignore_lookup_error"]:
            raise
    return ()


# --- shape functions ------------------------------------------------------------------------------------------------


def held_shape(context: ShapeContext) -> Dims:
    """Return the static shape of the variable of input 0, a ref or a resource."""
    handle = context.handles[0]
    return context.shapes[0] if handle is None else handle.shape


def typed_handle_shape(context: ShapeContext) -> Dims:
    """Return the static shape of the resource of input 0. Raises ShapeError unless its type is attr `dtype`."""
    handle = context.handles[0]
    if handle is None:
        return None
    if handle.dtype is not context.attrs["dtype"]:
        raise ShapeError(
            f"Trying to read variable with wrong dtype. Expected {handle.dtype.name} got {context.attrs['dtype'].name}"
        )
    return handle.shape


def _infer_legacy_shape_attr(context: ShapeContext) -> Sequence[Dims]:
    # in this old op, a scalar means an unknown shape
    return (context.attrs["shape"].dims or None,)


def _infer_selected_ref(context: ShapeContext) -> Sequence[Dims]:
    index, first, *others = context.shapes
    with_rank(index, 0)
    is_known = first is not None and -1 not in first and all(dims == first for dims in others)
    return (first if is_known else None,)


def _infer_handle(context: ShapeContext) -> Sequence[Dims]:
    context.output_handles[0] = HandleShape(context.attrs["dtype"], context.attrs["shape"].dims)
    return ((),)


def _infer_handles(context: ShapeContext) -> Sequence[Dims]:
    problem = _count_problem(context.attrs, ("dtypes", "shapes"))
    if problem is not None:
        raise ShapeError(problem)
    shapes: tuple[Shape, ...] = context.attrs["shapes"]
    for index, (dtype, shape) in enumerate(zip(context.attrs["dtypes"], shapes, strict=True)):
        context.output_handles[index] = HandleShape(dtype, shape.dims)
    return [()] * context.attrs["N"]


def _infer_read(context: ShapeContext) -> Sequence[Dims]:
    return (typed_handle_shape(context),)


def _infer_read_all(context: ShapeContext) -> Sequence[Dims]:
    return [None if handle is None else handle.shape for handle in context.handles]


def _infer_shape_vector(context: ShapeContext) -> Sequence[Dims]:
    handle = context.handles[0]
    return ((-1 if handle is None or handle.shape is None else len(handle.shape),),)


def _infer_assigned(context: ShapeContext) -> Sequence[Dims]:
    # without validation the variable takes the value's shape
    return merged(context) if context.attrs["validate_shape"] else (context.shapes[1],)


def _infer_merged_handle(context: ShapeContext) -> Sequence[Dims]:
    merge(typed_handle_shape(context), context.shapes[1])
    return ()


def _infer_counted_handle(context: ShapeContext) -> Sequence[Dims]:
    handle = context.handles[0]
    if handle is None:
        raise ShapeError("Handle has no shape/type information.")
    if handle.dtype is not context.attrs["T"]:
        raise ShapeError(f"Data types do not match: {context.attrs['T'].name} and {handle.dtype.name}")
    return (with_rank(handle.shape, 0),)


# --- memory -----------------------------------------------------------------------------------------------------------


def read_variables_memory(memory: KernelMemory) -> None:
    """Each output shares its variable's memory, or is a copy if rows of the variable were touched."""
    for index in range(len(memory.outputs)):
        if memory.variable(index).copies_on_read:
            memory.allocate(index)
        else:
            memory.share_variable(index, index)


def assign_memory(memory: KernelMemory) -> None:
    """A ref variable keeps its memory if the number of elements stays the same; it never shares the value's memory."""
    buffer, size = memory.variable(0).buffer, memory.inputs[1].size
    if buffer is None or buffer.size != size:
        memory.renew_variable(0, size, memory.inputs[1].kind)


def assign_resource_memory(memory: KernelMemory) -> None:
    """A resource variable shares the value's memory, or copies it if rows of the variable were touched."""
    if memory.variable(0).copies_on_read:
        memory.renew_variable(0, memory.inputs[1].size, memory.inputs[1].kind)
    else:
        memory.share_with_variable()


def count_up_memory(memory: KernelMemory) -> None:
    """The output has the old value's memory, and the new value gets new memory."""
    memory.share_variable(0, 0)
    memory.renew_variable(0, memory.outputs[0].size, memory.outputs[0].kind)


def disable_copy_on_read_memory(memory: KernelMemory) -> None:
    """Readers share the variable's memory again."""
    memory.variable(0).copies_on_read = False


def destroy_resource_memory(memory: KernelMemory) -> None:
    """A variable releases its memory, any other resource its content."""
    memory.renew_variable(0, 0)


def own_handle_memory(memory: KernelMemory) -> None:
    """The kernel allocates its handle once, and keeps it."""
    kept = memory.variable(ITSELF)
    if kept.buffer is None:
        kept.buffer = memory.new_buffer(memory.outputs[0].size, on_host=True, kind=memory.outputs[0].kind)
    memory.share_variable(0, ITSELF)


def temporary_variable_memory(memory: KernelMemory) -> None:
    """A temporary variable has memory before it is assigned."""
    memory.renew_variable(ITSELF, memory.outputs[0].size, memory.outputs[0].kind)


def destroy_temporary_variable_memory(memory: KernelMemory) -> None:
    """The variable's memory becomes the output."""
    memory.share_variable(0, 0)
    memory.renew_variable(0, 0)


_ADD, _SUB = build_update(np.add), build_update(np.subtract)

TABLE: Table = {
    "Variable": Kernel(make_ref_variable, _infer_legacy_shape_attr, needs_context=True, traits=Trait.HANDS_ON, cost=DISPATCH),
    "VariableV2": Kernel(make_ref_variable, shape_attr, needs_context=True, traits=Trait.HANDS_ON, cost=DISPATCH),
    "TemporaryVariable": Kernel(make_temporary_variable, shape_attr, needs_context=True, memory=temporary_variable_memory),
    "DestroyTemporaryVariable": Kernel(
        destroy_temporary_variable, unchanged, needs_context=True, memory=destroy_temporary_variable_memory
    ),
    "VarHandleOp": Kernel(
        make_handle, _infer_handle, needs_context=True, memory=own_handle_memory, traits=Trait.HANDS_ON, cost=DISPATCH
    ),
    "_VarHandlesOp": Kernel(make_handles, _infer_handles, needs_context=True),
    "ReadVariableOp": Kernel(
        read_variable,
        _infer_read,
        needs_context=True,
        memory=read_variables_memory,
        traits=Trait.HANDS_ON,
        cost=DISPATCH,
    ),
    "DisableCopyOnRead": Kernel(disable_copy_on_read, no_outputs, needs_context=True, memory=disable_copy_on_read_memory),
    "_ReadVariablesOp": Kernel(read_variables, _infer_read_all, needs_context=True, memory=read_variables_memory),
    "RefSelect": Kernel(select_ref, _infer_selected_ref),
    "IsVariableInitialized": Kernel(tell_written, scalar, needs_context=True),
    "VarIsInitializedOp": Kernel(tell_written, scalar, needs_context=True),
    "VariableShape": Kernel(tell_shape, _infer_shape_vector, needs_context=True),
    "Assign": Kernel(assign, _infer_assigned, needs_context=True, memory=assign_memory, cost=VIEW),
    "AssignVariableOp": Kernel(
        assign_resource, _infer_merged_handle, needs_context=True, memory=assign_resource_memory, cost=VIEW
    ),
    "AssignAdd": _ADD[0],
    "AssignAddVariableOp": _ADD[1],
    "AssignSub": _SUB[0],
    "AssignSubVariableOp": _SUB[1],
    "CountUpTo": Kernel(count_up, infer_by("x:0 -> x"), needs_context=True),
    "ResourceCountUpTo": Kernel(count_up, _infer_counted_handle, needs_context=True, memory=count_up_memory),
    "DestroyResourceOp": Kernel(destroy_resource, no_outputs, needs_context=True, memory=destroy_resource_memory),
}
