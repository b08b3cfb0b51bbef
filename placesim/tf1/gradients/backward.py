"""`tf.gradients`: the traversal from the ys backwards to the xs, op by op, in TensorFlow's order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from placesim.ops.attributes import FunctionName
from placesim.tf1.gradients.aggregation import AggregationMethod, aggregate
from placesim.tf1.gradients.checks import NO_GRADIENT, check_seed, check_shape, is_trainable
from placesim.tf1.gradients.registry import GradientFunction, lookup, text_of
from placesim.tf1.gradients.rules.variables import zeros_of
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import Graph, get_default_graph
from placesim.tf1.graphs.grouping import gated
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.arguments import as_list
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


class UnconnectedGradients:
    """`tf.UnconnectedGradients`: the gradient for an x on which no y depends."""

    NONE = "none"
    ZERO = "zero"

    def __new__(cls, value: TensorLike) -> Any:
        """Member with this value.  Raises ValueError for an unknown one."""
        if value not in (cls.NONE, cls.ZERO):
            raise ValueError(f"{value!r} is not a valid UnconnectedGradients")
        return value


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str | None = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: object = UnconnectedGradients.NONE,
    source: Graph | None = None,
) -> list[Any]:
    """Sum of the derivatives of `ys` with respect to each x: tensors, IndexedSlices, or None for no dependency.

    `source` is the graph of the ys, if the gradients are made in another graph.
    Raises LookupError if an op on the way has no gradient, ValueError and TypeError in TensorFlow's words.
    """
    if unconnected_gradients not in (UnconnectedGradients.NONE, UnconnectedGradients.ZERO):
        raise ValueError(f"Unknown value for unconnected_gradients: {unconnected_gradients!r}")
    ys, xs = as_list(ys), as_list(xs)
    stop = [] if stop_gradients is None else as_list(stop_gradients)
    seeds = [None] * len(ys) if grad_ys is None else as_list(grad_ys)
    with name_scope(name, "gradients", [*ys, *xs, *stop, *seeds]):
        if len(seeds) != len(ys):
            raise ValueError(f"Length mismatch. Passed {len(seeds)} grad_ys for {len(ys)} ys")
        tensors = _convert_all(ys, "y")
        sources = _convert_all([_differentiated(x) for x in xs], "x", as_ref=True)
        stops = _convert_all([_differentiated(x) for x in stop], "stop_gradient", as_ref=True)
        backward = _BackwardPass(sources, stops, colocate_gradients_with_ops, gate_gradients, aggregation_method, source)
        seeds = [seed if seed is None else _convert(seed, f"grad_y_{i}") for i, seed in enumerate(seeds)]
        backward.run(tensors, [backward.seed(i, y, seed) for i, (y, seed) in enumerate(zip(tensors, seeds, strict=True))])
    return [backward.found(x, unconnected_gradients == UnconnectedGradients.ZERO) for x in sources]


def _differentiated(value: Any) -> Any:
    """Tensor to differentiate with respect to: the handle of a resource variable, else the value itself."""
    # a resource variable is read by many ops, and its handle receives the gradients of all
    return value.handle if getattr(value, "handle", None) is not None and not isinstance(value, Tensor) else value


def _convert(value: TensorLike, name: str, as_ref: bool = False) -> Any:
    return value if isinstance(value, IndexedSlices) else convert_to_tensor(value, name=name, as_ref=as_ref)


def _convert_all(values: Sequence[Any], name: str, as_ref: bool = False) -> list[Any]:
    return [_convert(value, f"{name}_{i}", as_ref) for i, value in enumerate(values)]


@contextmanager
def gradient_of(op: Operation) -> Iterator[None]:
    """Record nodes made in the block as an op's gradient."""
    core = op.graph.builder.graph
    first = len(core)
    yield
    for node in core.nodes[first:]:
        core.gradients_of.setdefault(node.name, op.name)


