"""Program: a partition compiled for execution, with the kernel, attrs and input positions of each node.

A program has no access to other devices: its store holds only values that its own nodes computed or received. Only late
reads see another CPU's variables (`reads_after_update.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from types import MappingProxyType
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
from placesim.ops.categories import CONSTANTS, CONTROL_FLOW, IDENTITIES, RECEIVES, SENDS, SWITCHES
from placesim.ops.kernel_lookup import find_kernel, no_kernel_message
from placesim.ops.kernels.device_resources import UNINITIALIZED, ResourceHandle, ResourceManager, VariableResource
from placesim.ops.kernels.kernel import Kernel, KernelContext, Trait
from placesim.ops.process.memory_limit import MAX_ELEMENTS, ProcessMemory, out_of_memory, tensor_bytes
from placesim.placement.function_bodies import instantiation_of
from placesim.runtime.executors.output_sizes import AllocationCheck, checked_kernel
from placesim.runtime.executors.reads_after_update import LateReads, find_late_reads, read_late
from placesim.runtime.executors.scalar_objects import wrap_scalar_objects
from placesim.runtime.executors.transfer_keys import TransferKey, transfer_key
from placesim.runtime.partitioning.partition import Partition
from placesim.runtime.shapes.int32_attrs import int32_problem


class TransferObserver(Protocol):
    """Observes the transfers between programs in the runs of one executor."""

    def sent(self, name: TransferKey | None, key: Hashable) -> None:
        """Called when a tensor is sent; in a loop, `key` also identifies the iteration."""

    def received(self, name: TransferKey | None, key: Hashable) -> None:
        """Called when the tensor with this key is received."""


class KernelObserver(Protocol):
    """Measures when kernels and transfers run (`recording/kernel_timing.py`)."""

    def timed(self, kernel: Kernel, graph: Graph, node: Node, device: str) -> Kernel:
        """Return a kernel that reports its run times."""

    def exchange(self, programs: Sequence[Program]) -> TransferObserver:
        """Return an observer of the transfers in one run of these programs."""

    def rendezvous(self, programs: Sequence[Program]) -> dict[Any, Any]:
        """Return a dict for sent tensors, by key, which observes when they are sent and received."""


class AbstractRun(Protocol):
    """Kernels and assumptions of a dry run (`dry_runs/abstract_run.py`)."""

    @property
    def is_free(self) -> bool:
        """Whether the run may make assumptions that the user did not give."""

    def sketch(self, kernel: Kernel, graph: Graph, node: Node) -> Kernel:
        """Return an abstract kernel, which only computes output shapes."""

    def unknown_choice(self, graph: Graph, node: Node, values: Sequence[Any]) -> PlacesimError:
        """Return the error for a node of control flow whose decision depends on unknown `values`."""

    def tells(self, loop: str) -> bool:
        """Whether the number of iterations of a loop may be assumed."""

    def goes_on(self, loop: str, number: int) -> bool:
        """Whether a loop with an unknown condition runs iteration `number`, counted from 0."""

    def branch(self, node: str, count: int) -> int:
        """Return the number of the branch to take, less than `count`."""


@dataclass(slots=True)
class DeviceState:
    """State of a simulated device that lasts from step to step.

    - `memory`: the process's memory, which all devices of a session share.
    - `resources`, `node_states`: variables and other resources, and the state of stateful kernels by node name.
    - `files`: the files that ops may open.
    - `guesses`: set in a session of dry runs, whose kernels compute only shapes.
    - `measurements`: observer of the times of kernels and transfers.
    - `fuses`: whether ops may be fused (`runtime/executors/fusion.py`).
    - `folds`: whether constants are folded (`runtime/executors/constant_folding.py`).
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
        """Whether each node must be computed separately and in order, because it is measured or dry-run."""
        return self.measurements is not None or self.guesses is not None


