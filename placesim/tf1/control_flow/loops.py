"""`tf.while_loop`: a body that runs as long as a condition holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from placesim.ops.categories import CALLS
from placesim.tf1.control_flow.contexts import (
    LoopContext,
    LoopGradient,
    check_inputs,
    loop_of,
    output_context,
    outside,
    while_context_of,
)
from placesim.tf1.control_flow.switching import enter, is_loop_constant, leave, merge, next_iteration, pass_on, switch_colocated
from placesim.tf1.control_flow.tensor_arrays import TensorArray, pack_with_flows
from placesim.tf1.control_flow.versions import is_version_2
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.graph_keys import GraphKeys
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices, SparseTensor
from placesim.tf1.types import nest
from placesim.tf1.types.shapes import TensorShape, as_shape
from placesim.tf1.variables.resource import ResourceVariable

_MEASURES = frozenset(("Shape", "Size", "Rank"))


class WhileContext(LoopContext):
    """A loop; `grad_state` is set in a loop that is the gradient of another one."""

    def __init__(
        self,
        maximum_iterations: Tensor | None = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str = "while_context",
        grad_state: LoopGradient | None = None,
    ) -> None:
        super().__init__()
        # only graphs with loops pay for the check
        self.graph.check_inputs = check_inputs
        self._name = self.graph.unique_name(name)
        self.maximum_iterations = maximum_iterations
        self.parallel_iterations = parallel_iterations
        self.back_prop = back_prop
        self.swap_memory = swap_memory
        self.grad_state = grad_state
        self.pivot_for_pred: Tensor | None = None
        self.pivot_for_body: Tensor | None = None
        self.condition: Tensor | None = None
        self.enters: list[Tensor] = []
        self.exits: list[Tensor] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def while_context(self) -> WhileContext:
        return self

    @property
    def pivot(self) -> Tensor | None:
        """The body's pivot; before the body exists, the condition's."""
        return self.pivot_for_pred if self.pivot_for_body is None else self.pivot_for_body

    # --- outer tensors ----------------------------------------------------------------------------------------------

    def add_value(self, tensor: Tensor) -> Tensor:
        """Return the inner tensor for an outer one: an Enter, made once, with the same value in all iterations."""
        if tensor in self.known or tensor.op._control_flow_context is self:
            return self.inside.get(tensor, tensor)
        self.known.add(tensor)
        # a gradient loop needs the value of each forward iteration, not that of the last one
        recorded = self._recorded(tensor)
        if recorded is not None:
            self.inside[tensor] = recorded
            return recorded
        found = tensor if self.outer is None else self.outer.add_value(tensor)
        with outside(self.graph):
            # a loop constant: its value is the same in all iterations
            entered = enter(found, self._name, True, self.parallel_iterations)
            self.graph.prevent_feeding(entered)
            if self.outer is not None:
                self.outer.add_inner_op(entered.op)
        self._settle_enters([entered])
        self.known.add(entered)
        self.inside[tensor] = entered
        return entered

    def _recorded(self, tensor: Tensor) -> Tensor | None:
        """Recorded value of a forward loop's tensor, if the current context is in the loop of its gradient; else None."""
        loop = loop_of(get_default_graph()._control_flow_context)
        if loop is None or loop.grad_state is None:
            return None
        forward = while_context_of(tensor.op)
        if forward is None or forward is not loop.grad_state.forward_context:
            return None
        return loop.grad_state.real_value(tensor)

    def _settle_enters(self, enters: Sequence[Tensor]) -> None:
        """Assign Enter ops to the loop, with the control dependencies of the scopes around it."""
        for entered in enters:
            source = entered.op.inputs[0].op
            # the loop was entered outside its control scopes, so its Enters get their control inputs here
            scope_controls = map(self.graph.operation, self.graph.builder.scope_controls((source.node.id,)))
            controls = [op for op in scope_controls if self._may_wait_for(op)]
            entered.op._control_flow_context = self
            entered.op._add_control_inputs(controls)
            self.graph.builder.record_in_controllers(entered.op.node.id)

    def _may_wait_for(self, op: Operation) -> bool:
        found, outer = output_context(op), self.outer
        outer_loop = None if outer is None else outer.while_context
        while outer is not found:
            if outer is None or outer is outer_loop:
                return False
            outer = outer.outer
        return True

    # --- ops inside ------------------------------------------------------------------------------------------------

    def take(self, op: Operation) -> None:
        """Add an op.

        A Shape, Size or Rank of a forward tensor is added to the forward loop, since recording its result takes less memory.
        """
        if op.type in _MEASURES and op.inputs:
            loop = loop_of(self.graph._control_flow_context)
            if loop is not None and loop.grad_state is not None:
                source = op.inputs[0].op
                if while_context_of(source) is loop.grad_state.forward_context:
                    own: Any = source._control_flow_context
                    op._control_flow_context = own
                    (own.take_own if isinstance(own, WhileContext) else own.take)(op)
                    return
        self.take_own(op)

    def take_own(self, op: Operation) -> None:
        """Add an op to this loop."""
        super().take(op)

    def _take(self, op: Operation) -> None:
        """Replace inputs by inner ones.  An op that depends on no iteration waits for the pivot, so each iteration runs it."""
        dropped: list[Operation] = []
        # a called function may have ops without inputs, which would be of no iteration
        if op.type in CALLS:
            self._wait_for_pivot(op)
        if op.node.input_nodes:
            self._replace_inputs(op)
            _, dropped = self._drop_outer_controls(op)
            # an op that depends on loop constants alone would also run in the iteration in which the loop ends
            if self._is_free(op):
                self._wait_for_pivot(op)
        else:
            kept, dropped = self._drop_outer_controls(op)
            # without a control input from inside, nothing would place the op in an iteration
            if not kept:
                self._wait_for_pivot(op)
        self.known.update(op.outputs)
        if dropped:
            self._wait_inside_for(dropped, op)

    def _is_free(self, op: Operation) -> bool:
        if op.control_inputs:
            return False
        if op.node.signature.definition is None or op.type == "SymbolicGradient":
            return True
        return all(is_loop_constant(tensor.op) for tensor in op.inputs)

    def _wait_for_pivot(self, op: Operation) -> None:
        pivot = self.pivot
        assert pivot is not None
        op._add_control_input(pivot.op)

    def _wait_inside_for(self, outer: Sequence[Operation], op: Operation) -> None:
        """Let an op wait for outer ops, by control edges from Identities of the first outputs, made inside the loop."""
        with outside(self.graph), self.entered():
            # a control edge cannot cross into a frame, but a tensor can
            copies = [gen("Identity")(control.outputs[0]).op for control in outer if control.outputs]
        op._add_control_inputs(copies)

    # --- the loop ---------------------------------------------------------------------------------------------------

    def build(
        self, pred: Callable[..., Any], body: Callable[..., Any], loop_vars: object, invariants: object, keeps_structure: bool
    ) -> Any:
        """Results of the loop, in the structure of its loop variables."""
        tensors = [_tensor_of(leaf) for leaf in nest.flatten(loop_vars)]
        flat = [part for tensor in tensors for part in nest.flatten([tensor], expand_composites=True)]
        with self.entered():
            original, exits = self._build(pred, body, loop_vars, flat, invariants)
            self.leave_results(exits)
        packed = pack_with_flows(original, exits)
        return packed[0] if len(exits) == 1 and not keeps_structure else packed

    def _build(
        self, pred: Callable[..., Any], body: Callable[..., Any], loop_vars: object, flat: list[Tensor], invariants: object
    ) -> tuple[Any, list[Tensor]]:
        outer_values = flat if self.outer is None else [self.outer.add_value(tensor) for tensor in flat]
        with outside(self.graph):
            self.enters = [
                enter(tensor, self._name, False, self.parallel_iterations, invariants is None) for tensor in outer_values
            ]
            for entered in self.enters:
                self.graph.prevent_feeding(entered)
                if self.outer is not None:
                    self.outer.add_inner_op(entered.op)
        self._set_invariants(outer_values, invariants)
        self._tie_to_outer_loop()
        self._settle_enters(self.enters)
        self.known.update(self.enters)
        # the second input is a stand-in until the body has made the next iteration's value
        merges = [merge([entered, entered]) for entered in self.enters]
        # ops of the condition that need nothing wait for the first variable
        self.pivot_for_pred = merges[0]
        condition = convert_to_tensor(pred(*pack_with_flows(loop_vars, merges)))
        self.condition = gen("LoopCond")(condition, name="LoopCond")
        switches = [switch_colocated(merged, self.condition) for merged in merges]
        # an Identity for each: TensorFlow's ops of the body never read a Switch directly
        inner = [pass_on(when_true) for _, when_true in switches]
        self.pivot_for_body = inner[0]
        packed = pack_with_flows(loop_vars, inner)
        summaries = self.summaries()
        result = body(*packed)
        if not nest.is_nested(result):
            result = [result]
        added = self.take_summaries(len(summaries))
        if added:
            with self.graph.control_dependencies(added):
                result = nest.map_structure(
                    lambda leaf: leaf if isinstance(leaf, TensorArray) else gen("Identity")(leaf), result
                )
        nest.assert_same_structure(list(packed), list(result), expand_composites=True)
        given = [convert_to_tensor(_tensor_of(leaf)) for leaf in nest.flatten(result, expand_composites=True)]
        for merged, tensor in zip(merges, given, strict=True):
            self._close(merged, tensor)
        # made last, so that Exits follow the body in the log
        self.exits = [leave(when_false) for when_false, _ in switches]
        return result, self.exits

    def _tie_to_outer_loop(self) -> None:
        outer, pivot = self.outer, None
        while outer is not None and pivot is None:
            pivot, outer = outer.pivot, outer.outer
        if pivot is not None:
            for entered in self.enters:
                # otherwise an inner loop over outer constants alone would start once, not in each outer iteration
                if is_loop_constant(entered.op.inputs[0].op):
                    entered.op._add_control_input(pivot.op)

    def _set_invariants(self, values: Sequence[Tensor], invariants: object) -> None:
        # an Enter keeps the static shape of its input, unless the script gives an invariant
        if invariants is None:
            return
        shapes = [as_shape(item) for item in nest.flatten(invariants)]
        for tensor, entered, shape in zip(values, self.enters, shapes, strict=True):
            if not tensor.shape.is_subtype_of(shape):
                raise ValueError(
                    f"The shape invariant specified for {tensor.name} is not compatible with the initial shape of the loop "
                    f"variable. It enters the loop with shape {tensor.shape}, but the specified shape invariant is {shape}."
                )
            entered.set_shape(shape)

    def _close(self, merged: Tensor, tensor: Tensor) -> None:
        """Connect the body's result to the next iteration."""
        following = next_iteration(tensor)
        if not following.shape.is_subtype_of(merged.shape):
            entered = merged.op.inputs[0].op.inputs[0]
            raise ValueError(
                f"Input tensor '{entered.name}' enters the loop with shape {merged.shape}, but has shape {following.shape} "
                "after one iteration. To allow the shape to vary across iterations, use the `shape_invariants` argument of "
                "tf.while_loop to specify a less-specific shape."
            )
        # the back edge replaces the stand-in
        merged.op._update_input(1, following)

    def add_inner_op(self, op: Operation) -> None:
        """Add the outputs of an inner context's op to the known tensors."""
        self.known.update(op.outputs)
        super().add_inner_op(op)


