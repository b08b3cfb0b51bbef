"""Abstract kernels for dry runs, on tensors with known shapes and types but unknown elements (sketches).

Kernels compute as usual if their inputs are known and small, such as shapes, loop counters and conditions. For large or unknown
inputs, the kernel's shape function determines the shapes of the outputs. A node that needs an unknown value raises an error
that names the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from placesim.core.dtypes import VARIANT
from placesim.core.errors import FailedPreconditionError, GraphBuildError, InvalidArgumentError
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import node_tag
from placesim.ops.attributes import Attrs, Shape, names_functions
from placesim.ops.categories import BRANCHES, CASES, LOOPS, SHAPE_OPS
from placesim.ops.kernels.abstract_tensor import NOTHING, UNTOLD, Sketch, SketchedValueError
from placesim.ops.kernels.device_resources import ResourceHandle, VariableResource, value_dims
from placesim.ops.kernels.kernel import Kernel, KernelContext, Trait
from placesim.ops.kernels.shapes import Dims, HandleShape, ShapeContext, ShapeError, format_dims, is_fully_defined
from placesim.ops.process.memory_limit import AllocationRefusal
from placesim.runtime.dry_runs.assumptions import TWO_WAYS, Assumptions, OpenTensor
from placesim.runtime.shapes.graph_shapes import MAX_VALUE_ELEMENTS

MAX_KNOWN_ELEMENTS = 1024
"""Maximum number of elements of a tensor whose values are known in a dry run."""
_ABSORBING: Mapping[Any, bool] = {np.logical_and: False, np.logical_or: True}
"""Logical functions, each with the input value that determines the result alone."""
MAX_ROOTS = 8
"""Maximum number of feeds that an error names for a value; if the value depends on more, the error names none."""
_NOT_FOR_SKETCHES = (SketchedValueError, AttributeError, TypeError, ValueError, IndexError, AllocationRefusal)
"""Errors of a kernel that tries to read the elements of a sketch."""


_Arguments = tuple[Sequence[Any], Attrs, Sequence[KernelContext]]


def sketch_kernel(kernel: Kernel, graph: Graph, node: Node, guesses: Assumptions) -> Kernel:
    """Return the abstract kernel of a node, which raises SketchedValueError if an output's shape is unknown."""
    if node.op in SHAPE_OPS:
        return kernel
    compute, dtypes, is_ref = kernel.compute, node.signature.output_dtypes, node.signature.output_is_ref
    if Trait.PASSES_ON in kernel.traits:
        return kernel._replace(compute=lambda values, attrs, *context: values[: len(dtypes)], direct=None)
    if (guesses.is_free and node.op in BRANCHES) or (node.op in LOOPS and guesses.tells(node.name)):
        kernel = kernel._replace(compute=_with_guesses(kernel, node, guesses))
        compute = kernel.compute

    absorbing, moves_elements = _ABSORBING.get(kernel.direct), Trait.MOVES_ELEMENTS in kernel.traits
    gives_elements = Trait.GIVES_ELEMENTS in kernel.traits
    # kernels with a context, and kernels of lists, accept sketches if they only pass tensors on
    may_hand_on = kernel.needs_context or VARIANT in (*node.signature.input_dtypes, *dtypes)

    def walk(values: Sequence[Any], attrs: Attrs, *context: KernelContext) -> Sequence[Any]:
        is_known = _is_known(values)
        if not is_known and may_hand_on:
            try:
                return compute(values, attrs, *context)
            except _NOT_FOR_SKETCHES as error:
                if isinstance(error, SketchedValueError) and names_functions(attrs):
                    raise error if error.node else unknown_choice(graph, node, values[:1]) from None
        if not is_known and absorbing is not None:
            absorbed = _absorbed(values, absorbing)
            if absorbed is not None:
                return (absorbed,)
        shapes = _shapes(kernel, values, attrs, context, is_known=is_known)
        if is_known and (shapes is None or any(is_ref) or _are_small(shapes)):
            try:
                return compute(values, attrs, *context)
            except SketchedValueError as error:
                # a resource has unknown contents
                if shapes is None or any(is_ref) or names_functions(attrs):
                    raise error if error.node else unknown_choice(graph, node, values) from None
                is_known = False
            except FailedPreconditionError:
                if not gives_elements or not guesses.is_free:
                    raise
                # no step begins the iterator, so its elements are as the node declares them
                guesses.iterated.setdefault(node.name)
        outputs = _sketch_outputs(kernel, graph, node, guesses, (values, attrs, context), shapes)
        if moves_elements and not is_known:
            _know_some(outputs, compute, values, attrs)
        return outputs

    return kernel._replace(compute=walk, direct=None, in_place=None)