def gradient_function(op: Operation) -> GradientFunction | None:
    """Gradient function of an op: its own, else that of its attr `_gradient_op_type`, else that of its type.

    None for an op that is not differentiable.  Raises LookupError for an op without gradient function.
    """
    # a Const or a variable ends the way back without an error
    if not op.inputs:
        return None
    if op._gradient_function is not None:
        own: GradientFunction = op._gradient_function
        return own
    try:
        # `gradient_override_map` leaves the name of a registered gradient here
        named = op.get_attr("_gradient_op_type")
    except ValueError:
        return lookup(op.type)
    return lookup(text_of(named))


class _BackwardPass:
    """One call of `gradients`: the gradients received by each op's outputs, and the queue of ready ops."""

    def __init__(
        self,
        xs: list[Tensor],
        stops: list[Tensor],
        colocate: bool,
        gate: bool,
        aggregation_method: int | None,
        source: Graph | None = None,
    ) -> None:
        self.graph = get_default_graph()
        self.bodies = _bodies_around(source or self.graph)
        self.xs = xs
        self.stops = stops
        self.colocate = colocate
        self.gate = gate
        self.method = AggregationMethod.DEFAULT if aggregation_method is None else aggregation_method
        self.received: dict[Operation, list[Any]] = {}
        self.pending: dict[Operation, int] = defaultdict(int)
        self.queue: deque[Operation] = deque()
        self.loops: Any = None

    def colocated_with(self, op: Operation) -> AbstractContextManager[None]:
        """Scope in which the gradients of an op are made."""
        return self.graph.colocate_with(op) if self.colocate else nullcontext()

    def seed(self, index: int, y: Any, given: Any) -> Any:
        """Initial gradient of a y: `given`, or ones if it is None."""
        name = f"grad_ys_{index}"
        with self.colocated_with(y.op):
            if given is None:
                if y.dtype.is_complex:
                    raise TypeError(f"Gradients of complex tensors ({y}) must set grad_ys (y.dtype = {y.dtype.name})")
                return tf.ones(tf.shape(y), dtype=y.dtype.base_dtype, name=name)
            check_seed(y, given)
            if isinstance(given, IndexedSlices):
                indices = tf.identity(given.indices, name=f"{name}_indices")
                values = tf.identity(given.values, name=f"{name}_values")
                shape = given.dense_shape
                return IndexedSlices(values, indices, shape if shape is None else tf.identity(shape, name=f"{name}_shape"))
            return tf.identity(given, name=name)

    # --- which ops, and when ---------------------------------------------------------------------------------------------

    def _reached(self) -> set[Operation]:
        """Ops that depend on the xs through tensors that can have gradients."""
        reached: set[Operation] = set()
        queue = deque(x.op for x in self.xs)
        while queue:
            op = queue.popleft()
            if op in reached:
                continue
            reached.add(op)
            for output in op.outputs:
                # integers end the way: an x behind them gets no gradient
                if is_trainable(output):
                    queue.extend(self._consumers(output))
        return reached

    def _consumers(self, tensor: Tensor) -> list[Operation]:
        """Ops that read a tensor, including those in the function bodies around the current graph."""
        found = tensor.consumers()
        for body in self.bodies:
            inside = body.captures.get(tensor)
            if inside is not None:
                found = [*found, *inside.consumers()]
        return found

    def _inputs(self, op: Operation) -> Sequence[Tensor]:
        """Inputs of an op.  An argument of a function body is replaced by the tensor it captures, unless it is an x."""
        return [self._outside(tensor) for tensor in op.inputs] if self.bodies else op.inputs

    def _outside(self, tensor: Tensor) -> Tensor:
        body = tensor.graph
        if body not in self.bodies or tensor.op.type != "Placeholder" or tensor in self.xs:
            return tensor
        for outer, inside in body.captures.items():  # type: ignore[attr-defined]
            if inside is tensor:
                return self._outside(outer)
        return tensor

    def _count_pending(self, targets: list[Operation]) -> set[Operation]:
        """Count, for each op between xs and ys, the reads of its outputs by such ops.  Return the targets that reach an x."""
        reached = self._reached()
        reachable = {op for op in targets if op in reached}
        between: dict[Operation, None] = {}
        queue = deque(targets)
        while queue:
            op = queue.popleft()
            if op in reached:
                # visited once: TensorFlow's `_PendingCount` clears the mark in the same way
                reached.discard(op)
                between[op] = None
                queue.extend(tensor.op for tensor in self._inputs(op))
        # before counting, since loops add their exits to the ops between
        self._make_loops(between)
        for op in between:
            for tensor in self._inputs(op):
                if tensor.op in between:
                    self.pending[tensor.op] += 1
        return reachable

    def _make_loops(self, between: dict[Operation, None]) -> None:
        exits = [op for op in between if op.type in ("Exit", "RefExit")]
        alone = next((op for op in exits if op._get_control_flow_context() is None), None)
        if alone is not None:
            raise ValueError(
                f"no gradient through a loop that is written as single ops: got '{alone.name}', expected a loop that "
                "tf.while_loop made, or the op While"
            )
        if exits:
            from placesim.tf1.gradients.loops import LoopGradients

            self.loops = LoopGradients(self.colocated_with)
            self.loops.add_loops(between)

    def run(self, ys: list[Any], seeds: list[Any]) -> None:
        """Differentiate the ops from the ys to the xs; `seeds` are the gradients of the ys."""
        targets = [y.op for y in ys]
        reachable = self._count_pending(targets)
        for y, grad in zip(ys, seeds, strict=True):
            # a y that occurs twice receives two gradients, which are summed
            self._receive(y.values if isinstance(y, IndexedSlices) else y, grad)
        started = dict.fromkeys(op for op in targets if self.pending[op] == 0 and op in reachable)
        self.queue.extend(started)
        if self.loops is not None:
            for output in self.loops.exits_out_of_reach(self.pending, set(started)):
                if is_trainable(output):
                    self._receive(output, self.loops.zeros_of_exit(output))
                    self.queue.append(output.op)
        stop_ops = {x.op for x in self.stops}
        # behind an x nothing is differentiated, unless the way leads on to another x
        stop_ops |= {x.op for x in self.xs if not any(self.pending[tensor.op] > 0 for tensor in self._inputs(x.op))}
        while self.queue:
            op = self.queue.popleft()
            with self.colocated_with(op):
                self._take(op, stop_ops)
            self._release_inputs(op)
        if self.loops is not None:
            self.loops.close_unchanged()

    def _take(self, op: Operation, stop_ops: set[Operation]) -> None:
        with self._loop_of(op, before=True):
            out_grads = self._aggregated(op)
        function = None
        has_gradients = any(grad is not None and grad != [] for grad in out_grads)
        # a function needs no registered gradient: the runtime differentiates its body
        calls = op.type in op.graph.functions
        if has_gradients and op not in stop_ops:
            try:
                function = gradient_function(op)
            except LookupError:
                if not calls:
                    raise LookupError(NO_GRADIENT.format(op=op)) from None
        with self._loop_of(op, before=False):
            if has_gradients and (function is not None or (calls and op not in stop_ops)):
                in_grads = self._differentiate(op, function, out_grads)
            else:
                in_grads = [None] * len(op.inputs)
            for index, (tensor, grad) in enumerate(zip(self._inputs(op), in_grads, strict=True)):
                if grad is not None:
                    check_shape(op, index, tensor, grad)
                    self._receive(tensor, grad)

    def _loop_of(self, op: Operation, before: bool) -> AbstractContextManager[None]:
        """Loop in which an op's gradient is made, or, with `before`, in which its received gradients are summed."""
        return nullcontext() if self.loops is None else self.loops.inside(op, before)

    def _differentiate(self, op: Operation, function: GradientFunction | None, out_grads: list[Any]) -> list[Any]:
        for index, grad in enumerate(out_grads):
            # a gradient function takes a tensor for each output; integers stay None
            if (grad is None or grad == []) and (function is None or is_trainable(op.outputs[index])):
                out_grads[index] = self._zeros(op, index)
        with name_scope(op.name + "_grad"), gradient_of(op):
            in_grads = _symbolic(op, out_grads) if function is None else function(op, *out_grads)
            in_grads = as_list(in_grads)
            if op.type not in ("While", "StatelessWhile") and len(in_grads) != len(op.inputs):
                raise ValueError(
                    f"Num gradients {len(in_grads)} generated for op {op.node_def} do not match num inputs {len(op.inputs)}"
                )
            # all gradients of an op must be there before one of them is used
            if self.gate and sum(grad is not None for grad in in_grads) > 1:
                with self.graph.device(None), self.graph.colocate_with(None, ignore_existing=True):
                    in_grads = gated(in_grads)
        return in_grads

    def _zeros(self, op: Operation, index: int) -> Any:
        """Zeros for an output that received no gradient."""
        from placesim.tf1.gradients.conditions import zeros_like_output

        return zeros_like_output(op, index) if self.loops is None else self.loops.zeros_like_output(op, index)

    def _release_inputs(self, op: Operation) -> None:
        """Queue each op that makes an input of `op`, if all gradients of its outputs have arrived."""
        for tensor in self._inputs(op):
            source = tensor.op
            self.pending[source] -= 1
            ready = self.pending[source] == 0
            if self.loops is not None and not ready:
                # a loop's Switch waits for its own next iteration, so it would never be ready
                ready = self.pending[source] > 0 and self.loops.is_loop_switch(source)
            if not ready:
                continue
            if source.type not in ("Exit", "RefExit") or self.loops is None:
                self.queue.append(source)
                continue
            for output, is_used in self.loops.exits_due(tensor, self._has_gradients):
                if not is_used and is_trainable(output):
                    self._receive(output, self.loops.zeros_of_exit(output))
                self.queue.append(output.op)

    # --- what was received ---------------------------------------------------------------------------------------------------

    def _receive(self, tensor: Tensor, grad: Tensor) -> None:
        op = tensor.op
        lists = self.received.get(op)
        if lists is None:
            lists = self.received[op] = [[] for _ in op.outputs]
        if isinstance(lists[tensor.value_index], list):
            lists[tensor.value_index].append(grad)
        else:
            # A loop's Switch is differentiated twice: the second gradient replaces the first.
            lists[tensor.value_index] = grad

    def _has_gradients(self, op: Operation) -> bool:
        return any(
            grads is not None and (not isinstance(grads, list) or any(grad is not None for grad in grads))
            for grads in self.received.get(op, ())
        )

    def _aggregated(self, op: Operation) -> list[Any]:
        """Gradients received by an op's outputs, each list summed."""
        lists = self.received.get(op)
        if lists is None:
            return [[] for _ in op.outputs]
        if self.method not in (0, 1, 2):
            raise ValueError(f"Invalid `aggregation_method` specified {self.method}. Accepted values are [0, 1, 2].")
        for index, grads in enumerate(lists):
            if isinstance(grads, list):
                # written back: `found` reads the sums of the xs here
                lists[index] = aggregate([grad for grad in grads if grad is not None], op, self.method) if grads else None
        return list(lists)

    def found(self, x: Tensor, zero_if_none: bool) -> Any:
        """The gradient of an x."""
        lists = self.received.get(x.op)
        grad = None if lists is None else lists[x.value_index]
        if isinstance(grad, list):
            grad = None
        return zeros_of(x) if grad is None and zero_if_none else grad


def _symbolic(op: Operation, out_grads: Sequence[Any]) -> list[Any]:
    """Gradients of an op that calls a function: a SymbolicGradient op, for which the runtime differentiates the function."""
    called = FunctionName(op.type, tuple(sorted(op.node.attrs.items())))
    types = [tensor.dtype.base_dtype for tensor in op.inputs]
    return list(gen("SymbolicGradient")([*op.inputs, *out_grads], types, called))


def _bodies_around(graph: Graph) -> list[Any]:
    """Function bodies from a graph outwards: the graph itself if it is a body, and the bodies around it."""
    found: list[Any] = []
    while graph.outer_graph is not None:
        found.append(graph)
        graph = graph.outer_graph
    return found