def _tensor_of(leaf: Any) -> Any:
    if isinstance(leaf, TensorArray):
        return leaf.flow
    return leaf if isinstance(leaf, IndexedSlices | SparseTensor) else convert_to_tensor(leaf)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: TensorLike | None = None,
    return_same_structure: bool = False,
) -> Any:
    """`tf.while_loop`.  Raises TypeError and ValueError in TensorFlow's words."""
    if not callable(cond):
        raise TypeError("'cond' must be callable.")
    if not callable(body):
        raise TypeError("'body' must be callable.")
    # TensorFlow raises TypeError here, not ValueError
    if parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    if is_version_2():
        from placesim.tf1.functions import loops

        return loops.while_loop(
            cond, body, loop_vars, shape_invariants, parallel_iterations, maximum_iterations, name, return_same_structure
        )
    # TensorFlow reads resource variables before it opens the scope
    loop_vars = nest.map_structure(
        lambda leaf: convert_to_tensor(leaf) if isinstance(leaf, ResourceVariable) else leaf, loop_vars
    )
    with name_scope(name, "while", loop_vars):
        if not loop_vars:
            raise ValueError("'loop_vars' must be provided.")
        graph = get_default_graph()
        maximum = None if maximum_iterations is None else _maximum(maximum_iterations)
        counted = maximum is not None
        if maximum is not None:
            cond, body, loop_vars, shape_invariants = _counted(
                maximum, cond, body, loop_vars, shape_invariants, return_same_structure
            )
        context = WhileContext(maximum, parallel_iterations, back_prop, swap_memory)
        if context.outer is None:
            graph.add_to_collection(GraphKeys.WHILE_CONTEXT, context)
        result = context.build(cond, body, loop_vars, shape_invariants, return_same_structure or counted)
        # the counter stays hidden from the caller
        return result[1] if counted else result