def _sketch_outputs(
    kernel: Kernel, graph: Graph, node: Node, guesses: Assumptions, given: _Arguments, shapes: Sequence[Dims] | None
) -> list[Any]:
    """Return the outputs of a kernel for the arguments `given`: references as they are, and sketches of all others.

    Raises SketchedValueError for an output whose shape is unknown, and for which none is assumed.
    """
    values, dtypes, always = given[0], node.signature.output_dtypes, kernel.last_outputs
    found: list[Dims] = [None] * len(dtypes) if shapes is None else [*shapes]
    found[len(found) - len(always) :] = always
    roots = _roots(values)
    inherited = NOTHING if guesses.dimension is None else _opened_by(values)
    outputs: list[Any] = []
    for slot, (dims, dtype, ref) in enumerate(zip(found, dtypes, node.signature.output_is_ref, strict=True)):
        if ref:
            outputs.append(values[0])
            continue
        causes = inherited
        if dims is None or not is_fully_defined(dims):
            needed = _needed_roots(kernel, *given)
            guess = None if kernel.guess is None else kernel.guess(ShapeContext(*_known_of(*given)), slot)
            most = guess if Trait.GUESSES_MOST in kernel.traits else None
            dims = guesses.settled(id(graph), slot, OpenTensor(node.name, dims), guess, most)
            if dims is None or not is_fully_defined(dims):
                text = f"The shape of {node_tag(node.name)} is known only at run time: {format_dims(dims)}"
                raise _error(text, graph, node, needed)
            if (id(graph), node.name, slot) in guesses.opened:
                causes = inherited | (needed or {UNTOLD})
        made = Sketch(dims, dtype, node.name, roots)
        if causes:
            made.opened_by = causes
            guesses.causes[id(graph), node.name, slot] = causes
        outputs.append(made)
    return outputs


def unknown_choice(graph: Graph, node: Node, values: Sequence[Any]) -> SketchedValueError:
    """Return the error for a node that can't decide which function to run, or how often, because `values` are unknown."""
    return _error(f"The work of {node_tag(node.name)} depends on a value known only at run time", graph, node, _roots(values))


def _error(text: str, graph: Graph, node: Node, roots: frozenset[str] | None) -> SketchedValueError:
    error = SketchedValueError(text, node=node.name, location=graph.location(node))
    error.roots = roots
    return error


def _with_guesses(kernel: Kernel, node: Node, guesses: Assumptions) -> Callable[..., Sequence[Any]]:
    """Return the compute function of a node that calls functions; it assumes decisions that depend on unknown values."""
    compute = kernel.compute

    def choose(values: Sequence[Any], attrs: Attrs, *context: KernelContext) -> Sequence[Any]:
        decider = values[0]
        if isinstance(decider, Sketch):
            if node.op in CASES:
                taken = np.array(guesses.branch(decider.origin, len(attrs["branches"])), np.int32)
            elif decider.shape:
                taken = np.array(decider.size > 0)
            else:
                taken = np.array(guesses.branch(decider.origin, TWO_WAYS) == 1)
            values = (taken, *values[1:])
        return compute(values, attrs, *context)

    def repeat(values: Sequence[Any], attrs: Attrs, *context: KernelContext) -> Sequence[Any]:
        if any(isinstance(value, Sketch) for value in values[:3]):
            values = (*(np.array(n, np.int32) for n in (0, guesses.iterations_of(node.name), 1)), *values[3:])
        return compute(values, attrs, *context)

    def loop(values: Sequence[Any], attrs: Attrs, context: KernelContext) -> Sequence[Any]:
        passed = 0
        call = context.call_function

        def call_guessing(function: Any, inputs: Sequence[Any], device: str) -> Sequence[Any]:
            nonlocal passed
            assert call is not None
            results = call(function, inputs, device)
            if function is not attrs["cond"]:
                return results
            number, passed = passed, passed + 1
            if len(results) != 1 or not isinstance(results[0], Sketch):
                return results
            held = results[0]
            return [np.array(held.size > 0 if held.shape else guesses.goes_on(node.name, number))]

        return compute(values, attrs, context if call is None else replace(context, call_function=call_guessing))

    if node.op in BRANCHES:
        return choose
    return repeat if node.op == "For" else loop


def _absorbed(values: Sequence[Any], absorbing: bool) -> Any:
    """Return the known scalar among `values` that equals `absorbing`, and so determines the result; None if there is none."""
    if any(value.ndim for value in values):
        return None
    return next((value for value in values if not isinstance(value, Sketch) and bool(value) is absorbing), None)


def _opened_by(values: Sequence[Any]) -> frozenset[str]:
    """Return the feeds that would have determined the assumed shapes of a node's inputs."""
    found = NOTHING
    for value in values:
        held = value.value if isinstance(value, VariableResource) else value
        if isinstance(held, Sketch) and held.opened_by is not found:
            found = found | held.opened_by if found else held.opened_by
    return found


