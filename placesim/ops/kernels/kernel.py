"""Definition of a kernel: an op's function, its shape function and its cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from inspect import unwrap
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import InternalError
from placesim.core.files.access import NO_FILES, FileAccess
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import ELEMENTWISE, CostModel
from placesim.ops.kernels.device_resources import ResourceManager
from placesim.ops.kernels.memory_rules import MemoryRule
from placesim.ops.kernels.shapes import Dims, ShapeContext, ShapeFunction
from placesim.ops.process.memory_limit import check_room

Tensor = np.ndarray[Any, Any]
"""A value passed between ops: an array or numpy scalar, or for a scalar resource or variant the object itself."""

Compute = Callable[..., Sequence[Any]]
"""A function `(inputs, attrs) -> outputs`; with `needs_context`, `(inputs, attrs, context) -> outputs`."""

Flops = Callable[[Sequence[Dims], Sequence[Dims], Attrs], int]
"""A function `(input shapes, output shapes, attrs) -> floating point operations`; all shapes must be fully known."""


SizeGuess = Callable[[ShapeContext, int], int | None]
"""A function `(inputs, output number) -> size` for an output's dimension that depends on values; None without a guess."""

MixedDims = Callable[[ShapeContext], Sequence[int] | None]
"""A function `(inputs) -> dimensions` of the first input, as positions or negative positions; None if they are unknown."""


class KernelWait(Exception):
    """Raised by a kernel with `may_wait` that cannot run yet, such as for an empty queue; the executor runs it again later."""


class Trait(Flag):
    """A property of an op's kernel that an executor, a dry run, a shape check or a training strategy may rely on."""

    HANDS_ON = auto()
    """The outputs are inputs, parts of inputs, existing tensors or a few numbers: their sizes need no check."""
    SHARES_MEMORY = auto()
    """The output is the first input's memory."""
    PASSES_ON = auto()
    """The outputs, if any, are the first inputs; a dry run need not write the kernel's messages."""
    TAKES_OBJECTS = auto()
    """Accepts elements of any type, as only their number and order matter."""
    MOVES_ELEMENTS = auto()
    """Only moves elements, so known elements stay known among unknown ones."""
    CONTEXT_NAMES = auto()
    """Needs a context only to name nodes in its errors."""
    NEW_MEMORY = auto()
    """Returns newly allocated memory, so that following elementwise ops can work in place."""
    SPELLS_SIZE = auto()
    """An input of any type may determine an output's size."""
    MEETS_OTHERS = auto()
    """Waits for the inputs of the other members of its collective, not for the node that ran last."""
    GUESSES_MOST = auto()
    """The guess is the largest size that an output can have."""
    TAKES_SHAPE = auto()
    """An input's value, the only one that the shape function reads as a shape, is the shape of the output."""
    GIVES_ELEMENTS = auto()
    """The outputs are the next element of a dataset or queue, or a batch of elements."""
    LINEAR = auto()
    """Linear in the first input, if the others are constant; so are kernels that only move elements or pass them on."""
    ADDS = auto()
    """The output is the sum or the difference of the inputs."""
    MULTIPLIES = auto()
    """The output is the product of the inputs, by elements."""
    DIVIDES = auto()
    """The output is the first input divided by the second, by elements."""
    SUMS = auto()
    """Adds elements, or products of elements, along each dimension that the outputs lack."""
    AVERAGES = auto()
    """Outputs that lack dimensions of the first input have averages along these dimensions."""
    FILLS = auto()
    """The output has the shape of the input, and the same value in all elements."""


PLAIN = Trait(0)
"""No trait."""


