"""Ops that call functions: `PartitionedCall`, and functional control flow that was not lowered.

The context's `call_function(function, inputs, device)` runs a body on the session's devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from placesim.core.dtypes import DataType, dtype_of
from placesim.core.errors import InternalError, InvalidArgumentError, UnimplementedError
from placesim.ops.attributes import Attrs, FunctionName
from placesim.ops.kernels.kernel import Kernel, KernelContext, Table, undeclared_type
from placesim.ops.kernels.shapes import Dims, ShapeContext, format_dims


class ArgumentCountError(InvalidArgumentError):
    """Wrong number of function arguments (`counts`: expected and given); shown as an InvalidArgumentError."""

    def __init__(self, message: str, *, counts: tuple[int, int] = (0, 0), **place: Any) -> None:
        super().__init__(message, **place)
        self.counts = counts

    @property
    def type_name(self) -> str:
        return InvalidArgumentError.__name__


def _call(context: KernelContext, function: FunctionName, inputs: Sequence[Any]) -> Sequence[Any]:
    """Return the results of a function. Raises InternalError outside a session, InvalidArgumentError for wrong arguments."""
    if context.call_function is None:
        raise InternalError(f"Function {function.name} cannot be called outside a session")
    return context.call_function(function, tuple(inputs), context.device)


def _call_branch(
    context: KernelContext, function: FunctionName, inputs: Sequence[Any], declared: Sequence[DataType]
) -> Sequence[Any]:
    """Return the results of a branch or body. Raises InternalError unless their number and types are `declared`."""
    results = _call(context, function, inputs)
    if len(results) != len(declared):
        raise InternalError(f"Expect to produce {len(declared)} tensors, but only get {len(results)}")
    for index, given, wanted in other_types(results, declared):
        raise InternalError(f"Expect {index}-th output is of type {wanted.name} but get {given}")
    return results


def other_types(results: Sequence[Any], declared: Sequence[DataType]) -> Iterator[tuple[int, str, DataType]]:
    """Yield position, type and declared type of each array whose type is not the declared one."""
    for index, (value, dtype) in enumerate(zip(results, declared, strict=False)):
        if isinstance(value, np.ndarray | np.generic) and value.dtype != dtype.numpy:
            yield index, dtype_of(np.asarray(value)).name, dtype


def partitioned_call(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Return the results of the function in attr `f`.

    Raises InternalError outside a session, for too few arguments, or for results that do not match `Tout`. Raises
    InvalidArgumentError for too many arguments, or arguments of wrong types.
    """
    declared = attrs["Tout"]
    try:
        results = _call(context, attrs["f"], inputs)
    except ArgumentCountError as error:
        takes, gets = error.counts
        if gets < takes:
            raise InternalError(
                f"Function instantiation included invalid input index: {takes - 1} not in [0, {gets})."
            ) from None
        raise InvalidArgumentError(
            "InstantiateOptions.input_devices must have the same length as the number of arguments: "
            f"input_devices length = {gets} number of arguments = {takes}"
        ) from None
    if len(results) > len(declared):
        last = len(results) - 1
        raise InternalError(f"Function instantiation included invalid output index: {last} not in [0, {len(declared)}).")
    for index, given, wanted in other_types(results, declared):
        raise undeclared_type(context, given, wanted, index)
    return results


