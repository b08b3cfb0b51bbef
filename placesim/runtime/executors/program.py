"""A partition compiled for execution: each node with its kernel, attrs and input positions.

A program knows nothing of other devices: its store holds what its own nodes computed or received, and nothing else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np

from placesim.core.dtypes import DOUBLE, FLOAT, INT32, INT64
from placesim.core.errors import (
    DefectError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    Location,
    OpError,
    PlacesimError,
    UnimplementedError,
)
from placesim.core.files.access import NO_FILES, FileAccess
from placesim.graph.graph import Graph, Node
from placesim.graph.node_text import node_error, node_tag, node_tail
from placesim.machine.inventory import Device
from placesim.ops.attributes import Attrs, TensorValue
from placesim.ops.categories import CONTROL_FLOW, RECEIVES, SENDS
from placesim.ops.kernel_lookup import find_kernel, no_kernel_message
from placesim.ops.kernels.device_resources import ResourceManager, VariableResource
from placesim.ops.kernels.kernel import Kernel, KernelContext, Trait
from placesim.ops.process.memory_limit import MAX_ELEMENTS, ProcessMemory, out_of_memory, tensor_bytes
from placesim.placement.function_bodies import instantiation_of
from placesim.runtime.executors.output_sizes import AllocationCheck, checked_kernel
from placesim.runtime.executors.reads_after_update import find_late_reads, read_late
from placesim.runtime.executors.scalar_objects import wrap_scalar_objects
from placesim.runtime.shapes.int32_attrs import int32_problem

TransferKey = tuple[str, str, str]
"""Key shared by a send and its receive: sending device, receiving device, tensor name (8.8)."""


class TransferObserver(Protocol):
    """Observer of transfers between programs in the runs of one executor."""

    def sent(self, name: TransferKey | None, key: Hashable) -> None:
        """A tensor goes out; in a loop its `key` is more than its `name`."""

    def received(self, name: TransferKey | None, key: Hashable) -> None:
        """The tensor has arrived."""


class KernelObserver(Protocol):
    """Measures when kernels run and tensors travel (`recording/kernel_timing.py`); programs are built for it."""

    def timed(self, kernel: Kernel, graph: Graph, node: Node, device: str) -> Kernel:
        """Kernel that reports its run times."""

    def exchange(self, programs: Sequence[Program]) -> TransferObserver:
        """Observer of the transfers of one run of these programs."""

    def rendezvous(self, programs: Sequence[Program]) -> dict[Any, Any]:
        """Store of sent tensors, by name."""


class AbstractRun(Protocol):
    """Protocol of a dry run (`dry_runs/abstract_run.py`): abstract kernels, and decisions about unknown values."""

    @property
    def is_free(self) -> bool:
        """Whether assumptions other than the given ones are allowed."""

    def sketch(self, kernel: Kernel, graph: Graph, node: Node) -> Kernel:
        """Abstract kernel, which only computes output shapes."""

    def unknown_choice(self, graph: Graph, node: Node, values: Sequence[Any]) -> PlacesimError:
        """Error for a node whose control decision depends on unknown values."""

    def tells(self, loop: str) -> bool:
        """Whether an iteration count may be assumed for a loop."""

    def goes_on(self, loop: str, number: int) -> bool:
        """Whether a loop with an unknown condition runs iteration `number`, from 0 on."""

    def branch(self, node: str, count: int) -> int:
        """Branch to take, of `count`."""


@dataclass(slots=True)
class DeviceState:
    """State of one simulated device that lasts from step to step: its resources, each node's own state, and the files it may
    open.

    `memory` is the session's, of all its devices together.  With `guesses`, in a walk, kernels only say what shapes come out;
    `measurements` are told when they ran.  `fuses`: ops may be done together, where nobody looks at each
    (`runtime/executors/fusion.py`); `folds`: what depends on constants alone is computed once for all steps
    (`runtime/executors/constant_folding.py`).
    """

    device: Device
    memory: ProcessMemory = field(default_factory=ProcessMemory)
    resources: ResourceManager = field(default_factory=ResourceManager)
    node_states: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: FileAccess = NO_FILES
    guesses: AbstractRun | None = None
    measurements: KernelObserver | None = None
    fuses: bool = True
    folds: bool = False

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks at each node, so that each must be computed at its own turn."""
        return self.measurements is not None or self.guesses is not None


