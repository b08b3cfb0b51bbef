"""`tf.Graph`: a ScopedGraphBuilder with the operations, collections and scopes that scripts use."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, cast

from placesim.core.errors import GraphBuildError
from placesim.core.releases import CURRENT
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import COLUMNS, FILE_POSITIONS, Node
from placesim.ops.attributes import Attrs
from placesim.runtime.shapes.graph_shapes import GraphShapes
from placesim.tf1.graph_defs import messages
from placesim.tf1.graphs.collections import Collections
from placesim.tf1.graphs.elements import Elements
from placesim.tf1.graphs.scopes import Scopes, python_error
from placesim.tf1.graphs.tensor import Operation, Tensor, default_graphs, uid
from placesim.tf1.release import spoken_registry
from placesim.tf1.running.code_origin import beside, is_users
from placesim.tf1.types.read_only import read_only


class Graph(Scopes, Collections, Elements):
    """A graph under construction.  `builder` holds its nodes and scopes, `shapes` their static shapes."""

    building_function = False
    outer_graph: Graph | None = None
    """The graph in which a function's graph was made."""
    is_turn = False
    """Whether this is the body of a loop of version 2 control flow."""
    control_flow_is_version_2 = False
    """Whether `tf.cond` and `tf.while_loop` use functions in this graph by default."""
    __module__ = "tensorflow.python.framework.ops"  # as messages name it

    def __init__(self) -> None:
        uid()
        registry = spoken_registry() if self.outer_graph is None else self.outer_graph.builder.registry
        self.builder = ScopedGraphBuilder(registry, file=script_file())
        self.builder.graph.versions = {"producer": self.builder.registry.rules.producer}
        self.builder.on_node = self._take_up
        self.shapes = GraphShapes(self.builder.graph)
        self.seed: int | None = None
        self.seedless_ops = 0
        self._operations: list[Operation] = []
        self._collections: dict[str, list[Any]] = {}
        self._finalized = False
        self.check_inputs: Callable[[Operation], None] | None = None  # there once the graph has a loop
        self._control_flow_context: Any = None
        self._file_numbers: dict[str, int] = {}
        self._default_depths: list[int] = []
        self._extra_attrs: tuple[tuple[str, Callable[[Node], Any]], ...] = ()
        self._consumers: list[list[int]] | None = None
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()
        self._lock = threading.RLock()
        self._container = ""
        self.variable_creators: list[Any] = []
        if kept is not None and not self.building_function:
            kept.append(self)

    def __repr__(self) -> str:
        return f"<tensorflow.python.framework.ops.Graph object at {id(self):#x}>"

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _take_up(self, node: Node) -> None:
        """Complete a new node: its shapes, Operation and control flow.  Removes it and raises ValueError for wrong shapes."""
        error = self.shapes.refusal(node.id)
        if error is not None:
            self.builder.forget_from(node.id)
            self.shapes.forget(node.id)
            raise error
        operation = Operation(self, node)
        self._operations.append(operation)
        if self._extra_attrs:
            self._add_extra_attrs(operation)
        if self.check_inputs is not None:
            self.check_inputs(operation)
        if self._control_flow_context is not None:
            self._control_flow_context.AddOp(operation)

    def _add_extra_attrs(self, operation: Operation) -> None:
        for name, find in self._extra_attrs:
            value = find(operation.node)
            if value is not None and name not in operation.node.attrs:
                operation._set_attr(name, value)

    def make(
        self, op: str, full_name: str, inputs: Iterable[Tensor], attrs: Attrs | None = None, control_inputs: Any = ()
    ) -> Operation:
        """Make an operation with tensor inputs and a claimed name.  Raises TensorFlow's Python errors."""
        self._check_not_finalized()
        builder = self.builder
        nodes, slots = [], []
        for tensor in inputs:
            nodes.append(tensor.op.node.id)
            slots.append(tensor.value_index)
        location = self.location()
        try:
            known = attrs if attrs is None or builder.registry.rules is CURRENT else self._known_attrs(op, attrs)
            given = builder.intern(op, known) if known else builder._empty_attrs
            controls = tuple(operation.node.id for operation in control_inputs)
            node = builder.add_resolved(op, full_name, tuple(nodes), tuple(slots), given, controls, location)
        except GraphBuildError as error:
            raise python_error(error) from None
        return self._operations[node.id]

    def _known_attrs(self, op: str, attrs: Attrs) -> Attrs:
        """The given attrs that the op has in the graph's release, and internal attrs (`_NAME`)."""
        definition = self.builder.registry.op(op)
        if definition is None:
            return attrs
        return {name: value for name, value in attrs.items() if name in definition.attrs or name.startswith("_")}

    def claim_name(self, op: str, name: str | None) -> str:
        """Reserve the full name of a new operation.  Raises ValueError for an invalid name."""
        self._check_not_finalized()
        try:
            return self.builder.claim_name(op, name)
        except GraphBuildError as error:
            raise python_error(error) from None

    def make_constant(self, tensor: Any, name: str | None) -> Tensor:
        """Make a Const of a TensorValue."""
        full = self.claim_name("Const", name)
        node = self.builder.add_constant(full, tensor, self.builder._empty_attrs, (), self.location())
        return self._operations[node.id].outputs[0]

    def create_op(
        self,
        op_type: str,
        inputs: Iterable[Tensor],
        dtypes: object = None,
        input_types: object = None,
        name: str | None = None,
        attrs: Any = None,
        op_def: object = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Make an operation; `attrs` are AttrValue messages, or values in placesim's form."""
        given = {}
        for key, value in (attrs or {}).items():
            if hasattr(value, "WhichOneof"):
                from placesim.formats.tensorflow.attr_value import read_attr

                value = read_attr(value)
            given[key] = value
        return self.make(op_type, self.claim_name(op_type, name), list(inputs), given)

    def location(self) -> int:
        """Innermost running line of the script or its modules, packed as a node's `location`; 0 if there is none."""
        return next(self._running_lines(sys._getframe(1)), 0)

    def running_lines(self) -> tuple[int, ...]:
        """The running lines of the script and its modules, packed as `location`, the innermost first."""
        return tuple(self._running_lines(sys._getframe(1)))

    def entering_line(self) -> int:
        """Line of the script or its modules that enters the calling context, packed as `location`; 0 if a library enters it."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename == contextlib.__file__:
            frame = frame.f_back
        return 0 if frame is None or not self.builder.graph.file else self._line_of(frame)

    def _running_lines(self, frame: FrameType | None) -> Iterator[int]:
        if not self.builder.graph.file:  # no file is the user's
            return
        while frame is not None:
            line = self._line_of(frame)
            if line:
                yield line
            frame = frame.f_back

    def _line_of(self, frame: FrameType) -> int:
        """The running line of a frame, packed as `location`; 0 if its file is not the user's."""
        known, file = self._file_numbers, frame.f_code.co_filename
        number = known.get(file)
        if number is None:
            number = known[file] = self._file_number(file)
        return number * FILE_POSITIONS + frame.f_lineno * COLUMNS + 1 if number >= 0 else 0

    def _file_number(self, file: str) -> int:
        """Index of a file among the graph's files: 0 for the script, -1 for a file that is not the user's."""
        core = self.builder.graph
        if not is_users(file):
            return -1
        if file == core.file:
            return 0
        core.files.append(beside(core.file, file))
        return len(core.files)

    def operation(self, node: Node | int) -> Operation:
        """The Operation of a node."""
        return self._operations[node if isinstance(node, int) else node.id]

    def consumers(self, tensor: Tensor) -> list[Operation]:
        """The operations that read a tensor, in graph order."""
        if self._consumers is None:
            self._consumers = []
        found = self._consumers
        fresh = self._operations[len(found) :]
        found.extend([] for _ in fresh)
        for operation in fresh:
            # An input may be younger than its reader: control flow puts Switches and Enters before ops that are there.
            for i in dict.fromkeys(operation.node.input_nodes):
                found[i].append(operation.node.id)
        readers = (self._operations[i] for i in found[tensor.op.node.id])
        return [op for op in readers if tensor.node_ref in op.node.inputs]

    def _forget_consumers(self) -> None:
        self._consumers = None

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Context in which this is the default graph."""
        stack = default_graphs.entered
        stack.append(self)
        self._default_depths.append(self.builder.colocation_depth)
        try:
            yield self
        finally:
            self._default_depths.pop()
            if stack and stack[-1] is self:
                stack.pop()
            else:
                raise AssertionError(f"Nesting violated for default stack of {type(self)} objects")

    # --- state ------------------------------------------------------------------------------------------------------

    def finalize(self) -> None:
        """Forbid further operations."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    finalized: bool = read_only("_finalized")

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    functions: dict[str, Any] = read_only("builder.graph.functions", "The function library.")

    @property
    def version(self) -> int:
        return len(self._operations)

    @property
    def graph_def_versions(self) -> Any:
        """The VersionDef."""
        return self.as_graph_def().versions

    @property
    def _last_id(self) -> int:
        return len(self._operations)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The GraphDef, as a protocol buffer message."""
        shapes = self.shapes.outputs if add_shapes else None
        return messages.graph_def(self.builder.graph, from_version or 0, shapes)

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Forbid feeding a tensor."""
        self._unfeedable.add(tensor)

    def is_feedable(self, tensor: Tensor) -> bool:
        """Whether the tensor can be fed."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, op: Operation) -> None:
        """Forbid fetching an operation."""
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: object) -> bool:
        """Whether the tensor or operation can be fetched."""
        return (tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op) not in self._unfetchable

    def switch_to_thread_local(self) -> None:
        """Do nothing: scopes are not separate by thread here."""

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: object) -> None:
        self._control_flow_context = context


# --- the default graph ----------------------------------------------------------------------------------------------


class _Bottom(threading.local):
    """The default graph of a thread that has entered no other."""

    graph: Graph | None = None


_bottom = _Bottom()


def get_default_graph() -> Graph:
    """The innermost default graph of this thread."""
    if default_graphs.entered:
        return cast("Graph", default_graphs.entered[-1])
    if _bottom.graph is None:
        _bottom.graph = Graph()
    return _bottom.graph


def reset_default_graph() -> None:
    """Replace the thread's default graph.  Raises AssertionError inside `as_default` of a graph."""
    if default_graphs.entered:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting and "
            "create a new graph."
        )
    _bottom.graph = None


kept: list[Graph] | None = None
"""All graphs made so far, if a recorder needs them at the end."""
_script: str | None = None


def set_script(file: str) -> None:
    """Set the script file to which the nodes of new graphs belong."""
    global _script
    _script = file


def script_file() -> str:
    """The script that is being run: the one that was set, else the process's main module."""
    if _script is not None:
        return _script
    return getattr(sys.modules.get("__main__"), "__file__", None) or ""
