"""Steps that are walked through and not computed: tensors of which only the shape and the type are known.

Kernels run as they are on small tensors that are known: the arithmetic of shapes, loop counters, predicates.  Where a tensor is
large, or follows from one that is not known, the kernel's shape function says what comes out.  What needs a value that nothing
tells ends in an error that names the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from placesim.dtypes import DType
from placesim.errors import GraphBuildError
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import node_tag
from placesim.ops.attributes import Attrs, Shape
from placesim.runtime.kernels.kernel import Kernel, KernelContext
from placesim.runtime.kernels.sketch import Sketch, SketchedValueError
from placesim.runtime.memory import AllocationRefused
from placesim.runtime.resources import ResourceHandle, Variable
from placesim.runtime.shapes import Dims, HandleShape, ShapeContext, ShapeError, format_dims, is_fully_defined

MAX_KNOWN_ELEMENTS = 1024
"""Tensors of more elements are sketched."""
_NOT_FOR_SKETCHES = (SketchedValueError, AttributeError, TypeError, ValueError, IndexError, AllocationRefused)
"""What a kernel stumbles over that looks into a sketch."""


def sketched(kernel: Kernel, graph: Graph, node: Node) -> Kernel:
    """The kernel of a node in a step that is walked through.  It raises SketchedValueError where a shape is not known."""
    compute, dtypes, is_ref = kernel.compute, node.signature.output_dtypes, node.signature.output_is_ref

    def walk(values: Sequence[Any], attrs: Attrs, *context: KernelContext) -> Sequence[Any]:
        is_known = _is_known(values)
        if not is_known and context:  # it may do no more than hand tensors on
            try:
                return compute(values, attrs, *context)
            except _NOT_FOR_SKETCHES:
                pass
        shapes = _shapes(kernel, values, attrs, context)
        if is_known and (shapes is None or any(is_ref) or _are_small(shapes)):
            return compute(values, attrs, *context)
        found: Sequence[Dims] = [None] * len(dtypes) if shapes is None else shapes
        return [
            values[0] if ref else _sketch(graph, node, dims, dtype)
            for dims, dtype, ref in zip(found, dtypes, is_ref, strict=True)
        ]

    return kernel._replace(compute=walk, direct=None)


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


def _shapes(kernel: Kernel, values: Sequence[Any], attrs: Attrs, context: Sequence[KernelContext]) -> list[Dims] | None:
    """What the shape function says; None where it refuses, which the kernel says better."""
    known = ShapeContext(
        [getattr(value.value if isinstance(value, Variable) else value, "shape", ()) for value in values],
        attrs,
        [np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None for value in values],
        [_handle(value, context) if isinstance(value, ResourceHandle) else None for value in values],
    )
    try:
        return list(kernel.shape(known))
    except (ShapeError, GraphBuildError):
        return None


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
