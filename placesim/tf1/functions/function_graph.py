"""Graphs of function bodies.  A tensor of an outer graph becomes an argument at its first use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from placesim.graph.builder import colocation_groups
from placesim.ops.attributes import Attrs, Shape
from placesim.tf1.errors import InaccessibleTensorError
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.types import dtypes

_SHARED_COLLECTIONS = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES)


class FunctionGraph(Graph):
    """A function's body under construction.

    `inputs` are the placeholders of the arguments: the declared ones, then those of `captures`, which maps tensors of outer
    graphs to their placeholders in order of first use.  `outputs` are the results.  `control_outputs` are the ops that run
    in each call, `control_captures` the outer ops that each call waits for.  Names begin at the root.  Devices, colocation,
    seed and variable scopes come from the place where the graph is made.
    """

    building_function = True
    control_flow_is_version_2 = True
    orders_effects = False
    """Whether all stateful ops run, in the order of the Python function (`ordering.order_effects`)."""

    reads_python = False
    """Whether TensorFlow rewrites the Python function (AutoGraph), so that its `if` and `while` accept tensors."""

    def __init__(
        self,
        name: str,
        outer: Graph | None = None,
        shares_collections: bool = False,
        keeps_devices: bool = True,
    ) -> None:
        outer = get_default_graph() if outer is None else outer
        self.outer_graph: Graph = outer
        super().__init__()
        self.name = name
        # the body's nodes become part of the outer graph's library, so their locations refer to its files
        self.builder.graph.files = outer.builder.graph.files
        self._file_numbers = outer._file_numbers
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.structured_outputs: Any = None
        self.control_outputs: list[Operation] = []
        self.captures: dict[Tensor, Tensor] = {}
        self.sources: dict[Tensor, Tensor] = {}
        """The outer tensor that each argument stands for."""
        self.control_captures: dict[Operation, None] = {}
        self.seed = outer.seed
        if keeps_devices:
            self.builder._device_scopes = devices_for(self, outer)
        self.reads_python = isinstance(outer, FunctionGraph) and outer.reads_python
        self._container = outer._container
        self.variable_creators = outer.variable_creators
        self._collections = outer._collections if shares_collections else _copied(outer._collections)
        self.builder._class_attr = _labels(outer) if keeps_devices else None

    @property
    def variable_scopes(self) -> Any:
        """Variable scopes of the enclosing graph, made by `variables.scopes` on first use."""
        return getattr(self.outer_graph, "variable_scopes", None)

    @variable_scopes.setter
    def variable_scopes(self, scopes: object) -> None:
        self.outer_graph.variable_scopes = scopes  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"FuncGraph(name={self.name}, id={id(self)})"

    # --- arguments --------------------------------------------------------------------------------------------------

    def add_argument(self, dtype: DTypeLike, shape: Any = None, name: str | None = None) -> Tensor:
        """Add an argument, and return its placeholder.  `shape` is a TensorShape, sizes or None; the name is made unique."""
        sizes = shape.sizes if hasattr(shape, "sizes") else shape
        with self.control_dependencies(None):
            full = self.claim_name("Placeholder", name or "Placeholder")
            attrs: Attrs = {"dtype": dtypes.as_dtype(dtype).base_dtype.element, "shape": Shape(sizes)}
            found = super().make("Placeholder", full, (), attrs).outputs[0]
        self.inputs.append(found)
        return found

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        """Return a tensor of this body itself, or for an outer tensor the placeholder of its argument.

        Raises InaccessibleTensorError for a tensor of a function inside this one.
        """
        if tensor.graph is self:
            return tensor
        found = self.captures.get(tensor)
        if found is None:
            self._check_accessible(tensor)
            found = self.captures[tensor] = self.placeholder_of(tensor, name or tensor.op.name)
        return found

    def placeholder_of(self, tensor: Tensor, name: str | None) -> Tensor:
        """Add an argument with the type, the shape and the resource handle's data of a tensor."""
        found = self.add_argument(tensor.dtype, tensor.sizes, name)
        self.sources[found] = tensor
        self.shapes.hold(found.node_ref, tensor.graph.shapes.handle(tensor.node_ref))
        return found

    def _check_accessible(self, tensor: Tensor) -> None:
        inner: Any = tensor.graph
        while isinstance(inner, FunctionGraph) and inner is not self:
            inner = inner.outer_graph
        if inner is self:
            raise InaccessibleTensorError(OUT_OF_SCOPE.format(tensor=tensor, here=self, there=tensor.graph))

    @property
    def external_captures(self) -> list[Tensor]:
        """The captured outer tensors, in the order of their arguments."""
        return list(self.captures)

    @property
    def internal_captures(self) -> list[Tensor]:
        """The captures' placeholders."""
        return list(self.captures.values())

    # --- ops inside ------------------------------------------------------------------------------------------------

    def make(
        self, op: str, full_name: str, inputs: Iterable[Tensor], attrs: Attrs | None = None, control_inputs: object = ()
    ) -> Operation:
        """Make an operation; outer tensors among its inputs are captured in its name scope."""
        tensors = list(inputs)
        if any(tensor.graph is not self for tensor in tensors):
            builder = self.builder
            saved = builder.prefix
            builder.prefix = full_name + "/"
            try:
                tensors = [self.capture(tensor) for tensor in tensors]
            finally:
                builder.prefix = saved
            self._check_references(op, tensors)
        return super().make(op, full_name, tensors, attrs, control_inputs)

    def _check_references(self, op: str, tensors: Sequence[Tensor]) -> None:
        """Raise TypeError if an op needs a reference but gets a captured tensor, which is never a reference."""
        definition = self.builder.registry.op(op)
        if definition is None or len(definition.inputs) != len(tensors):
            return
        wanted = [arg.is_ref for arg in definition.inputs]
        if any(is_ref and not tensor._is_ref for is_ref, tensor in zip(wanted, tensors, strict=True)):
            given = [f"tf.{tensor.dtype.name}" for tensor in tensors]
            expected = [
                f"tf.{tensor.dtype.base_dtype.name}" + ("_ref" if is_ref else "")
                for tensor, is_ref in zip(tensors, wanted, strict=True)
            ]
            raise TypeError(
                f"In op '{op}', input types ([{', '.join(given)}]) are not compatible with expected types "
                f"([{', '.join(expected)}])"
            )

    @contextmanager
    def control_dependencies(self, control_inputs: object) -> Iterator[None]:
        """`tf.control_dependencies`; outer ops become control inputs of the function's calls."""
        own: Any = None if control_inputs is None else self._own_controls(control_inputs)
        with super().control_dependencies(own):
            yield

    def _own_controls(self, control_inputs: Any) -> list[Any]:
        own = []
        for item in control_inputs:
            op = item if isinstance(item, Operation) else getattr(item, "op", item)
            if isinstance(op, Operation) and op.graph is not self:
                self.control_captures[op] = None
            else:
                own.append(item)
        return own

    @contextmanager
    def colocate_with(self, op: object, ignore_existing: bool = False) -> Iterator[None]:
        """`tf.colocate_with`; if `op` is outside the function, ops in the block get only its colocation label."""
        target = None if op is None else self._colocation_op(op)
        with ExitStack() as stack:
            if target is None or target.graph is self:
                stack.enter_context(super().colocate_with(target, ignore_existing))
            else:
                stack.enter_context(self.builder.colocate_with((), ignore_existing=True))
                stack.enter_context(self.builder.class_attr(target.name))
            yield

    _colocate_with_for_gradient = colocate_with

    @contextmanager
    def init_scope(self) -> Iterator[None]:
        """`tf.init_scope`: makes the outermost graph the default, with the name scope of this one."""
        outer = self.outer_graph
        scope = self.builder.prefix
        with outer.init_scope():
            top = get_default_graph()
            saved = top.builder.prefix
            top.builder.prefix = scope
            try:
                yield
            finally:
                top.builder.prefix = saved


