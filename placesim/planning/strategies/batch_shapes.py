"""Shapes of a training graph's tensors for the whole batch and for one of its equal parts.

A graph that was built for a fixed batch size has this size in constants: in shapes, in multiples of `Tile`, and in divisors of
means. `BatchShapes` infers all shapes twice, and finds the values of these constants for a part by three rules. A `Reshape`
keeps the place of the batch in row-major order. Constants in a gradient's scope are shapes of the forward node's tensors. Any
other constant is found when a shape function rejects the part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from placesim.core.errors import UsageError
from placesim.graph.graph import Node, TensorRef
from placesim.ops.attributes import TensorValue
from placesim.ops.categories import CONSTANTS, VARIABLES
from placesim.ops.kernels import has_trait, load_kernels
from placesim.ops.kernels.kernel import Trait
from placesim.ops.kernels.shapes import Dims, element_count, format_dims
from placesim.planning.strategies.training_graph import TrainingGraph, batch_dims
from placesim.runtime.shapes.graph_shapes import MAX_VALUE_ELEMENTS, GraphShapes

ASSUMED = (1009, 1013, 1019)
"""Numbers of examples for which shapes are inferred: primes, so that no other dimension is equal to one of them.

One is the size of a part. A part's real size could hide errors, since a dimension of 1 is broadcast. Another is the size of the
batch, if unknown.
"""

Array = np.ndarray[Any, Any]


class _Fitted(NamedTuple):
    """Values of a constant for the assumed and for the real number of examples in a part."""

    assumed: Array
    value: Array


class BatchShapes:
    """Shapes for the whole batch (`full`), and for a part (`part`) with an assumed number of examples.

    `split` maps constants that hold data of examples to their batch dimension. Each part has its own elements of them.
    `examples` is the number of examples in the shapes of `full`; it is assumed if the graph leaves it unknown.

    Raises UsageError for a batch or a tensor that cannot be divided into equal parts.
    """

    def __init__(self, training: TrainingGraph, parts: int) -> None:
        self.training = training
        self.parts = parts
        self._graph = training.graph
        self._part_graph = self._graph.copied()
        self.full = GraphShapes(self._graph)
        self.part = GraphShapes(self._part_graph)
        self._inferred: set[int] = set()
        self._fitted: dict[int, _Fitted] = {}
        self.split: dict[int, int] = {}
        self._outer: dict[TensorRef, int] = {}
        self._readers = self._graph.consumers()
        self.batch_size = self._find_batch_size()
        self._part_size, self.examples = ASSUMED[:2]
        if self.batch_size is not None:
            self._part_size = next(size for size in ASSUMED if self.batch_size % size)
            self.examples = self.batch_size
        for ref in training.batch:
            _, *others = batch_dims(self._graph, self.full, ref) or ()
            self.full.settle(ref.node, (self.examples, *others), ref.slot)
            self.part.settle(ref.node, (self._part_size, *others), ref.slot)
        self._forward = frozenset(training.forward)
        self._region = frozenset((*training.forward, *training.backward))
        order = [self._graph.nodes[number] for number in self._graph.runtime_order() if number in self._region]
        backward = frozenset(training.backward)
        for node in sorted(order, key=lambda node: node.id in backward):
            self._check(node)
            is_filled = node.id in backward and "grad_ys" in node.name and has_trait(node.op, Trait.TAKES_SHAPE)
            axis = self.axis(training.loss) if is_filled else None
            if axis is not None:  # the gradient of a loss for each example begins with ones
                self._demand(TensorRef(node.id, 0), axis, node)

    def constant(self, number: int) -> Array | None:
        """Return the value of a constant in a part with `1 / parts` of the examples; None if the value is unchanged."""
        found = self._fitted.get(number)
        return None if found is None else found.value

    def axis(self, ref: TensorRef) -> int | None:
        """Return the batch dimension of a tensor; None if it has none."""
        return next(iter(self._differing(ref)), None)

    def _differing(self, ref: TensorRef) -> list[int]:
        """Return the dimensions that differ between the whole batch and a part."""
        full, part = self.full.shape(ref), self.part.shape(ref)
        if full is None or part is None or len(full) != len(part):
            return []
        return [i for i, (size, own) in enumerate(zip(full, part, strict=True)) if size != own]

    def outer(self, ref: TensorRef) -> int:
        """Return the number of repetitions of the batch along its dimension: T if the dimension has T * batch rows."""
        return self._outer.get(ref, 1)

    def _find_batch_size(self) -> int | None:
        """Return the number of examples in the batch; None if the graph leaves it unknown."""
        sizes: dict[int, str] = {}
        for ref in self.training.batch:
            dims = batch_dims(self._graph, self.full, ref)
            name = self._graph.tensor_name(ref)
            if not dims:
                raise UsageError(f"no batch dimension: got {name} {format_dims(dims)}, expected a first dimension")
            if dims[0] >= 0:
                sizes.setdefault(dims[0], name)
        if len(sizes) > 1:
            found = ", ".join(f"{size} of {name}" for size, name in sizes.items())
            error = UsageError(f"different first dimensions: got {found}, expected the same batch for all inputs")
            error.help = ("name the inputs that hold the batch with --split",)
            raise error
        size = next(iter(sizes), None)
        if size is not None and (size % self.parts or size == 0):
            raise UsageError(
                f"cannot divide the batch into equal parts: got a batch of {size}, expected a multiple of {self.parts}"
            )
        return size

    # --- a node -----------------------------------------------------------------------------------------------------

    def _check(self, node: Node) -> None:
        """Find values of constants with which a node's shapes fit a part."""
        self._inferred.add(node.id)
        if node.op in CONSTANTS:
            self._fit_gradient_constant(node)
            return
        self._refuse_size_attrs(node)
        if node.op in _FITTED:
            _FITTED[node.op](self, node)
        self.full.outputs(node.id)
        while self._is_refused(node):
            if not self._resolve(node):
                shapes = ", ".join(format_dims(self.full.shape(ref)) for ref in node.inputs)
                raise UsageError(
                    f"cannot divide the batch: got {node.name} ({node.op}) of {shapes}, expected an op that also accepts "
                    f"1 / {self.parts} of the batch"
                )
        for slot in range(len(node.signature.output_dtypes)):
            self._check_output(node, TensorRef(node.id, slot))

    def _is_refused(self, node: Node) -> bool:
        return self.part.refusal(node.id) is not None and self.full.refusal(node.id) is None

    def _refuse_size_attrs(self, node: Node) -> None:
        if node.op == "Unpack":
            axis = self.axis(next(node.inputs))
            dims = self.full.shape(next(node.inputs)) or ()
            if axis is not None and axis == node.attrs.get("axis", 0) % len(dims):
                raise UsageError(
                    f"cannot divide the batch: got {node.name} (Unpack) along the batch's dimension, expected another axis"
                )

    def _check_output(self, node: Node, ref: TensorRef) -> None:
        full, part = self.full.shape(ref), self.part.shape(ref)
        if full is None or part is None:
            return
        name = f"{self._graph.tensor_name(ref)} ({node.op}) {format_dims(full)}"
        differing = self._differing(ref)
        if len(differing) > 1 or len(full) != len(part):
            raise UsageError(f"examples depend on each other: got {name}, expected the batch in one dimension")
        for i in differing:
            if full[i] * self._part_size != part[i] * self.examples:
                raise UsageError(
                    f"cannot divide the batch: got {name}, expected a multiple of the batch size in this dimension"
                )
            if ref not in self._outer:
                self._outer[ref] = self._repetition(node, full[i])

    def _repetition(self, node: Node, size: int) -> int:
        """Return the value of `outer` for an output whose batch dimension has this size."""
        repetitions = []
        for ref in node.inputs:
            axis = self.axis(ref)
            if axis is not None:
                rows = (self.full.shape(ref) or ())[axis]
                repetitions.append(self.outer(ref) * (size // rows if size > rows else 1))
        return max(repetitions, default=1)

    # --- rules ------------------------------------------------------------------------------------------------------

    def _fit_reshape(self, node: Node) -> None:
        """Keep the place of the batch in row-major order: the elements before it stay the same."""
        data, dims = node.inputs
        axis = self.axis(data)
        full_in, full_out = self.full.shape(data), self.full.outputs(node.id)[0]
        if axis is None or full_in is None or full_out is None or any(dim <= 0 for dim in full_out):
            return
        before = math.prod(full_in[:axis]) * self.outer(data)
        for i, size in enumerate(full_out):
            first = math.prod(full_out[:i])
            if before % first == 0 and size % (before // first * self.examples) == 0:
                self._outer[TensorRef(node.id, 0)] = before // first
                self._fit_element(dims, i, size)
                return
        raise UsageError(
            f"cannot divide the batch: got {node.name} (Reshape) from {format_dims(full_in)} to {format_dims(full_out)}, "
            "expected the batch in one dimension"
        )

    def _fit_slice(self, node: Node) -> None:
        """Change a slice of the whole batch to a slice of the whole part."""
        data, _, sizes = node.inputs
        axis, dims, value = self.axis(data), self.full.shape(data) or (), self.full.value(sizes)
        if axis is not None and value is not None and value[axis] == dims[axis]:
            self._fit_element(sizes, axis, dims[axis])

    def _fit_gradient_constant(self, node: Node) -> None:
        """Set a constant in a gradient's scope: a shape, multiples, or the divisor of a mean, of the forward node."""
        forward = None if node.id in self._forward else self.training.forward_node(node)
        value: Array = node.attrs["value"].array
        if forward is None or forward.op == "Transpose" or node.id in self._fitted or value.size > MAX_DIMS:
            return
        refs = [*forward.inputs, *(TensorRef(forward.id, i) for i in range(len(forward.signature.output_dtypes)))]
        pairs = [(self.full.shape(ref), self.part.shape(ref)) for ref in refs]
        if value.ndim == 1 and value.dtype.kind in "iu":
            fitted = self._fit_vector(value, pairs)
            if fitted is not None:
                self._set(node, fitted, np.where(fitted == value, value, value // self.parts))
        elif value.ndim == 0 and has_trait(forward.op, Trait.AVERAGES):
            (full_in, part_in), *_, (full_out, part_out) = pairs
            if full_in is None or part_in is None or full_out is None or part_out is None:
                return
            full, part = (math.prod(a) // max(1, math.prod(b)) for a, b in ((full_in, full_out), (part_in, part_out)))
            if value == full != part:
                self._set(node, np.array(part, value.dtype), value // self.parts)

    @staticmethod
    def _fit_vector(value: Array, pairs: list[tuple[Dims, Dims]]) -> Array | None:
        """Return the vector with the sizes of a part, from the tensor with this shape or a tensor of the same rank."""
        known = [(full, part) for full, part in pairs if full is not None and part is not None and len(full) == value.size]
        same = [pair for pair in known if pair[0] == tuple(value)]
        for full, part in same or known:
            fitted = [own if size == whole else size for size, whole, own in zip(value.tolist(), full, part, strict=True)]
            if fitted != value.tolist():
                return np.array(fitted, value.dtype)
        return None

    # --- search -----------------------------------------------------------------------------------------------------

    def _resolve(self, node: Node) -> bool:
        """Change a constant because of which a node's shape function rejects a part. Return whether one was found."""
        sizes = {}
        for ref in node.inputs:
            axis, full = self.axis(ref), self.full.shape(ref)
            if axis is not None and full is not None:
                sizes[ref] = full[axis], axis, axis - len(full)
        for ref in node.inputs:
            dims = self.full.shape(ref)
            if ref in sizes or dims is None:
                continue
            if len(dims) == 1 and self._fit_value(node, ref):
                return True
            for size, axis, from_end in sizes.values():
                for i in (axis, len(dims) + from_end):
                    if 0 <= i < len(dims) and dims[i] == size and self._demand(ref, i, node):
                        return True
        return False

    def _fit_value(self, node: Node, ref: TensorRef) -> bool:
        """Change the first element of a vector of sizes for which the change makes a node fit a part.

        Return whether one was found.
        """
        value = self.full.value(ref)
        if value is None or value.dtype.kind not in "iu":
            return False
        for i, size in enumerate(value.tolist()):
            if size > 0 and size % self.examples == 0:
                before = dict(self._fitted)
                self._fit_element(ref, i, size)
                if not self._is_refused(node):
                    return True
                self._restore(before)
        return False

    def _demand(self, ref: TensorRef, axis: int, reader: Node) -> bool:
        """Change the constants from which a tensor is made so that a dimension is the batch dimension."""
        if self.axis(ref) is not None:
            return True
        node = self._graph.nodes[ref.node]
        dims = self.full.shape(ref) or ()
        if node.op in VARIABLES or ref.node not in self._region:
            raise UsageError(
                f"cannot divide the batch: {node.name} ({node.op}) {format_dims(dims)} is not divided, but {reader.name} reads "
                f"it together with a divided tensor. If dimension {axis} of {node.name} is the batch, add --split {node.name}"
            )
        if node.op in CONSTANTS:
            value: Array = node.attrs["value"].array
            rows = value.shape[axis]
            if not (value == value.take([0], axis)).all():
                self.split[node.id] = axis
            assumed = value.take([0] * (rows // self.examples * self._part_size), axis)
            self._set(node, assumed, value.take(range(rows // self.parts), axis))
        elif node.op == "Tile" and (multiples := self.full.value([*node.inputs][1])) is not None:
            if multiples[axis] % self.parts == 0:
                self._fit_element([*node.inputs][1], axis, int(multiples[axis]))
        elif has_trait(node.op, Trait.TAKES_SHAPE):
            context = self.full.context(node)
            load_kernels()[node.op].shape(context)
            for place in context.used_partial_shapes:
                self._fit_element([*node.inputs][place], axis, dims[axis])
        else:
            for source in node.inputs:
                own_dims = self.full.shape(source)
                i = axis - len(dims) + len(own_dims or ())
                if own_dims is not None and 0 <= i < len(own_dims) and own_dims[i] == dims[axis]:
                    self._demand(source, i, node)
        self._check_again(node)
        return self.axis(ref) is not None

    def _check_again(self, node: Node) -> None:
        for slot in range(len(node.signature.output_dtypes)):
            self._check_output(node, TensorRef(node.id, slot))

    def _fit_element(self, ref: TensorRef, index: int, size: int) -> None:
        """Divide an element of a vector of sizes, if the vector is made of constants and the element is not divided yet."""
        node = self._graph.nodes[ref.node]
        if node.op in CONSTANTS:
            original: Array = node.attrs["value"].array
            assumed, own = (array.copy() for array in self._fitted.get(node.id, (original, original)))
            rows = size // self.examples * self._part_size
            has_room = assumed.dtype.kind not in "iu" or rows <= np.iinfo(assumed.dtype).max
            if has_room and assumed.size > index and assumed.reshape(-1)[index] == size:
                assumed.reshape(-1)[index] = rows
                own.reshape(-1)[index] = size // self.parts
                self._set(node, assumed, own)
        elif has_trait(node.op, Trait.MOVES_ELEMENTS) or has_trait(node.op, Trait.PASSES_ON):
            source = self._moved_from(node, ref.slot, index)
            if source is not None:
                self._fit_element(*source, size)
        elif has_trait(node.op, Trait.MULTIPLIES):
            by_origin = sorted(node.inputs, key=lambda factor: self._graph.nodes[factor.node].op in CONSTANTS)
            values = [(factor, self.full.value(factor)) for factor in by_origin]
            sizes = [(factor, int(value)) for factor, value in values if value is not None and value.ndim == 0]
            for factor, number in [pair for pair in sizes if pair[1] % self.examples == 0][:1]:
                self._fit_element(factor, 0, number)

    def _moved_from(self, node: Node, slot: int, index: int) -> tuple[TensorRef, int] | None:
        """Return the element of an input that an op passes on as an element of its output; None if this is unknown.

        The kernel moves numbers in place of the elements: each element has its own.
        """
        kernel, context, moved = load_kernels()[node.op], self.full.context(node), moved_inputs(node)
        sources: list[tuple[TensorRef, int]] = []
        given: list[Array | None] = []
        for place, ref in enumerate(node.inputs):
            if place not in moved:
                given.append(context.known_value(place))
                continue
            dims, first = context.shapes[place], len(sources)
            count = element_count(dims)
            if count is None or count > MAX_VALUE_ELEMENTS:
                return None
            sources += [(ref, i) for i in range(count)]
            given.append(np.arange(first, first + count).reshape(dims or ()))
        if kernel.needs_context or any(value is None for value in given):
            return None
        numbers = np.asarray(kernel.compute(given, context.attrs)[slot]).reshape(-1)
        return sources[int(numbers[index])] if index < numbers.size else None

    # --- changes ----------------------------------------------------------------------------------------------------

    def _set(self, node: Node, assumed: Array, value: Array) -> None:
        """Set the value of a constant in a part, and forget all shapes that depend on it."""
        self._fitted[node.id] = _Fitted(assumed, value)
        attrs = dict(node.attrs) | {"value": TensorValue(node.attrs["value"].dtype, assumed)}
        self._part_graph.nodes[node.id] = Node(node.id, node.name, node.signature, attrs)
        for changed in self._dependents(node.id):
            self.part.forget(changed)

    def _restore(self, before: Mapping[int, _Fitted]) -> None:
        """Undo all changes of constants after `before`."""
        for number in [number for number, fitted in self._fitted.items() if fitted is not before.get(number)]:
            original: Array = self._graph.nodes[number].attrs["value"].array
            self._set(self._graph.nodes[number], *before.get(number, (original, original)))
            if number not in before:
                del self._fitted[number]

    def _dependents(self, number: int) -> Iterator[int]:
        """Yield a node and all nodes that depend on it, if their shapes have been inferred."""
        waiting, seen = [number], {number}
        while waiting:
            current = waiting.pop()
            yield current
            new = {reader for reader in self._readers[current] if reader in self._inferred and reader not in seen}
            seen |= new
            waiting += new


def moved_inputs(node: Node) -> list[int]:
    """Return the positions of the inputs whose elements an op moves, rather than axes and indices.

    These have the output's type; a single input may have another.
    """
    definition, attrs = node.signature.definition, node.signature.attrs
    if definition is None or len(node.input_nodes) == 1:
        return [*range(len(node.input_nodes))]
    keys = [arg.type_attr for arg in definition.inputs for _ in arg.dtypes(attrs)]
    return [place for place, key in enumerate(keys) if key == definition.outputs[0].type_attr]


MAX_DIMS = 254
_FITTED: Mapping[str, Callable[[BatchShapes, Node], None]] = {
    "Reshape": BatchShapes._fit_reshape,
    "Slice": BatchShapes._fit_slice,
}
"""Rules for ops whose shape functions accept sizes of the whole batch even in a part."""