@dataclass(slots=True)
class Instruction:
    """One node of a program.

    `inputs` are positions in the program's store; `reads_ref[i]` says that input i is a variable whose value is wanted.
    `outputs` is the first of `output_count` positions that this node writes.  The kernel looks at the size of its outputs
    before it makes them; its `direct` form doesn't, so that who calls that asks `allocation` where there is one.  `is_late`: it
    reads variables when it computes, whatever it is given (`find_late_reads.py`).
    """

    node: Node
    kernel: Kernel
    attrs: Attrs
    inputs: tuple[int, ...]
    reads_ref: tuple[bool, ...]
    outputs: int
    output_count: int
    context: KernelContext | None = None
    key: TransferKey | None = None
    allocation: AllocationCheck | None = None
    is_late: bool = False

    def compute(self, values: Sequence[Any]) -> Sequence[Any]:
        """Outputs for these input values; variables are read here if their value is needed."""
        if True in self.reads_ref:
            values = [read_variable(v) if is_read else v for v, is_read in zip(values, self.reads_ref, strict=True)]
        if self.context is not None:
            outputs = self.kernel.compute(tuple(values), self.attrs, self.context)
        else:
            outputs = self.kernel.compute(tuple(values), self.attrs)
        if len(outputs) != self.output_count:
            raise output_count_error(self.node, len(outputs))
        return outputs


def direct_compute(instruction: Instruction) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """An instruction's `compute`, by its kernel's direct form where it has one and the output can't have many elements."""
    function, allocation, compute = instruction.kernel.direct, instruction.allocation, instruction.compute
    if function is None or any(instruction.reads_ref) or instruction.output_count != 1 or len(instruction.inputs) not in (1, 2):
        return compute
    few = MAX_ELEMENTS if allocation is None else allocation.memory.few
    function_of_two = direct_binary(instruction)

    def unary(values: Sequence[Any]) -> Sequence[Any]:
        (value,) = values
        try:
            return (function(value),) if value.size <= few else compute(values)
        except _KERNELS_RAISE:
            return compute(values)

    def binary(values: Sequence[Any]) -> Sequence[Any]:
        first, second = values
        try:
            return (function_of_two(first, second),) if first.size * second.size <= few else compute(values)
        except _KERNELS_RAISE:
            return compute(values)

    return unary if len(instruction.inputs) == 1 else binary


NUMBERS = frozenset((FLOAT, DOUBLE, INT32, INT64))
"""Types with scalar arithmetic in numpy."""
_OPERATORS: dict[Any, Any] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
}


def direct_binary(instruction: Instruction) -> Callable[[Any, Any], Any]:
    """Direct form of a kernel with two inputs.

    For numbers it is Python's operator, if numpy's function has one: the result is the same, and scalars take a tenth of the
    time.
    """
    function: Any = instruction.kernel.direct
    if instruction.attrs.get("T") in NUMBERS:
        function = _OPERATORS.get(function, function)
    return function  # type: ignore[no-any-return]


_KERNELS_RAISE = (ValueError, TypeError, ArithmeticError, AttributeError)
"""Errors of a kernel's direct form for which `compute` has a better result, or TensorFlow's message."""


@dataclass(frozen=True, slots=True)
class Program:
    """The instructions of one device, in its graph's order, and the size of its store."""

    state: DeviceState
    graph: Graph
    instructions: tuple[Instruction, ...]
    store_size: int


def needs_dataflow(programs: Sequence[Program]) -> bool:
    """Whether any program has control flow, or ops that may wait for others, so that no order can be fixed beforehand."""
    return any(
        instruction.kernel.may_wait or instruction.node.op in CONTROL_FLOW
        for program in programs
        for instruction in program.instructions
    )