def _maximum(given: Any) -> Tensor:
    found = convert_to_tensor(given, name="maximum_iterations")
    if found.shape.rank not in (0, None):
        raise ValueError(f"'maximum_iterations' must be a scalar. Received shape: {found.shape}")
    return found


def _counted(
    maximum: Tensor, cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, invariants: Any, keeps_structure: bool
) -> tuple[Any, Any, Any, Any]:
    """Add an iteration counter to a loop as its first variable."""
    # the limit's type decides: a limit of int64 needs such a counter
    counter = constant(0, maximum.dtype, name="iteration_counter")
    logical_and = gen("LogicalAnd")
    # a single variable is nested once less, as TensorFlow does it
    is_alone = len(loop_vars) == 1 and not keeps_structure
    unpack: Callable[[Any], tuple[Any, ...]] = (lambda value: (value,)) if is_alone else tuple

    def counted_cond(i: Tensor, variables: Any) -> Any:
        return logical_and(i < maximum, cond(*unpack(variables)))

    def counted_body(i: Tensor, variables: Any) -> Any:
        return i + 1, body(*unpack(variables))

    if invariants is not None:
        invariants = (TensorShape([]), invariants[0] if is_alone else invariants)
    return counted_cond, counted_body, (counter, loop_vars[0] if is_alone else loop_vars), invariants
