"""Definition of a kernel: one row with the function of an op, its shape function and its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Any, NamedTuple

import numpy as np

from placesim.core.dtypes import STRING, DataType
from placesim.core.errors import InternalError
from placesim.core.files.access import NO_FILES, FileAccess
from placesim.ops.attributes import Attrs
from placesim.ops.kernels.cost_model import ELEMENTWISE, CostModel
from placesim.ops.kernels.device_resources import ResourceManager
from placesim.ops.kernels.memory_rules import MemoryRule
from placesim.ops.kernels.shapes import Dims, ShapeFunction
from placesim.ops.process.memory_limit import check_room

Tensor = np.ndarray[Any, Any]
"""A value between ops: an array (numpy's scalars are taken too), or for a scalar resource or variant the object itself."""

Compute = Callable[..., Sequence[Any]]
"""`(inputs, attrs) -> outputs`; with `needs_context` `(inputs, attrs, context) -> outputs`."""

Flops = Callable[[Sequence[Dims], Sequence[Dims], Attrs], int]
"""`(input shapes, output shapes, attrs) -> floating point operations`, where all shapes are fully known."""


class KernelWait(Exception):
    """Raised by a kernel with `may_wait` that cannot continue yet (an empty or full queue); it is tried again later."""


class Trait(Flag):
    """A property of an op's kernel that an executor, a dry run or a shape check may rely on."""

    HANDS_ON = auto()
    """Returns its input, a part of it, an existing tensor or a few numbers: output sizes need no check."""
    SHARES_MEMORY = auto()
    """Its output is its first input's memory."""
    PASSES_ON = auto()
    """Hands on its first inputs, if anything; what it writes for a reader, a dry run has nobody to write for."""
    TAKES_OBJECTS = auto()
    """Accepts elements of any type, using only their number and order."""
    MOVES_ELEMENTS = auto()
    """Only moves elements, so that known elements stay known among unknown ones."""
    CONTEXT_NAMES = auto()
    """Needs a context only for names in its errors."""
    NEW_MEMORY = auto()
    """Returns newly allocated memory, so that following elementwise ops can work in place."""
    SPELLS_SIZE = auto()
    """Each input may determine an output's size, whatever its type."""


class Kernel(NamedTuple):
    """An op's numpy kernel, beside its shape function and its cost.

    `direct`: for an op that needs no attrs and gives one output, a function of the input tensors alone that gives the same
    tensor as `compute`; where it raises, the executor calls `compute` for the error's text.  `may_wait`: the kernel may raise
    `KernelWait`, so that the order of a step that holds it can't be fixed beforehand.  `memory`: what it does with its inputs'
    buffers and what it allocates beside its outputs; without a rule it allocates these and nothing else.  `in_place`: for an
    elementwise op of one or two inputs, or one along rows, a function that puts the same into `out`, which may be an input.
    `cost`: the formulas that predict how long it takes.
    """

    compute: Compute
    shape: ShapeFunction
    flops: Flops | None = None
    direct: Callable[..., Any] | None = None
    needs_context: bool = False
    may_wait: bool = False
    memory: MemoryRule | None = None
    traits: Trait = Trait(0)
    in_place: Callable[..., object] | None = None
    cost: CostModel = ELEMENTWISE


Table = dict[str, Kernel]


@dataclass(slots=True)
class KernelContext:
    """Context of a kernel with state.

    `node_state` is the node's own (a generator's position), kept from step to step; `resources` are its device's;
    `step_resources` are gone when the step ends (stacks, tensor arrays); `files` says which files it may open.
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
    """The number of elements of a known shape."""
    count = 1
    for dim in dims or ():
        count *= dim
    return count


def per_element(position: int, count: int = 1) -> Flops:
    """Cost of `count` floating-point operations per element of an input."""
    return lambda inputs, outputs, attrs: count * elements(inputs[position])


def one_per_output(inputs: Sequence[Dims], outputs: Sequence[Dims], attrs: Attrs) -> int:
    """One floating point operation for each element of the first output."""
    return elements(outputs[0])


def is_expensive(kernel: Kernel) -> bool:
    """Whether an op does more than a constant amount of work for each element: worth a thread of its own."""
    return kernel.flops is not None and kernel.flops is not one_per_output


def zeros(shape: tuple[int, ...], dtype: DataType) -> Tensor:
    """A tensor of TensorFlow's zeros; the zero of a string is the empty one.  AllocationRefusal where it has no room."""
    check_room(shape, dtype)
    return np.full(shape, b"", object) if dtype is STRING else np.zeros(shape, dtype.numpy)


def undeclared_type(context: KernelContext, given: str, declared: DataType, index: int = 0) -> InternalError:
    """Error of TensorFlow's executor for an output of another type than the node's attrs declare; no kernel checks that."""
    return InternalError(
        f"Output {index} of type {given} does not match declared output type {declared.name} "
        f"for node {{{{node {context.node}}}}}"
    )