@dataclass(slots=True)
class Instruction:
    """One node of a program.

    `inputs` are positions in the program's store; `reads_ref[i]` is true if input i is a reference variable whose value the
    kernel needs. The node writes `output_count` positions from `outputs` on.

    The kernel's `compute` checks the size of its outputs. Its `direct` form does not: callers must use the check `allocation`,
    if it is not None. `is_late` means that the node reads variables again when it computes (`reads_after_update.py`).
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
        """Return the outputs for these inputs. A reference variable is replaced by its value if the kernel needs the value."""
        if True in self.reads_ref:
            values = [read_variable(v) if is_read else v for v, is_read in zip(values, self.reads_ref, strict=True)]
        if self.context is not None:
            outputs = self.kernel.compute(tuple(values), self.attrs, self.context)
        else:
            outputs = self.kernel.compute(tuple(values), self.attrs)
        if len(outputs) != self.output_count:
            raise output_count_error(self.node, len(outputs))
        return outputs


def is_plain_constant(instruction: Instruction) -> bool:
    """Whether nothing observes the kernel of a constant, and its value has the right type."""
    from placesim.ops.kernels.array.constants import copy_constant  # loaded with the kernel

    return instruction.kernel.compute is copy_constant and instruction.attrs["value"].dtype is instruction.attrs["dtype"]


def may_exceed(few: int, first: Any, second: Any) -> bool:
    """Whether two tensors that are broadcast to each other may have more than `few` elements together."""
    return first.shape != second.shape or first.size > few  # type: ignore[no-any-return]


def direct_compute(instruction: Instruction) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Return a function like `instruction.compute`. For small values it calls the kernel's `direct`, if there is one."""
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
            if first.size * second.size > few and may_exceed(few, first, second):
                return compute(values)
            return (function_of_two(first, second),)
        except _KERNELS_RAISE:
            return compute(values)

    return unary if len(instruction.inputs) == 1 else binary


NUMBERS = frozenset((FLOAT, DOUBLE, INT32, INT64))
"""Types for which numpy scalars support Python's operators."""
_OPERATORS: dict[Any, Any] = {np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul}


def direct_binary(instruction: Instruction) -> Callable[[Any, Any], Any]:
    """Return the direct form of a kernel with two inputs.

    For numbers, Python's operator replaces numpy's function, if there is one: it has the same result, and for scalars it takes
    a tenth of the time.
    """
    function: Any = instruction.kernel.direct
    if instruction.attrs.get("T") in NUMBERS:
        function = _OPERATORS.get(function, function)
    return function  # type: ignore[no-any-return]


_KERNELS_RAISE = (ValueError, TypeError, ArithmeticError, AttributeError)
"""Errors of a kernel's direct form after which `compute` is called; it may succeed, or raises TensorFlow's error."""


@dataclass(frozen=True, slots=True)
class Program:
    """The instructions of one device, in the order of its graph, and the number of positions of its store."""

    state: DeviceState
    graph: Graph
    instructions: tuple[Instruction, ...]
    store_size: int


def needs_dataflow(programs: Sequence[Program]) -> bool:
    """Whether no order can be fixed beforehand, because a program has control flow or ops that may wait."""
    return any(
        instruction.kernel.may_wait or instruction.node.op in CONTROL_FLOW
        for program in programs
        for instruction in program.instructions
    )


def output_count_error(node: Node, count: int) -> InternalError:
    """Return the error for a node with the wrong number of outputs; if there are too few, it has TensorFlow's text."""
    expected = len(node.signature.output_dtypes)
    if count < expected:
        return InternalError(f"Missing {count}-th output from {node_tag(node.name)}")
    return InternalError(f"{node_tag(node.name)} gave {count} outputs, but has {expected}")


def missing_argument_error(index: int) -> InvalidArgumentError:
    """Return the error for an `_Arg` for which no argument or feed was given."""
    return InvalidArgumentError(f"Argument {index} has no value: the step does not feed it, and it is outside a function call")


def kernel_defect(error: Exception, program: Program, instruction: Instruction, values: Sequence[Any]) -> DefectError:
    """Return the bug report for a failed kernel, with node, op and inputs."""
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
    """Return the value of a reference variable, and any other value unchanged.

    Raises FailedPreconditionError if the variable is uninitialized.
    """
    if not isinstance(value, VariableResource):
        return value
    if value.value is None:
        raise FailedPreconditionError(f"{UNINITIALIZED}{value.name}")
    return value.value