def output_count_error(node: Node, count: int) -> InternalError:
    """TensorFlow's error for a node that returned fewer outputs than it has; additional outputs go unnoticed."""
    expected = len(node.signature.output_dtypes)
    if count < expected:
        return InternalError(f"Missing {count}-th output from {node_tag(node.name)}")
    return InternalError(f"{node_tag(node.name)} gave {count} outputs, but has {expected}")


def missing_argument_error(index: int) -> InvalidArgumentError:
    """Error for an `_Arg` without a corresponding function argument or feed."""
    return InvalidArgumentError(f"Argument {index} has no value: the step does not feed it, and it is outside a function call")


def kernel_defect(error: Exception, program: Program, instruction: Instruction, values: Sequence[Any]) -> DefectError:
    """Bug report for a failed kernel: node, op and inputs."""
    node = instruction.node
    inputs = ", ".join(map(_described, values)) or "none"
    found = DefectError(
        f"{node_tag(node.name)} (op {node.op}) failed with {type(error).__name__}: {error}",
        node=node.name,
        location=program.graph.location(node),
        device=program.state.device.name,
    )
    found.help = (f"its inputs: {inputs}", "this is a bug in placesim: please report it with the graph")
    found.__cause__ = error
    return found


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype.name}[{','.join(map(str, np.shape(value)))}]"
    return type(value).__name__


def read_variable(value: Any) -> Any:
    """Value of a reference variable; raises FailedPreconditionError if it is uninitialized."""
    if not isinstance(value, VariableResource):
        return value
    if value.value is None:
        raise FailedPreconditionError(f"Attempting to use uninitialized value {value.name}")
    return value.value


def build_program(
    graph: Graph,
    state: DeviceState,
    kernels: Mapping[str, Kernel],
    step_resources: dict[str, Any],
    call_function: Callable[..., Sequence[Any]] | None = None,
) -> Program:
    """Find each node's kernel and lay out the store.

    Raises UnimplementedError for an op without a numpy kernel, InvalidArgumentError for one that TensorFlow has no kernel for,
    and for attrs that its kernel does not take.
    """
    starts: list[int] = []
    size = 0
    for node in graph.nodes:
        starts.append(size)
        size += max(1, len(node.signature.output_dtypes))
    full: dict[tuple[int, int], tuple[Attrs, AllocationCheck | None, Kernel]] = {}
    instructions = []
    late = find_late_reads(graph, state.device.name) if state.guesses is None else {}
    for node in graph.nodes:
        kernel = kernels.get(node.op)
        if kernel is None and node.op in graph.functions:
            from placesim.ops.kernels.functional import calling  # few graphs call functions by their names

            kernel = calling(node.op)
        if kernel is None:
            raise _missing_kernel(graph, node, state)
        _check_kernel_exists(graph, node, state)
        alike = (id(node.signature), id(node.attrs))
        found = full.get(alike)
        if found is None:
            found = full[alike] = _prepared(graph, node, kernel, state)
        attrs, allocation, kernel = found
        if node.id in late:
            kernel = read_late(kernel, late[node.id], state.resources)
        if state.guesses is not None:
            kernel = state.guesses.sketch(kernel, graph, node)
        if state.measurements is not None:
            kernel = state.measurements.timed(kernel, graph, node, state.device.name)
        context = _context(graph, node, state, step_resources, call_function) if kernel.needs_context else None
        instructions.append(
            Instruction(
                node=node,
                kernel=kernel,
                attrs=attrs,
                inputs=tuple(starts[i] + slot for i, slot in zip(node.input_nodes, node.input_slots, strict=True)),
                reads_ref=_reads(graph, node),
                outputs=starts[node.id],
                output_count=len(node.signature.output_dtypes),
                context=context,
                key=transfer_key(node) if node.op in SENDS or node.op in RECEIVES else None,
                allocation=allocation,
                is_late=node.id in late,
            )
        )
    return Program(state, graph, tuple(instructions), size)


