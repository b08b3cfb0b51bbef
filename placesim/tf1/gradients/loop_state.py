"""Gradient loops: each runs as many iterations as its forward loop, and reads tensors that the forward loop recorded (7).

The forward loop gets a counter of iterations (`f_count`), and the gradient loop counts down from its last value (`b_count`).
For each tensor that the gradient reads there is a stack: the forward loop pushes the tensor, the gradient loop pops it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from placesim.tf1.control_flow.conditionals import CondContext
from placesim.tf1.control_flow.contexts import ControlFlowContext, output_context
from placesim.tf1.control_flow.loops import WhileContext
from placesim.tf1.control_flow.switching import is_loop_constant, switch_colocated
from placesim.tf1.gradients.rules.variables import variable_shape
from placesim.tf1.graphs.default_graph_scopes import colocate_with, control_dependencies
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.constant_values import constant_value
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


def within(context: ControlFlowContext | None) -> AbstractContextManager[None]:
    """Put new ops of the block into a context; None is the current context."""
    return nullcontext() if context is None else context.entered()


def _enter(tensor: Tensor, loop: WhileContext, name: str, keeps_shape: bool = True) -> Tensor:
    op = "RefEnter" if tensor._is_ref else "Enter"
    found: Tensor = gen(op)(tensor, loop.name, False, loop.parallel_iterations, name=name)
    found.graph.shapes.settle(found.op.node.id, tensor.sizes if keeps_shape else None)
    return found


def _merge(tensors: list[Tensor], name: str | None = None) -> Tensor:
    return gen("Merge")(tensors, name=name)[0]  # type: ignore[no-any-return]


def _add_variable(loop: WhileContext, start: Tensor, name: str, merge_name: str | None = None) -> Tensor:
    """Merge of a new loop variable; its second input is still to be set to the next value."""
    loop.known.add(start)
    entered = _enter(start, loop, name)
    loop.enters.append(entered)
    return _merge([entered, entered], merge_name)


def add_exit(loop: WhileContext, tensor: Tensor, name: str | None = None) -> Any:
    """Exit of a tensor from a loop."""
    result = gen("Exit")(tensor, name=name)
    loop.exits.append(result)
    loop.leave_results([result])
    return result


def has_known_shape(tensor: Tensor) -> bool:
    """Whether the static shape is fully known."""
    return bool(tensor.shape.is_fully_defined())


class GradLoopState:
    """A forward loop and its gradient loop."""

    def __init__(self, forward: WhileContext, outer: GradLoopState | None) -> None:
        self.forward_context = forward
        self.outer = outer
        self.exits = list(forward.exits)
        self.backward_loop: Any = None
        self.exits_awaited = len(self.exits)
        self.ready_exits: list[Tensor] = []
        self.idle_exits: list[Tensor] = []
        self.stand_ins: dict[Tensor, Tensor] = {}
        """Tensor of the forward loop -> tensor of the gradient loop with its values."""
        self.switches: dict[Operation, Tensor] = {}
        """Switch of the forward loop -> Merge of the gradient loop, its gradient."""
        self._barriers: dict[str, Operation] = {}
        # the counter of an inner loop runs in the outer forward loop
        outer_forward = outer.forward_context if outer is not None else forward.outer
        with within(outer_forward):
            count, self.next_index = self._count_forward(forward, outer)
        if outer is not None:
            assert outer_forward is not None
            outer_forward.known.add(count)
            history = outer.record(count)
        with within(outer_forward if outer is None else outer.backward_loop):
            limits = forward.maximum_iterations, forward.parallel_iterations
            self.backward_loop = WhileContext(*limits, forward.back_prop, forward.swap_memory, forward.name, self)
            if outer is not None:
                count = outer.recall(history, count)
            self.next_countdown = self._count_backward(self.backward_loop, count, outer)

    @staticmethod
    def _count_forward(loop: WhileContext, outer: GradLoopState | None) -> tuple[Tensor, Tensor]:
        """Iteration counter of the forward loop: its final value, and its value in the next iteration."""
        start = constant(0, name="f_count")
        if outer is not None:
            # The pushes of one execution of an inner loop come before those of the next.
            start.op._add_control_input(outer.next_index.op.inputs[0].op)
        with within(loop):
            merged = _add_variable(loop, start, "f_count")
            assert loop.condition is not None
            when_false, when_true = gen("Switch")(merged, loop.condition)
            following = gen("NextIteration")(tf.add(when_true, 1))
            merged.op._update_input(1, following)
            return add_exit(loop, when_false, "f_count"), following

    @staticmethod
    def _count_backward(loop: WhileContext, count: Tensor, outer: GradLoopState | None) -> Tensor:
        """Counter that drives the gradient loop: its value in the next iteration."""
        one = constant(1, name="b_count")
        with within(loop):
            merged = _add_variable(loop, count, "b_count")
            loop.pivot_for_pred = merged
            loop.condition = gen("LoopCond")(tf.greater_equal(merged, one), name="b_count")
            when_false, when_true = gen("Switch")(merged, loop.condition)
            loop.pivot_for_body = tf.subtract(when_true, one)
            following = gen("NextIteration")(loop.pivot_for_body)
            merged.op._update_input(1, following)
            final = add_exit(loop, when_false, "b_count")
            if outer is not None:
                outer._pops_done._add_control_input(final.op)
        return following  # type: ignore[no-any-return]

    def _barrier(self, name: str, loop: WhileContext, following: Tensor) -> Operation:
        """Op of `loop`, made on first use.  The next value of the loop's counter, `following`, waits for the op."""
        if name not in self._barriers:
            with control_dependencies(None):
                made = self._barriers[name] = gen("ControlTrigger")(name=name)
            # made without control inputs, outside any context, and then put into the loop
            made._set_control_flow_context(loop)
            following.op._add_control_input(made)
            if loop is self.backward_loop and loop.outer is not None:
                loop.outer.add_inner_op(made)
        return self._barriers[name]

    @property
    def _pushes_done(self) -> Operation:
        """Barrier after all pushes in branches of conditionals."""
        return self._barrier("f_sync", self.forward_context, self.next_index)

    @property
    def _pops_done(self) -> Operation:
        """Barrier after all pops of an iteration."""
        return self._barrier("b_sync", self.backward_loop, self.next_countdown)

    # --- recorded values ---------------------------------------------------------------------------------------------------

    def record(self, value: Tensor, dead_branch: bool = False) -> Tensor:
        """Stack on which the forward loop pushes a tensor in each iteration.

        `dead_branch`: the tensor comes from the other branch of the conditional around its op.
        """
        current = get_default_graph()._control_flow_context
        with control_dependencies(None):
            with within(current), colocate_with(value):
                # a stack without limit: the number of iterations is unknown
                limit = constant(-1, "int32")
                stack = gen("StackV2")(max_size=limit, elem_type=value.dtype.base_dtype, name="f_acc")
            entered = self.forward_context.add_value(stack)
            home: Any = output_context(value.op)
            in_branch = home is not self.forward_context
            if in_branch and not isinstance(home, CondContext):
                raise TypeError(f"value_ctxt is not a CondContext: {home}")
            is_dead = in_branch and dead_branch
            with within(home.outer if is_dead else home):
                pushed = gen("StackPushV2")(entered, value, swap_memory=self.forward_context.swap_memory)
            if is_dead:
                pushed.op._set_control_flow_context(home)
            later = self._pushes_done if in_branch else self.next_index.op
            later._add_control_input(pushed.op)
            # one push after another, so that pops find the values in reverse order
            pushed.op._add_control_input(self.next_index.op.inputs[0].op)
        return stack  # type: ignore[no-any-return]

    def recall(self, stack: Tensor, value: Tensor, dead_branch: bool = False) -> Tensor:
        """Value popped from the stack in the gradient loop, which starts with the last value of the forward loop."""
        branch = _branch_between(value.op, stack.op)
        with control_dependencies(None), within(self.backward_loop):
            if branch is not None:
                # Only the branch that ran has pushed.
                side = 1 - branch.branch if dead_branch else branch.branch
                stack = switch_colocated(stack, self._condition(branch.pred))[side]
            popped = gen("StackPopV2")(stack, value.dtype.base_dtype)
            # a stack does not know the shapes of its values
            popped.set_shape(value.shape)
        # one iteration at a time needs no barrier
        if self.backward_loop.parallel_iterations > 1:
            self._pops_done._add_control_input(popped.op)
        return popped  # type: ignore[no-any-return]

    def _condition(self, pred: Tensor) -> Tensor:
        """Stand-in for a predicate in this gradient loop or one around it; else the predicate itself."""
        state: GradLoopState | None = self
        while state is not None:
            if pred in state.stand_ins:
                return state.stand_ins[pred]
            state = state.outer
        return pred

    def real_value(self, value: Tensor) -> Tensor:
        """Tensor of the gradient loop that has the values of a tensor of the forward loop."""
        if value not in self.stand_ins:
            self.stand_ins[value] = self._new_stand_in(value)
        return self.stand_ins[value]

    def _new_stand_in(self, value: Tensor) -> Tensor:
        state, source = self, value
        # A loop invariant is read from outside of all the loops that do not change it.
        while is_loop_constant(enter := _enter_of(source)):
            source = enter.inputs[0]
            if state.outer is None:
                return self.backward_loop.add_value(source)  # type: ignore[no-any-return]
            state = state.outer
        # a constant is made again, which is cheaper than a stack
        if source.op.type == "Const":
            return constant(constant_value(source), dtype=source.dtype)
        self.backward_loop.leave()
        stack = state.record(source)
        self.backward_loop.enter()
        found = state.recall(stack, source)
        return found if state is self else self.backward_loop.add_value(found)

    # --- sums over iterations ----------------------------------------------------------------------------------------------

    def sum_up(self, op: Operation, grad: Tensor) -> Any:
        """Sum of a loop invariant's gradient over all iterations.  `op` is the Enter of the invariant in the forward loop."""
        loop = self.backward_loop
        if isinstance(grad, IndexedSlices):
            return self._sum_up_slices(op, grad)
        loop.leave()
        outer = loop.outer
        if has_known_shape(grad):
            with within(outer):
                start = constant(0, grad.dtype, shape=grad.shape, name="b_acc")
        else:
            start = self._zeros_outside(op.inputs[0], grad.dtype)
        loop.enter()
        merged = _add_variable(loop, start, "b_acc", merge_name="b_acc")
        when_false, when_true = gen("Switch")(merged, loop.condition)
        # a sum, since the same value entered all iterations
        merged.op._update_input(1, gen("NextIteration")(tf.add(when_true, grad)))
        return add_exit(loop, when_false, "b_acc")

    def _zeros_outside(self, value: Tensor, dtype: DTypeLike) -> Tensor:
        """Zeros outside the gradient loop, of the runtime shape of `value` in the forward pass."""
        outer = self.backward_loop.outer
        if isinstance(outer, WhileContext) and outer.grad_state is not None:
            assert self.outer is not None
            with within(self.forward_context.outer):
                shape = gen("Shape")(value)
            history = self.outer.record(shape)
            with within(outer):
                return tf.zeros(self.outer.recall(history, shape), dtype)  # type: ignore[no-any-return]
        with within(outer):
            return tf.zeros(_shape_of(value), dtype)  # type: ignore[no-any-return]

    def _sum_up_slices(self, op: Operation, grad: IndexedSlices) -> IndexedSlices:
        loop = self.backward_loop
        values, indices, dense_shape = grad.values, grad.indices, grad.dense_shape
        loop.leave()
        with within(loop.outer):
            if has_known_shape(values):
                # one row of zeros at index 0: concatenation needs a first value
                first = constant(0, values.dtype, shape=[1, *values.shape.as_list()[1:]], name="b_acc")
            else:
                rest = _shape_of(op.inputs[0])[1:]
                first = tf.zeros(tf.concat([[1], rest], 0), dtype=values.dtype)
            starts = [constant([0], indices.dtype), first]
            if dense_shape is not None:
                if has_known_shape(dense_shape):
                    starts.append(constant(0, dense_shape.dtype, shape=dense_shape.shape))
                else:
                    shape = gen("Shape")(op.inputs[0], out_type=dense_shape.dtype)
                    starts.append(tf.zeros_like(shape, optimize=False))
        loop.enter()
        loop.known.update(starts)
        entered = [_enter(start, loop, "b_acc", keeps_shape=False) for start in starts]
        # the number of slices grows with each iteration
        entered[0].set_shape([None])
        if first.shape.rank is not None:
            entered[1].set_shape([None, *first.shape.as_list()[1:]])
        loop.enters.extend(entered)
        merged = [_merge([tensor, tensor], "b_acc") for tensor in entered]
        switched = [gen("Switch")(tensor, loop.condition) for tensor in merged]
        so_far = [pair[1] for pair in switched]
        longer = [tf.concat([so_far[0], indices], 0), tf.concat([so_far[1], values], 0)]
        if dense_shape is not None:
            longer.append(tf.maximum(dense_shape, so_far[2]))
        following = [gen("NextIteration")(tensor) for tensor in longer]
        for tensor, update in zip(merged, following, strict=True):
            tensor.op._update_input(1, update)
        exits = [add_exit(loop, pair[0], "b_acc") for pair in switched]
        return IndexedSlices(exits[1], exits[0], exits[2] if dense_shape is not None else None)


def _branch_between(op: Operation, stack: Operation) -> CondContext | None:
    """Innermost branch of a conditional around an op, up to the stack's context; None if there is none."""
    end: Any = stack._get_control_flow_context()
    context: Any = op._get_control_flow_context()
    while context is not None and context is not end:
        if isinstance(context, CondContext):
            return context
        context = context.outer
    return None


def _shape_of(value: Tensor) -> Any:
    if value.dtype.base_dtype.name == "resource":
        return variable_shape(value)
    return gen("Shape")(value)


def _enter_of(tensor: Tensor) -> Operation:
    """Op that makes a tensor, looking through Identity and Switch ops."""
    op = tensor.op
    # these pass a loop invariant on unchanged
    while op.type in ("Identity", "RefIdentity", "Switch", "RefSwitch"):
        op = op.inputs[0].op
    return op