def build_programs(
    parts: Sequence[Partition],
    states: Mapping[str, DeviceState],
    kernels: Mapping[str, Kernel],
    step_resources: dict[str, Any],
    call_function: Callable[..., Sequence[Any]] | None = None,
) -> Iterator[Program]:
    """Compile partitions of one process, one after the other.  Raises the errors of `build_program`."""
    # a dry run has no values that an update could change
    is_dry = any(states[part.device.name].guesses is not None for part in parts)
    places = [(part.graph, part.device.name) for part in parts]
    late: Sequence[LateReads] = [{} for _ in parts] if is_dry else find_late_reads(places)

    def find(handle: ResourceHandle) -> Any:
        return states[handle.device].resources.find(handle)

    for part, own in zip(parts, late, strict=True):
        yield build_program(part.graph, states[part.device.name], kernels, step_resources, call_function, own, find)


def build_program(
    graph: Graph,
    state: DeviceState,
    kernels: Mapping[str, Kernel],
    step_resources: dict[str, Any],
    call_function: Callable[..., Sequence[Any]] | None = None,
    late: LateReads = MappingProxyType({}),
    find: Callable[[ResourceHandle], Any] | None = None,
) -> Program:
    """Compile a partition: find each node's kernel and assign positions in the store.

    The nodes `late` read again, when they run, the variables that `find` returns. Raises UnimplementedError for an op without a
    numpy kernel. Raises InvalidArgumentError if TensorFlow has no kernel for the op, or its kernel does not accept the attrs.
    """
    # a node without outputs has a position too, so that no two nodes share one
    starts = [0, *accumulate(max(1, len(node.signature.output_dtypes)) for node in graph.nodes)]
    full: dict[tuple[int, int, str], tuple[Attrs, AllocationCheck | None, Kernel]] = {}
    instructions = []
    for node in graph.nodes:
        own = _kernel_of(graph, node, kernels, state)
        # graphs share mappings of attrs, so most nodes are prepared once for all of their kind
        alike = (id(node.signature), id(node.attrs), _result_of(graph, node))
        if alike not in full:
            full[alike] = _prepared(graph, node, own, state)
        attrs, allocation, kernel = full[alike]
        if find is not None and node.id in late:
            kernel = read_late(kernel, late[node.id], find)
        kernel = _adapted(kernel, graph, node, state)
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
    return Program(state, graph, tuple(instructions), starts[-1])


def _adapted(kernel: Kernel, graph: Graph, node: Node, state: DeviceState) -> Kernel:
    """Return the kernel that takes sketches in a dry run, and is timed in a measured run."""
    if state.guesses is not None:
        kernel = state.guesses.sketch(kernel, graph, node)
    if state.measurements is not None:
        kernel = state.measurements.timed(kernel, graph, node, state.device.name)
    return kernel


def _kernel_of(graph: Graph, node: Node, kernels: Mapping[str, Kernel], state: DeviceState) -> Kernel:
    kernel = kernels.get(node.op)
    if kernel is None and node.op in graph.functions:
        from placesim.ops.kernels.functional import calling  # few graphs have nodes whose op is a function's name

        kernel = calling(node.op)
    if kernel is None:
        raise _missing_kernel(graph, node, state)
    _check_kernel_exists(graph, node, state)
    return kernel


def _prepared(graph: Graph, node: Node, kernel: Kernel, state: DeviceState) -> tuple[Attrs, AllocationCheck | None, Kernel]:
    """Return attrs, the check of output sizes, and the kernel with this check; nodes with equal attrs share them."""
    attrs = graph.kernel_attrs(node)
    problem = int32_problem(node.op, attrs)
    if problem is not None:
        raise blame(InvalidArgumentError(problem), graph, node, state.device.name)
    if "data_format" in attrs:
        kernel = _in_data_format(kernel, graph, node, attrs, state)
    if node.op in CONSTANTS:
        return attrs if state.guesses is not None else _densified(graph, node, attrs, state), None, kernel
    check = (
        None
        if Trait.HANDS_ON in kernel.traits or state.guesses is not None
        else AllocationCheck(kernel, node, attrs, state.memory, state.device.name)
    )
    return attrs, check, checked_kernel(wrap_scalar_objects(kernel, node.signature), check)


