"""`tf.Operation` and `tf.Tensor`: a node of the graph, and one output of a node."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from placesim.core.dtypes import DataType as ElementType
from placesim.graph.builder import ScopedGraphBuilder, colocation_groups
from placesim.graph.graph import Node, TensorRef
from placesim.ops.attributes import FunctionName, Shape, TensorValue
from placesim.ops.kernels.shapes import ShapeError, merge
from placesim.runtime.shapes.graph_shapes import GraphShapes
from placesim.tf1.errors import OperatorNotAllowedInGraphError
from placesim.tf1.graph_defs import messages
from placesim.tf1.session import evaluation
from placesim.tf1.session.stacks import FeedDict, RunningSession
from placesim.tf1.types import dtypes
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import StaticShapeLike, TensorShape, as_shape


class OwningGraph(Protocol):
    """The part of `Graph` that tensors, operations and functions of them use."""

    builder: ScopedGraphBuilder
    shapes: GraphShapes
    _operations: list[Operation]
    _control_flow_context: Any
    is_turn: bool

    def operation(self, node: Node | int) -> Operation:
        """The Operation of a node."""

    def consumers(self, tensor: Tensor) -> list[Operation]:
        """The operations that read a tensor, in graph order."""

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Forbid feeding a tensor."""

    def control_dependencies(self, control_inputs: Any) -> AbstractContextManager[None]:
        """Context whose ops wait for `control_inputs`."""

    def _forget_consumers(self) -> None: ...

    @property
    def functions(self) -> dict[str, Any]:
        """The function library."""


class _DefaultGraphs(threading.local):
    """The graphs that a thread has made its default, the innermost last."""

    def __init__(self) -> None:
        self.entered: list[OwningGraph] = []


default_graphs = _DefaultGraphs()
_ids = [-1]


def uid() -> int:
    """Next number of the process-wide counter of graphs and tensors, which appears in functions' names."""
    _ids[0] += 1
    return _ids[0]


def restart_ids() -> None:
    """Restart the process-wide numbers, as in a new process."""
    _ids[0] = -1


@contextmanager
def numbers_after(last: int) -> Iterator[list[int]]:
    """Context in which the process-wide counter continues after `last`; yields a list that holds its current value.

    It gives a graph the same numbers however many the process has used.
    """
    saved, _ids[0] = _ids[0], last
    try:
        yield _ids
    finally:
        _ids[0] = saved


