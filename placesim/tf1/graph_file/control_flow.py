"""`cond` and `while` of a graph file: make the nodes and functions of version 2's `tf.cond` and `tf.while_loop`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import placesim.tf1 as tf
from placesim.core.errors import GraphBuildError
from placesim.formats.graph_file.entries.control_flow_entries import OuterTensor
from placesim.graph import argument_binding
from placesim.graph.builder import ScopedGraphBuilder
from placesim.graph.graph import TensorRef
from placesim.tf1.functions import branches, loops
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.graph_file.graph import BodyView, FileGraph, file_graph
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Tensor, numbers_after
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.types.shapes import TensorShape
from placesim.tf1.variables.variable import Variable

Writer = Callable[..., Sequence[Any]]
"""Function that adds a body's nodes.  It takes the body's FileFunctions and argument nodes, and returns the results."""


class FileFunctions:
    """Makes conditionals and loops in the graph of a file or of a body.

    Their arguments are TensorRefs of that graph (with a negative slot for the op itself), OuterTensors, variables of the
    builder, or literals.
    """

    def __init__(self, builder: ScopedGraphBuilder, body: FunctionGraph | None = None) -> None:
        self.builder = builder
        self._body = body
        if body is not None:
            builder.view = BodyView(body)

    @contextmanager
    def _building(self, position: int) -> Iterator[None]:
        if self._body is None:
            graph = file_graph(self.builder)
            with numbers_after(self.builder.last_number) as numbers, graph.building(position):
                yield
                self.builder.last_number = numbers[0]
            return
        with self.builder.view.building(position):
            yield

    @property
    def _graph(self) -> FileGraph | FunctionGraph:
        return file_graph(self.builder) if self._body is None else self._body

    def cond(self, pred: TensorLike, then: Writer, otherwise: Writer, name: str | None, position: int) -> list[TensorRef]:
        """Make a `tf.cond`, and return its results.  Raises GraphBuildError with the message and type of TensorFlow's error."""
        with self._building(position):
            made: list[list[Any]] = []

            def branch(write: Writer) -> list[Any]:
                made.append(_written(write, position))
                if len(made) > 1 and len(made[0]) != len(made[1]):
                    # TensorFlow's Python raises an AssertionError here
                    raise GraphBuildError(f"branches of {len(made[0])} and {len(made[1])} results: expected as many of each")
                return made[-1]

            found = branches.cond(self._value(pred), lambda: branch(then), lambda: branch(otherwise), name)
            return [tensor.node_ref for tensor in found]

    def while_loop(
        self,
        cond: Writer,
        body: Writer,
        loop_vars: Sequence[Any],
        shapes: Mapping[int, tuple[int, ...] | None],
        options: Mapping[str, Any],
        name: str | None,
        position: int,
    ) -> list[TensorRef]:
        """Make a `tf.while_loop`, and return its results.  `shapes` are invariants by index.  Raises like `cond`."""
        with self._building(position):
            values = [convert_to_tensor(self._value(item)) for item in loop_vars]
            invariants = None
            if shapes:
                invariants = [TensorShape.of(shapes[i]) if i in shapes else values[i].shape for i in range(len(values))]
            maximum = options.get("maximum_iterations")
            found = loops.while_loop(
                lambda *args: _written(cond, position, args)[0],
                lambda *args: _written(body, position, args),
                values,
                invariants,
                options.get("parallel_iterations", 10),
                None if maximum is None else self._value(maximum),
                name,
                return_same_structure=True,
            )
            return [tensor.node_ref for tensor in found]

    # --- outer tensors and nodes of a body --------------------------------------------------------------------------

    def capture(self, outside: FileFunctions, tensor: TensorRef, prefix: str) -> int:
        """Capture an outer tensor; return the node of the body's argument, which is named in the scope `prefix`."""
        body = self._own_body()
        saved = self.builder.prefix
        self.builder.prefix = prefix
        try:
            return body.capture(outside.tensor(tensor)).op.node.id
        finally:
            self.builder.prefix = saved

    def wait_for(self, outside: FileFunctions, node: int) -> None:
        """Make every call of this body wait for an outer node."""
        self._own_body().control_captures[outside._graph.operation(node)] = None

    def initialize(self, name: str, position: int) -> int:
        """Make a `tf.global_variables_initializer` in this body, and return its node.  Raises like `cond`."""
        with self._building(position):
            made = tf.variables_initializer(tf.global_variables(), name)
            return int(made.node.id)

    def variable(self, item: argument_binding.VariableNodes) -> Variable:
        """The `tf.Variable` of a variable of the file's graph."""
        return file_graph(self.builder).variable(item.node)

    def tensor(self, ref: TensorRef) -> Tensor:
        """The `tf.Tensor` of a tensor of this graph."""
        return self._graph.operation(ref.node).outputs[ref.slot]

    def _own_body(self) -> FunctionGraph:
        if self._body is None:
            raise AssertionError("a file's own graph has nothing around it")
        return self._body

    def _value(self, item: object) -> Any:
        if isinstance(item, TensorRef):
            return self._graph.operation(item.node) if item.slot < 0 else self.tensor(item)
        if isinstance(item, OuterTensor):
            return cast("FileFunctions", item.functions)._value(item.tensor)
        if isinstance(item, argument_binding.VariableNodes):
            return self.tensor(TensorRef(self.builder._read(item), 0))
        return item


def _written(write: Writer, position: int, args: Sequence[Tensor] = ()) -> list[Any]:
    """Write a body into the default graph, and return its outputs."""
    body = get_default_graph()
    if not isinstance(body, FunctionGraph):
        raise AssertionError("a body is a function's")
    body.location = lambda: position  # type: ignore[method-assign]
    own = FileFunctions(body.builder, body)
    found = write(own, [argument.op.node.id for argument in args])
    body.location = lambda: position  # type: ignore[method-assign]
    return [own._value(item) for item in found]
