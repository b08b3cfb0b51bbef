"""Ops that call functions: `PartitionedCall`, and the functional control flow that was not lowered.

The context's `call_function(function, inputs, device)` runs a body on the session's devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.errors import InternalError, UnimplementedError
from placesim.ops.attributes import Attrs, FunctionName
from placesim.runtime.kernels.kernel import Kernel, KernelContext, Table
from placesim.runtime.shapes import Dims, ShapeContext


def _call(context: KernelContext, function: FunctionName, inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """The results of a function's body; InternalError outside of a session."""
    if context.call_function is None:
        raise InternalError(f"Function {function.name} cannot be called outside a session")
    return context.call_function(function, tuple(inputs), context.device)


def partitioned_call(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """The results of the function for these arguments; InternalError outside of a session."""
    return _call(context, attrs["f"], inputs, attrs)


def is_true(value: Any) -> bool:
    """Whether a condition holds: a scalar by its value (an empty string is false), others by whether they have elements."""
    # TensorFlow's `ToBool`: of a scalar string, whether it has bytes
    array = np.asarray(value)
    if array.ndim:
        return array.size > 0
    return bool(array.item())


def conditional(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """`then_branch` or `else_branch` of the inputs after the condition, of any shape (see `is_true`).

    InternalError outside of a session.
    """
    branch = attrs["then_branch"] if is_true(inputs[0]) else attrs["else_branch"]
    return _call(context, branch, inputs[1:], attrs)


def case(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """The branch of that index, a scalar, of the inputs behind it; the last one where there is none.

    InternalError outside of a session.
    """
    branches = attrs["branches"]
    index = int(inputs[0])
    return _call(context, branches[index if 0 <= index < len(branches) else -1], inputs[1:], attrs)


def loop(inputs: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
    """`body` of the loop variables, of any shapes, as long as `cond` of them is true; InternalError outside of a session."""
    values = tuple(inputs)
    while is_true(_call(context, attrs["cond"], values, attrs)[0]):
        values = tuple(_call(context, attrs["body"], values, attrs))
    return values


def refuse_gradient(inputs: Sequence[Any], attrs: Attrs) -> Sequence[Any]:
    """UnimplementedError: the gradient of a function is made by TensorFlow's own gradient functions, which placesim has not."""
    raise UnimplementedError(
        f"SymbolicGradient of {attrs['f'].name}: placesim does not derive gradients of functions; "
        "build them into the graph (tf.gradients) before it is exported"
    )


# --- shape functions ------------------------------------------------------------------------------------------------


def infer_declared(context: ShapeContext) -> Sequence[Dims]:
    """The shapes in `output_shapes`, where they are given."""
    count = len(context.attrs.get("Tout", context.attrs.get("T", ())))
    shapes = context.attrs.get("output_shapes") or ()
    # TensorFlow looks at `output_shapes` only where it has one for each output
    return tuple(shape.dims for shape in shapes) if len(shapes) == count else (None,) * count


def _infer_gradient(context: ShapeContext) -> Sequence[Dims]:
    # a gradient for each of the function's arguments, which come first
    count = len(context.attrs["Tout"])
    return (*context.shapes[:count], *(None,) * (count - len(context.shapes)))


TABLE: Table = {
    "SymbolicGradient": Kernel(refuse_gradient, _infer_gradient),
    **dict.fromkeys(
        ("PartitionedCall", "StatefulPartitionedCall"), Kernel(partitioned_call, infer_declared, needs_context=True)
    ),
    **dict.fromkeys(("If", "StatelessIf", "_If"), Kernel(conditional, infer_declared, needs_context=True)),
    **dict.fromkeys(("Case", "StatelessCase"), Kernel(case, infer_declared, needs_context=True)),
    **dict.fromkeys(("While", "StatelessWhile", "_While"), Kernel(loop, infer_declared, needs_context=True)),
}
