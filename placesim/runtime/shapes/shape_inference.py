"""Static shapes of a single node: runs the kernel's shape function, and gives its errors TensorFlow's text."""

from __future__ import annotations

from collections.abc import Sequence

from placesim.core.dtypes import DataType
from placesim.core.errors import GraphBuildError
from placesim.graph.node_text import format_node
from placesim.ops.attributes import TensorValue, format_elements
from placesim.ops.kernels.kernel import Kernel
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeError, format_dims

MAX_VALUES = 256
"""Maximum elements of a constant input that TensorFlow prints."""


def infer_shapes(kernel: Kernel, context: ShapeContext) -> tuple[Dims, ...]:
    """Return the output shapes of one node.

    Raises ShapeError if the shape function refuses the inputs, and GraphBuildError if a check of TensorFlow's Python fails.
    Their texts name no node.
    """
    shapes = tuple(kernel.shape(context))
    for dims in shapes:
        for dim in dims or ():
            if dim < -1:  # in TensorFlow, Python's class of shapes makes this check
                raise GraphBuildError(f"Dimension {dim} must be >= 0")
    return shapes


def word_refusal(
    error: ShapeError | GraphBuildError,
    kernel: Kernel,
    context: ShapeContext,
    name: str,
    op: str,
    inputs: Sequence[str],
    input_dtypes: Sequence[DataType],
) -> GraphBuildError:
    """Return an error of `infer_shapes` with TensorFlow's text, which describes the node and its input shapes and values."""
    found, known = _refuse_unaware(kernel, context) or (error, context)
    if isinstance(found, GraphBuildError):
        return found
    shown = format_node(name, op, context.attrs, inputs)
    return GraphBuildError(f"{found.message} for '{shown}' with {_format_inputs(known, input_dtypes)}.", node=name)


def _refuse_unaware(kernel: Kernel, context: ShapeContext) -> tuple[ShapeError, ShapeContext] | None:
    """Run a shape function without values; return its error and context, or None if it succeeds.

    TensorFlow begins with such a run, and then repeats it with the values that the shape function asked for.
    """
    unaware = ShapeContext(context.shapes, context.attrs, handles=context.handles)
    try:
        kernel.shape(unaware)
    except ShapeError as error:
        return error, unaware
    return None


def _format_inputs(context: ShapeContext, dtypes: Sequence[DataType]) -> str:
    text = "input shapes: " + ", ".join(map(format_dims, context.shapes))
    constants = sorted(context.used_values - context.used_partial_shapes.keys())
    if constants:
        text += " and with computed input tensors: " + ", ".join(
            f"input[{i}] = <{format_elements(TensorValue(dtypes[i], context.value(i)), MAX_VALUES)}>"  # type: ignore[arg-type]
            for i in constants
        )
    if context.used_partial_shapes:
        text += " and with input tensors computed as partial shapes: " + ",".join(
            f"input[{i}] = {format_dims(dims)}" for i, dims in sorted(context.used_partial_shapes.items())
        )
    return text