class Tensor:
    """One output of an operation.  `operators.py` adds the operators."""

    __array_priority__ = 100
    OVERLOADABLE_OPERATORS: ClassVar[set[str]] = set()

    if TYPE_CHECKING:

        def __getitem__(self, key: object) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __abs__(self) -> Tensor: ...
        def __invert__(self) -> Tensor: ...
        def __add__(self, other: object) -> Tensor: ...
        def __radd__(self, other: object) -> Tensor: ...
        def __sub__(self, other: object) -> Tensor: ...
        def __rsub__(self, other: object) -> Tensor: ...
        def __mul__(self, other: object) -> Tensor: ...
        def __rmul__(self, other: object) -> Tensor: ...
        def __truediv__(self, other: object) -> Tensor: ...
        def __rtruediv__(self, other: object) -> Tensor: ...
        def __floordiv__(self, other: object) -> Tensor: ...
        def __rfloordiv__(self, other: object) -> Tensor: ...
        def __mod__(self, other: object) -> Tensor: ...
        def __rmod__(self, other: object) -> Tensor: ...
        def __pow__(self, other: object) -> Tensor: ...
        def __rpow__(self, other: object) -> Tensor: ...
        def __matmul__(self, other: object) -> Tensor: ...
        def __rmatmul__(self, other: object) -> Tensor: ...
        def __and__(self, other: object) -> Tensor: ...
        def __rand__(self, other: object) -> Tensor: ...
        def __or__(self, other: object) -> Tensor: ...
        def __ror__(self, other: object) -> Tensor: ...
        def __xor__(self, other: object) -> Tensor: ...
        def __rxor__(self, other: object) -> Tensor: ...
        def __lt__(self, other: object) -> Tensor: ...
        def __le__(self, other: object) -> Tensor: ...
        def __gt__(self, other: object) -> Tensor: ...
        def __ge__(self, other: object) -> Tensor: ...

    def __init__(self, op: Operation, value_index: int) -> None:
        self.op = op
        self.value_index = value_index
        self.graph = op.graph

    def ref(self) -> Reference:
        """Hashable reference for dictionaries."""
        return Reference(self)

    @property
    def node_ref(self) -> TensorRef:
        """The tensor as the builder's TensorRef."""
        return TensorRef(self.op.node.id, self.value_index)

    @property
    def dtype(self) -> dtypes.DType:
        signature = self.op.node.signature
        return dtypes.of(signature.output_dtypes[self.value_index], signature.output_is_ref[self.value_index])

    @property
    def element(self) -> ElementType:
        """placesim's record of the element type, which is the same for references."""
        return self.op.node.signature.output_dtypes[self.value_index]

    @property
    def _is_ref(self) -> bool:
        return self.op.node.signature.output_is_ref[self.value_index]

    @property
    def name(self) -> str:
        return f"{self.op.node.name}:{self.value_index}"

    device: str = read_only("op.device")

    @property
    def shape(self) -> TensorShape:
        return TensorShape.of(self.graph.shapes.outputs(self.op.node.id)[self.value_index])

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The static shape as placesim stores it: -1 for an unknown dimension, None for an unknown rank."""
        return self.graph.shapes.outputs(self.op.node.id)[self.value_index]

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    def set_shape(self, shape: StaticShapeLike) -> None:
        """Refine the static shape.  Raises ValueError for a conflict."""
        given = as_shape(shape).sizes
        try:
            found = merge(self.sizes, given)
        except ShapeError as error:
            raise ValueError(error.message) from None
        self.graph.shapes.settle(self.op.node.id, found, self.value_index)

    _shape_as_list = property(lambda self: None if self.sizes is None else self.shape.as_list())

    _shape: TensorShape = read_only("shape")

    def _rank(self) -> int | None:
        return self.shape.rank

    def consumers(self) -> list[Operation]:
        """The operations that read this tensor."""
        return self.graph.consumers(self)

    def eval(self, feed_dict: FeedDict | None = None, session: RunningSession | None = None) -> Any:
        """Run the tensor in a session, by default the default one."""
        return evaluation.eval_tensor(self, feed_dict, session)

    def __len__(self) -> int:
        raise TypeError(
            f"len is not well defined for a symbolic Tensor ({self.name}). Please call `x.shape` rather than `len(x)` "
            "for shape information."
        )

    def __bool__(self) -> bool:
        raise self._no_python("bool", "Using a symbolic `tf.Tensor` as a Python `bool` is not allowed.")

    def __nonzero__(self) -> bool:
        return self.__bool__()

    def _no_python(self, kind: str, message: str) -> Exception:
        if default_graphs.entered and getattr(default_graphs.entered[-1], "reads_python", False):
            from placesim.tf1.importing.missing_names import not_there

            raise not_there(f"function with Python's {kind} of a tensor (AutoGraph)", "tf.cond and tf.while_loop do it")
        advice = (
            "You can attempt the following resolutions to the problem: If you are running in Graph mode, use Eager "
            "execution mode or decorate this function with @tf.function. If you are using AutoGraph, you can try "
            "decorating this function with @tf.function. If that does not work, then you may be using an unsupported "
            "feature or your source code may not be visible to AutoGraph. See https://github.com/tensorflow/tensorflow/"
            "blob/master/tensorflow/python/autograph/g3doc/reference/limitations.md#access-to-source-code for more "
            "information."
        )
        return OperatorNotAllowedInGraphError(f"{message} {advice}")

    def __iter__(self) -> Iterator[Tensor]:
        raise self._no_python("iter", "Iterating over a symbolic `tf.Tensor` is not allowed.")

    def __float__(self) -> float:
        raise TypeError(f"float() argument must be a string or a real number, not '{type(self).__name__}'")

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic tf.Tensor ({self.name}) to a numpy array. This error may indicate that you're trying "
            "to pass a Tensor to a NumPy call, which is not supported."
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def __copy__(self) -> Tensor:
        return self

    def __str__(self) -> str:
        return 'Tensor("{}"{}{}{})'.format(
            self.name,
            f", shape={self.shape}" if self.sizes is not None else "",
            f", dtype={self.dtype.name}",
            f", device={self.device}" if self.device else "",
        )

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self.dtype.name}>"


class SymbolicTensor(Tensor):
    """The class of all tensors of graphs.  Its name appears in messages."""

    __module__ = "tensorflow.python.framework.ops"


class Reference:
    """`t.ref()`: hashable reference, equal for the same tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def deref(self) -> Tensor:
        """The tensor."""
        return self._tensor

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._tensor!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._tensor is other._tensor

    def __hash__(self) -> int:
        return id(self._tensor)