def _know_some(outputs: Sequence[Any], compute: Callable[..., Sequence[Any]], values: Sequence[Any], attrs: Attrs) -> None:
    """Set the known elements of the outputs of an op that rearranges small integer tensors."""
    if any(made.dtype.kind not in "iu" or made.size > MAX_VALUE_ELEMENTS for made in outputs):
        return
    given = [_partly(value) for value in values]
    if any(value is None for value in given):
        return
    with suppress(InvalidArgumentError, *_NOT_FOR_SKETCHES):
        for made, array in zip(outputs, compute(given, attrs), strict=True):
            made.known = np.asarray(array)


def _partly(value: Any) -> Any:
    """Return a value with -1 for each unknown element; None for a sketch that has too many elements or is not of integers."""
    if not isinstance(value, Sketch):
        return value
    if value.known is not None:
        return value.known
    return np.full(value.shape, -1, value.dtype) if value.dtype.kind == "i" and value.size <= MAX_VALUE_ELEMENTS else None


def _roots(values: Sequence[Any]) -> frozenset[str] | None:
    """Return the feeds that together determine these values; None if they depend on other things or on too many feeds."""
    found: frozenset[str] = frozenset()
    for value in values:
        held = value.value if isinstance(value, VariableResource) else value
        if isinstance(held, Sketch) and held.roots is not found:
            if held.roots is None:
                return None
            found = found | held.roots if found else held.roots
    return found if 0 < len(found) <= MAX_ROOTS else None


def _needed_roots(
    kernel: Kernel, values: Sequence[Any], attrs: Attrs, context: Sequence[KernelContext]
) -> frozenset[str] | None:
    """Return the feeds that would determine the shape of a node's output; None if no feeds would.

    These are the feeds of the unknown values that the shape function reads; if it reads none, the feeds of all inputs.
    """
    asking = _ValueQuestions(*_known_of(values, attrs, context))
    with suppress(ShapeError, GraphBuildError):
        kernel.shape(asking)
    return _roots([values[index] for index in sorted(asking.asked)] or values)


def _is_known(values: Sequence[Any]) -> bool:
    """Whether all of a node's inputs are known and have few elements."""
    elements = 0
    for value in values:
        held = value.value if isinstance(value, VariableResource) else value
        if isinstance(held, Sketch):
            return False
        elements += getattr(held, "size", 1)
    return elements <= MAX_KNOWN_ELEMENTS


def _shapes(
    kernel: Kernel, values: Sequence[Any], attrs: Attrs, context: Sequence[KernelContext], *, is_known: bool
) -> list[Dims] | None:
    """Return the result of the shape function; None if it fails for known values, because the kernel's error is better."""
    try:
        return list(kernel.shape(ShapeContext(*_known_of(values, attrs, context))))
    except (ShapeError, GraphBuildError) as error:
        if is_known:
            return None
        raise InvalidArgumentError(error.message) from None


def _known_of(
    values: Sequence[Any], attrs: Attrs, context: Sequence[KernelContext]
) -> tuple[list[Dims], Attrs, list[Any], list[HandleShape | None], list[Dims]]:
    """Return the arguments of a ShapeContext: the inputs' shapes, the attrs, values, handles, and partly known shapes."""
    return (
        [value_dims(value.value if isinstance(value, VariableResource) else value) for value in values],
        attrs,
        [np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None for value in values],
        [_handle(value, context) if isinstance(value, ResourceHandle) else None for value in values],
        [_spelled(value) for value in values],
    )


def _spelled(value: Any) -> Dims:
    """Return the elements of a sketch as a shape, with -1 for unknown dimensions; None if it is not a partly known vector."""
    known = value.known if isinstance(value, Sketch) else None
    return None if known is None or known.ndim != 1 else tuple(map(int, known))


class _ValueQuestions(ShapeContext):
    """Context of a shape function that records the unknown values for which it asks, by input position."""

    def __init__(self, *known: Any) -> None:
        super().__init__(*known)
        self.asked: set[int] = set()

    def known_value(self, index: int) -> np.ndarray[Any, Any] | None:
        found = super().known_value(index)
        if found is None:
            self.asked.add(index)
        return found


def _handle(handle: ResourceHandle, context: Sequence[KernelContext]) -> HandleShape | None:
    """Return the type and shape of the variable behind a handle: of its value, or without a value, those that are declared."""
    variable = context[0].resources.find(handle) if context else None
    if isinstance(variable, VariableResource) and variable.value is not None:
        return HandleShape(variable.dtype, tuple(variable.value.shape))
    if handle.dtype is None or not isinstance(handle.tensor_shape, Shape):
        return None
    return HandleShape(handle.dtype, handle.tensor_shape.dims)


def _are_small(shapes: Sequence[Dims]) -> bool:
    return all(dims is None or not is_fully_defined(dims) or math.prod(dims) <= MAX_KNOWN_ELEMENTS for dims in shapes)