class Kernel(NamedTuple):
    """An op's numpy kernel, with its shape function and its cost.

    `direct` is for an op without attrs and with one output: a function of the input tensors with the same result as `compute`.
    If it raises, the executor calls `compute` for the error's text. `may_wait` means that the kernel may raise `KernelWait`, so
    a step with it has no fixed order.

    `memory` says how the kernel uses its inputs' buffers, and what it allocates beside its outputs; a kernel without a rule
    only allocates its outputs. `in_place` is for an elementwise op of one or two inputs, or an op along rows: a function that
    writes the result to `out`, which may be an input. `cost` selects the formulas that predict the kernel's time.

    `guess` is for an op whose output sizes depend on values: the size that a dry run assumes, most often the largest possible.
    `last_outputs` are shapes that the last outputs always have, although the shape function leaves them unknown.

    `mixes` is for an op that combines, selects or moves elements along some dimensions of the first input, which the output has
    too: it returns these dimensions.
    """

    compute: Compute
    shape: ShapeFunction
    flops: Flops | None = None
    direct: Callable[..., Any] | None = None
    needs_context: bool = False
    may_wait: bool = False
    memory: MemoryRule | None = None
    traits: Trait = PLAIN
    in_place: Callable[..., object] | None = None
    cost: CostModel = ELEMENTWISE
    guess: SizeGuess | None = None
    last_outputs: tuple[tuple[int, ...], ...] = ()
    mixes: MixedDims | None = None

    @property
    def is_numpy_function(self) -> bool:
        """Whether `direct` is a function of numpy, or such a function on parts of a large tensor."""
        return self.direct is not None and isinstance(unwrap(self.direct), np.ufunc)


Table = dict[str, Kernel]


@dataclass(slots=True)
class KernelContext:
    """The context of a kernel with state.

    `node_state` is the node's own state (such as a generator's position), kept from step to step. `resources` has the resources
    of the device. `step_resources` (stacks, tensor arrays) end with the step. `files` says which files the kernel may open.
    """

    node: str
    device: str
    resources: ResourceManager
    node_state: dict[str, Any] = field(default_factory=dict)
    step_resources: dict[str, Any] = field(default_factory=dict)
    call_function: Callable[..., Sequence[Any]] | None = None
    input_names: tuple[str, ...] = ()
    files: FileAccess = NO_FILES


def uses_context(kernel: Kernel) -> bool:
    """Whether a kernel's result may depend on its context."""
    return kernel.needs_context and Trait.CONTEXT_NAMES not in kernel.traits


def elements(dims: Dims) -> int:
    """Return the number of elements of a known shape."""
    return math.prod(dims or ())


def as_many_as(*positions: int) -> SizeGuess:
    """Return the guess that an output has as many rows as these inputs have elements together."""
    return lambda context, output: sum(elements(context.shapes[position]) for position in positions)


def along(dim: int) -> MixedDims:
    """Return the function of a kernel that mixes elements along one dimension, the same for all inputs."""
    return lambda context: (dim,)


def along_dims_in(position: int) -> MixedDims:
    """Return the function of a kernel that mixes elements along the dimensions in the value of an input."""

    def mixed(context: ShapeContext) -> Sequence[int] | None:
        found = context.known_value(position)
        return None if found is None else [int(dim) for dim in found.reshape(-1)]

    return mixed


def per_element(position: int, count: int = 1) -> Flops:
    """Return a cost of `count` floating point operations per element of an input."""
    return lambda inputs, outputs, attrs: count * elements(inputs[position])


def one_per_output(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """Return one floating point operation per element of the first output."""
    return elements(outputs[0])


def elements_of_rows(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """Return the number of elements in the rows of the first input at the indices of the second."""
    return elements(inputs[1]) * elements((inputs[0] or ())[1:])


def is_expensive(kernel: Kernel) -> bool:
    """Whether an op does more than constant work per element, so that it may run in its own thread."""
    return kernel.flops is not None and kernel.flops is not one_per_output


def zeros(shape: tuple[int, ...], dtype: DataType) -> Tensor:
    """Return a tensor of zeros; a string's zero is the empty string. Raises AllocationRefusal without room for it."""
    check_room(shape, dtype)
    return np.full(shape, b"", object) if dtype is STRING else np.zeros(shape, dtype.numpy)


def undeclared_type(context: KernelContext, given: str, declared: DataType, index: int = 0) -> InternalError:
    """Return the error of TensorFlow's executor for an output of type `given` if the node's attrs declare another type."""
    return InternalError(
        f"Output {index} of type {given} does not match declared output type {declared.name} "
        f"for node {{{{node {context.node}}}}}"
    )