class Operation:
    """A node of the graph."""

    def __init__(self, graph: OwningGraph, node: Node) -> None:
        self.graph = graph
        self.node = node
        self.outputs: list[Tensor] = [SymbolicTensor(self, slot) for slot in range(len(node.signature.output_dtypes))]
        _ids[0] += len(self.outputs)
        self._control_flow_context = graph._control_flow_context
        self._gradient_function: Any = None
        self._original_op: Operation | None = None

    name: str = read_only("node.name")
    type: str = read_only("node.signature.op")
    _id: int = read_only("node.id")
    device: str = read_only("node.device")

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        operations = self.graph._operations
        node = self.node
        return tuple([operations[i].outputs[slot] for i, slot in zip(node.input_nodes, node.input_slots, strict=True)])

    _inputs_val: tuple[Tensor, ...] = read_only("inputs")

    @property
    def control_inputs(self) -> list[Operation]:
        return [self.graph._operations[i] for i in self._control_order]

    @property
    def _control_order(self) -> tuple[int, ...]:
        """Nodes of the control inputs, in the order in which they were added."""
        node = self.node
        return self.graph.builder.control_orders.get(node.id, node.control_inputs)

    @property
    def _control_outputs(self) -> list[Operation]:
        own = self.node.id
        return [op for op in self.graph._operations if own in op.node.control_inputs]

    @property
    def node_def(self) -> Any:
        """The NodeDef, as a protocol buffer message; only a GraphDef has control inputs sorted by name."""
        return messages.node_def(self.graph.builder.graph, self.node, self._control_order)

    @property
    def op_def(self) -> Any:
        """Definition of the op; `name`, `input_arg` and `output_arg` as in an OpDef."""
        return messages.op_def(self.node)

    @property
    def traceback(self) -> list[Any]:
        location = self.graph.builder.graph.location(self.node)
        if location is None:
            return []
        import traceback

        return [traceback.FrameSummary(location.file, location.line, "<module>")]

    def values(self) -> tuple[Tensor, ...]:
        """The outputs."""
        return tuple(self.outputs)

    def colocation_groups(self) -> list[bytes]:
        """`loc:@` labels: the op's own, or the implicit one of its name."""
        return [label.encode() for label in colocation_groups(self.node)]

    def get_attr(self, name: str) -> Any:
        """An attr's value.  Raises ValueError for an attr that the op does not have."""
        attrs = self.graph.builder.graph.full_attrs(self.node)
        if name not in attrs:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return _public_value(attrs[name])

    def run(self, feed_dict: FeedDict | None = None, session: RunningSession | None = None) -> None:
        """Run the operation in a session, by default the default one."""
        evaluation.run_operation(self, feed_dict, session)

    # --- changes after creation -------------------------------------------------------------------------------------

    def _set_attr(self, name: str, value: Any) -> None:
        """Set an attr to a placesim value or an AttrValue message."""
        if hasattr(value, "WhichOneof"):
            from placesim.formats.tensorflow.attr_value import read_attr

            value = read_attr(value)
        self.node.attrs = self.graph.builder.intern(self.type, {**self.node.attrs, name: value})

    def _clear_attr(self, name: str) -> None:
        attrs = {key: value for key, value in self.node.attrs.items() if key != name}
        self.node.attrs = self.graph.builder.intern(self.type, attrs)

    def _set_device(self, device: Any) -> None:
        self.node.device = device.to_string() if hasattr(device, "to_string") else device

    def _set_device_from_string(self, device: str) -> None:
        self.node.device = device

    def _update_input(self, index: int, tensor: Tensor) -> None:
        """Replace an input."""
        node = self.node
        node.input_nodes = (*node.input_nodes[:index], tensor.op.node.id, *node.input_nodes[index + 1 :])
        node.input_slots = (*node.input_slots[:index], tensor.value_index, *node.input_slots[index + 1 :])
        self.graph._forget_consumers()

    def _add_control_inputs(self, ops: Sequence[Operation]) -> None:
        ids = (*self._control_order, *(op.node.id for op in ops))
        self.node.control_inputs = self.graph.builder.sort_controls(self.node.id, ids)

    def _add_control_input(self, op: Operation) -> None:
        self._add_control_inputs([op])

    def _remove_all_control_inputs(self) -> None:
        self.node.control_inputs = ()
        self.graph.builder.control_orders.pop(self.node.id, None)

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    _is_stateful: bool = read_only("node.signature.is_stateful")

    def __str__(self) -> str:
        return str(self.node_def)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


def _public_value(value: Any) -> Any:
    """Value of an attr as `get_attr` returns it."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, ElementType):
        return dtypes.of(value)
    if isinstance(value, tuple) and not isinstance(value, Shape | TensorValue | FunctionName):
        return [_public_value(element) for element in value]
    if isinstance(value, Shape | TensorValue | FunctionName):
        from placesim.formats.tensorflow.attr_value import write_attr

        message = write_attr(value)
        return getattr(message, message.WhichOneof("value"))
    return value