def _copied(collections: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Copies of the collections. Collections of variables are shared with the outer graph instead."""
    for name in _SHARED_COLLECTIONS:
        collections.setdefault(name, [])
    return {name: items if name in _SHARED_COLLECTIONS else list(items) for name, items in collections.items()}


def devices_for(graph: Graph, outer: Graph) -> tuple[Any, ...]:
    """Device scopes at the place where a function is made; their device functions apply to nodes of `graph`."""
    device, text, texts, functions = outer.builder._device_scopes
    return device, text, dict(texts), tuple(each.of(graph) if hasattr(each, "of") else each for each in functions)


def _labels(outer: Graph) -> tuple[str, ...] | None:
    """Colocation groups of the place where a function is made, which apply to its ops too."""
    nodes = outer.builder.graph.nodes
    labels = {label for i in outer.builder._colocation for label in colocation_groups(nodes[i])}
    return tuple(sorted(labels)) or outer.builder._class_attr


OUT_OF_SCOPE = (
    "{tensor!r} is out of scope and cannot be used here. Use return values, explicit Python locals or TensorFlow collections "
    "to access it.\nPlease see https://www.tensorflow.org/guide/function#all_outputs_of_a_tffunction_must_be_return_values for "
    "more information.\n\n{tensor!r} was defined here:\n\nThe tensor {tensor!r} cannot be accessed from {here}, because it was "
    "defined in {there}, which is out of scope."
)