def _in_data_format(kernel: Kernel, graph: Graph, node: Node, attrs: Attrs, state: DeviceState) -> Kernel:
    """Return the kernel of a GPU's cuDNN or a CPU's oneDNN for channels first, dilations and groups, if the device has it."""
    # few graphs need it
    from placesim.ops.kernels.nn import channels_first

    is_first = channels_first.has_channels_first(attrs)
    is_gradient = node.op in channels_first.CONVOLUTION_GRADIENTS
    if not is_first and not is_gradient:
        return kernel
    has_onednn = graph.registry.rules.has_onednn and channels_first.onednn_accepts(node.op, attrs, _result_of(graph, node))
    if state.device.type != "GPU" and not has_onednn:
        return kernel
    if is_gradient and (state.device.type == "GPU" or attrs["padding"] != "EXPLICIT"):
        from placesim.ops.kernels.nn.convolution_gradients import in_library

        kernel = in_library(kernel)
    return channels_first.with_channels_first(node.op, kernel) if is_first else kernel


def _result_of(graph: Graph, node: Node) -> str:
    """Return the op of the second input of a node with a data format, on which the kernel of a pool's gradient depends."""
    return graph.nodes[node.input_nodes[1]].op if "data_format" in node.attrs and len(node.input_nodes) > 1 else ""


def _densified(graph: Graph, node: Node, attrs: dict[str, Any], state: DeviceState) -> Attrs:
    """Return a constant's attrs with its value as a contiguous array, even if it is one element repeated."""
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
        # the executor reads the variable for an op that wants a value (12.1)
        graph.nodes[i].signature.output_is_ref[slot] and not wants_ref[position]
        for position, (i, slot) in enumerate(zip(node.input_nodes, node.input_slots, strict=True))
    )


def _context(
    graph: Graph,
    node: Node,
    state: DeviceState,
    step_resources: dict[str, Any],
    call_function: Callable[..., Sequence[Any]] | None,
) -> KernelContext:
    own = state.node_states.setdefault(node.name, {})
    call = None if call_function is None else partial(call_function, instantiation_of(node))
    inputs = tuple(graph.nodes[i].name for i in node.input_nodes)
    return KernelContext(node.name, state.device.name, state.resources, own, step_resources, call, inputs, state.files)


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
    """Raise an error if TensorFlow has no kernel for a node: the placer does not check remote tasks and rewritten ops."""
    signature = node.signature
    if signature.definition is None or not graph.registry.kernels(node.op):
        return
    if find_cached(graph, node, state.device.type) is None:
        text = no_kernel_message(graph.registry, node.op, graph.full_attrs(node), node.name, [state.device.type])
        raise node_error(graph, node, text)


def find_cached(graph: Graph, node: Node, device_type: str) -> Any:
    """Return the registration of the kernel that runs a node; results are cached by signature."""
    cache = _FOUND.setdefault(id(graph.registry), {})
    key = (node.signature, device_type)
    if key not in cache:
        cache[key] = find_kernel(graph.registry, node.op, device_type, node.signature.attrs, node.name)
    return cache[key]


_FOUND: dict[int, dict[Any, Any]] = {}


def blame(error: OpError, graph: Graph, node: Node, device: str) -> OpError:
    """Return an error with the node at the end of its text, as in TensorFlow, and with node, device and location as data."""
    # an error in a function already names the function's node, and the calling node is not added
    if error.node is not None:
        return error
    location: Location | None = graph.location(node)
    message = _with_input(error.message, graph, node)
    found = type(error)(message + node_tail(message, node.name), node=node.name, location=location, device=device)
    found.help, found.remedies = error.help, error.remedies
    return found


def _with_input(message: str, graph: Graph, node: Node) -> str:
    """Return a message with the node's input in place of the uninitialized variable, whose reference the input may forward."""
    if not message.startswith(UNINITIALIZED):
        return message
    for given in node.inputs:
        source = graph.nodes[given.node]
        while source.op in (*IDENTITIES, *SWITCHES) and source.signature.output_is_ref[0]:
            source = graph.nodes[source.input_nodes[0]]
        if message == UNINITIALIZED + source.name:
            return UNINITIALIZED + graph.tensor_name(given)
    return message