def calling(name: str) -> Kernel:
    """Return the kernel of an op whose name is that of a function; the op's attrs instantiate the function."""

    def compute(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        return _call(context, FunctionName(name, tuple(attrs.items())), inputs)

    return Kernel(compute, infer_declared, needs_context=True)


def is_true(value: Any) -> bool:
    """Whether a condition holds: a scalar by its value (an empty string is false), another tensor if it has elements."""
    # as TensorFlow's `ToBool`
    array = np.asarray(value)
    if array.ndim:
        return array.size > 0
    return bool(array.item())


def conditional(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Call a branch with the inputs after the condition (see `is_true`). Raises InternalError outside a session."""
    branch = attrs["then_branch"] if is_true(inputs[0]) else attrs["else_branch"]
    return _call_branch(context, branch, inputs[1:], attrs["Tout"])


def case(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Call branch number `inputs[0]` with the other inputs; for a number out of range, call the last branch.

    Raises InternalError outside a session, and InvalidArgumentError for a number that is not a scalar.
    """
    branches = attrs["branches"]
    if np.ndim(inputs[0]):
        raise InvalidArgumentError("branch_index must be scalar")
    index = int(inputs[0])
    return _call_branch(context, branches[index if 0 <= index < len(branches) else -1], inputs[1:], attrs["Tout"])


def loop(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Call `body` on the loop variables as long as `cond` of the variables is true; return their last values.

    Raises InternalError outside a session, and InvalidArgumentError for a `cond` that does not return one tensor.
    """
    values = tuple(inputs)
    while True:
        held = _call(context, attrs["cond"], values)
        if len(held) != 1:
            raise InvalidArgumentError(f"Expected a single scalar return value from WhileOp cond, got {len(held)} tensors.")
        if not is_true(held[0]):
            return values
        values = tuple(_call_branch(context, attrs["body"], values, attrs["T"]))


def count_loop(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """Call `body` on (counter, loop variables); return the last variables. The counter goes from `start` to `limit` by `delta`.

    Raises InvalidArgumentError for a delta that never reaches the limit, and InternalError outside a session, as ForOp does.
    """
    numbers = []
    for name, given in zip(("start", "limit", "delta"), inputs[:3], strict=True):
        if np.ndim(given):
            raise InvalidArgumentError(f"{name} must be a scalar, but {format_dims(np.shape(given))}")
        numbers.append(int(given))
    start, limit, delta = numbers
    if not ((delta > 0 and start <= limit) or (delta < 0 and start >= limit) or start == limit):
        raise InvalidArgumentError(f"Invalid start/limit/delta: {start} {limit} {delta}")
    values = tuple(inputs[3:])
    for number in range(start, limit, delta or 1):
        values = tuple(_call_branch(context, attrs["body"], (np.array(number, np.int32), *values), attrs["T"]))
    return values


def refuse_gradient(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """Raise UnimplementedError: placesim cannot derive the gradient of a function."""
    raise UnimplementedError(
        f"SymbolicGradient of {attrs['f'].name}: placesim does not derive gradients of functions; "
        "build them into the graph (tf.gradients) before it is exported"
    )


def infer_declared(context: ShapeContext) -> Sequence[Dims]:
    """Return the shapes in attr `output_shapes`, or unknown ones."""
    count = len(context.attrs.get("Tout", context.attrs.get("T", ())))
    shapes = context.attrs.get("output_shapes") or ()
    # TensorFlow reads `output_shapes` only if it has a shape for each output
    return tuple(shape.dims for shape in shapes) if len(shapes) == count else (None,) * count


def _infer_loop(context: ShapeContext) -> Sequence[Dims]:
    # loop variables keep their shapes unless others are declared
    return infer_declared(context) if context.attrs.get("output_shapes") else tuple(context.shapes)


def _infer_gradient(context: ShapeContext) -> Sequence[Dims]:
    # the function's arguments are the first inputs, and each has a gradient
    count = len(context.attrs["Tout"])
    return (*context.shapes[:count], *(None,) * (count - len(context.shapes)))


TABLE: Table = {
    "SymbolicGradient": Kernel(refuse_gradient, _infer_gradient),
    **dict.fromkeys(
        ("PartitionedCall", "StatefulPartitionedCall"), Kernel(partitioned_call, infer_declared, needs_context=True)
    ),
    **dict.fromkeys(("If", "StatelessIf", "_If"), Kernel(conditional, infer_declared, needs_context=True)),
    **dict.fromkeys(("Case", "StatelessCase"), Kernel(case, infer_declared, needs_context=True)),
    "For": Kernel(count_loop, infer_declared, needs_context=True),
    **dict.fromkeys(("While", "StatelessWhile"), Kernel(loop, _infer_loop, needs_context=True)),
    "_While": Kernel(loop, infer_declared, needs_context=True),
}
