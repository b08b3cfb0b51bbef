"""Steps that are walked through and not computed: tensors of which only the shape and the type are known.

Kernels run as they are on small tensors that are known: the arithmetic of shapes, loop counters, predicates.  Where a tensor is
large, or follows from one that is not known, the kernel's shape function says what comes out.  What needs a value that nothing
tells ends in an error that names the node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from placesim.dtypes import DType
from placesim.errors import GraphBuildError, InvalidArgumentError
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import node_tag
from placesim.ops.attributes import Attrs, Shape, names_functions
from placesim.runtime.kernels.kernel import Kernel, KernelContext
from placesim.runtime.kernels.sketch import Sketch, SketchedValueError
from placesim.runtime.process_memory import AllocationRefused
from placesim.runtime.resources import ResourceHandle, Variable, value_dims
from placesim.runtime.shapes import Dims, HandleShape, ShapeContext, ShapeError, format_dims, is_fully_defined

MAX_KNOWN_ELEMENTS = 1024
"""Tensors of more elements are sketched."""
MEASURING_OPS = ("Shape", "ShapeN", "Size", "Rank")
"""Ops that look at nothing but their inputs' shapes."""
PRINTING_OPS = ("Print", "PrintV2")
"""Ops that write for a reader and hand on their first input, if anything: a walk has nobody to write for."""
LAST_OUTPUTS: Mapping[str, Sequence[Dims]] = {"FusedBatchNormV3": ((),)}
"""Shapes of last outputs that shape functions leave open, though the kernels always make them so."""
_NOT_FOR_SKETCHES = (SketchedValueError, AttributeError, TypeError, ValueError, IndexError, AllocationRefused)
"""What a kernel stumbles over that looks into a sketch."""


def sketched(kernel: Kernel, graph: Graph, node: Node) -> Kernel:
    """The kernel of a node in a step that is walked through.  It raises SketchedValueError where a shape is not known."""
    if node.op in MEASURING_OPS:
        return kernel
    compute, dtypes, is_ref = kernel.compute, node.signature.output_dtypes, node.signature.output_is_ref
    if node.op in PRINTING_OPS:
        return kernel._replace(compute=lambda values, attrs, *context: values[: len(dtypes)], direct=None)

    settled = LAST_OUTPUTS.get(node.op, ())

    def walk(values: Sequence[Any], attrs: Attrs, *context: KernelContext) -> Sequence[Any]:
        is_known = _is_known(values)
        if not is_known and context:  # it may do no more than hand tensors on
            try:
                return compute(values, attrs, *context)
            except _NOT_FOR_SKETCHES as error:
                if isinstance(error, SketchedValueError) and names_functions(attrs):
                    raise error if error.node else unknown_choice(graph, node) from None
        shapes = _shapes(kernel, values, attrs, context, is_known=is_known)
        if is_known and (shapes is None or any(is_ref) or _are_small(shapes)):
            return compute(values, attrs, *context)
        found: list[Dims] = [None] * len(dtypes) if shapes is None else shapes
        found[len(found) - len(settled) :] = settled
        return [
            values[0] if ref else _sketch(graph, node, dims, dtype)
            for dims, dtype, ref in zip(found, dtypes, is_ref, strict=True)
        ]

    return kernel._replace(compute=walk, direct=None)


def unknown_choice(graph: Graph, node: Node) -> SketchedValueError:
    """For a node that decides, by a value that nothing tells, what runs next, or how often."""
    text = f"What {node_tag(node.name)} runs depends on a value that is not known before the step runs"
    return SketchedValueError(text, node=node.name, location=graph.location(node))


def _sketch(graph: Graph, node: Node, dims: Dims, dtype: DType) -> Sketch:
    if dims is None or not is_fully_defined(dims):
        text = f"The shape of {node_tag(node.name)} is not known before the step runs: {format_dims(dims)}"
        raise SketchedValueError(text, node=node.name, location=graph.location(node))
    return Sketch(dims, dtype)


def _is_known(values: Sequence[Any]) -> bool:
    """Whether all of a node's inputs are known, and few elements."""
    elements = 0
    for value in values:
        held = value.value if isinstance(value, Variable) else value
        if isinstance(held, Sketch):
            return False
        elements += getattr(held, "size", 1)
    return elements <= MAX_KNOWN_ELEMENTS


def _shapes(
    kernel: Kernel, values: Sequence[Any], attrs: Attrs, context: Sequence[KernelContext], *, is_known: bool
) -> list[Dims] | None:
    """What the shape function says; None where it refuses what is known, which the kernel says better."""
    known = ShapeContext(
        [value_dims(value.value if isinstance(value, Variable) else value) for value in values],
        attrs,
        [np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None for value in values],
        [_handle(value, context) if isinstance(value, ResourceHandle) else None for value in values],
    )
    try:
        return list(kernel.shape(known))
    except (ShapeError, GraphBuildError) as error:
        if is_known:
            return None
        raise InvalidArgumentError(error.message) from None


def _handle(handle: ResourceHandle, context: Sequence[KernelContext]) -> HandleShape | None:
    """What a handle says of the variable that it names: the shape of its value, or the one that was declared."""
    variable = context[0].resources.find(handle) if context else None
    if isinstance(variable, Variable) and variable.value is not None:
        return HandleShape(variable.dtype, tuple(variable.value.shape))
    if handle.dtype is None or not isinstance(handle.tensor_shape, Shape):
        return None
    return HandleShape(handle.dtype, handle.tensor_shape.dims)


def _are_small(shapes: Sequence[Dims]) -> bool:
    return all(dims is None or not is_fully_defined(dims) or math.prod(dims) <= MAX_KNOWN_ELEMENTS for dims in shapes)