def _prepared(graph: Graph, node: Node, kernel: Kernel, state: DeviceState) -> tuple[Attrs, AllocationCheck | None, Kernel]:
    """Common part of equal nodes: their attrs, and the kernel with its check of the size of its outputs."""
    attrs = graph.kernel_attrs(node)
    problem = int32_problem(node.op, attrs)
    if problem is not None:
        raise blame(InvalidArgumentError(problem), graph, node, state.device.name)
    if node.op == "Const":
        return attrs if state.guesses is not None else _densified(graph, node, attrs, state), None, kernel
    check = (
        None
        if Trait.HANDS_ON in kernel.traits or state.guesses is not None
        else AllocationCheck(kernel, node, attrs, state.memory, state.device.name)
    )
    return attrs, check, checked_kernel(wrap_scalar_objects(kernel, node.signature), check)


def _densified(graph: Graph, node: Node, attrs: dict[str, Any], state: DeviceState) -> Attrs:
    """A constant that repeats one element is written out, once for all steps."""
    tensor: TensorValue = attrs["value"]
    if not tensor.array.flags.c_contiguous:
        if not state.memory.has_room(tensor_bytes(tensor.array.shape, tensor.dtype)):
            error = out_of_memory(tensor.array.shape, tensor.dtype.name, state.device.name)
            raise blame(error, graph, node, state.device.name)
        attrs["value"] = TensorValue(tensor.dtype, tensor.array.copy())
    return attrs


def _reads(graph: Graph, node: Node) -> tuple[bool, ...]:
    wants_ref = node.signature.input_is_ref
    return tuple(
        graph.nodes[i].signature.output_is_ref[slot] and not wants_ref[position]
        for position, (i, slot) in enumerate(zip(node.input_nodes, node.input_slots, strict=True))
    )


def transfer_key(node: Node) -> TransferKey:
    """Key shared by a send and its receive."""
    attrs = node.attrs
    return (attrs["send_device"], attrs["recv_device"], attrs["tensor_name"])


def _context(
    graph: Graph,
    node: Node,
    state: DeviceState,
    step_resources: dict[str, Any],
    call_function: Callable[..., Sequence[Any]] | None,
) -> KernelContext:
    return KernelContext(
        node.name,
        state.device.name,
        state.resources,
        state.node_states.setdefault(node.name, {}),
        step_resources,
        None if call_function is None else partial(call_function, instantiation_of(node)),
        tuple(graph.nodes[i].name for i in node.input_nodes),
        state.files,
    )


def _missing_kernel(graph: Graph, node: Node, state: DeviceState) -> PlacesimError:
    error = UnimplementedError(
        f"placesim has no numpy kernel for op '{node.op}', which {node_tag(node.name)} uses",
        node=node.name,
        location=graph.location(node),
        device=state.device.name,
    )
    error.help = ("`placesim place` works without it: placement needs no kernels.",)
    return error


def _check_kernel_exists(graph: Graph, node: Node, state: DeviceState) -> None:
    """Check for a kernel; the placer guarantees it except for remote tasks and rewritten ops."""
    signature = node.signature
    if signature.definition is None or not graph.registry.kernels(node.op):
        return
    if find_cached(graph, node, state.device.type) is None:
        text = no_kernel_message(graph.registry, node.op, graph.full_attrs(node), node.name, [state.device.type])
        raise node_error(graph, node, text)


def find_cached(graph: Graph, node: Node, device_type: str) -> Any:
    """The registration that runs a node, looked up once for each signature."""
    cache = _FOUND.setdefault(id(graph.registry), {})
    key = (node.signature, device_type)
    if key not in cache:
        cache[key] = find_kernel(graph.registry, node.op, device_type, node.signature.attrs, node.name)
    return cache[key]


_FOUND: dict[int, dict[Any, Any]] = {}


def blame(error: OpError, graph: Graph, node: Node, device: str) -> OpError:
    """The error as TensorFlow shows it: with the node at its end, and node, device and place in the file as data."""
    if error.node is not None:
        return error
    location: Location | None = graph.location(node)
    found = type(error)(error.message + node_tail(error.message, node.name), node=node.name, location=location, device=device)
    found.help = error.help
    return found
