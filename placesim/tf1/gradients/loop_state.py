"""Gradients of loops: a loop that runs as often as the forward one did, and reads what that one recorded (7).

For each forward loop between the xs and the ys a counter is added to it (`f_count`), and a loop for its gradient is made
(`b_count`), which counts down.  A tensor of the forward loop that the gradient reads is pushed on a stack there, popped here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from placesim.tf1.constant_values import constant_value
from placesim.tf1.control_flow.conditionals import CondContext
from placesim.tf1.control_flow.contexts import ControlFlowContext, output_context
from placesim.tf1.control_flow.loops import WhileContext
from placesim.tf1.control_flow.switching import LOOP_EXITS, SWITCHES, is_loop_constant, switch_colocated
from placesim.tf1.conversion import constant
from placesim.tf1.generated import gen
from placesim.tf1.gradients.conditions import zeros_like_output
from placesim.tf1.gradients.variables import variable_shape
from placesim.tf1.graph import get_default_graph
from placesim.tf1.namespaces import namespace
from placesim.tf1.scopes import colocate_with, control_dependencies
from placesim.tf1.sparse_values import IndexedSlices
from placesim.tf1.tensor import Operation, Tensor

tf: Any = namespace("")


@contextmanager
def _inside(context: ControlFlowContext | None) -> Iterator[None]:
    with nullcontext() if context is None else context.entered():
        yield


def _enter(tensor: Tensor, loop: WhileContext, name: str, keeps_shape: bool = True) -> Tensor:
    op = "RefEnter" if tensor._is_ref else "Enter"
    found: Tensor = gen(op)(tensor, loop.name, False, loop.parallel_iterations, name=name)
    found.graph.shapes.settle(found.op.node.id, tensor.sizes if keeps_shape else None)
    return found


def _merge(tensors: list[Tensor], name: str | None = None) -> Tensor:
    found: Tensor = gen("Merge")(tensors, name=name)[0]
    return found


def _known(tensor: Tensor) -> bool:
    return bool(tensor.shape.is_fully_defined())


class GradLoopState:
    """A forward loop and the loop of its gradient."""

    def __init__(self, forward: WhileContext, outer: GradLoopState | None) -> None:
        self.forward_context = forward
        self.outer = outer
        self.forward_exits = list(forward.exits)
        self.grad_context: Any = None
        self.pending_exits = len(forward.exits)
        self.deferred_exits: list[Tensor] = []
        self.unused_exits: list[Tensor] = []
        self.history: dict[Tensor, Tensor] = {}
        self.switches: dict[Operation, Tensor] = {}
        self._grad_sync: Operation | None = None
        self._forward_sync: Operation | None = None
        outer_forward = outer.forward_context if outer is not None else forward.outer
        with _inside(outer_forward):
            count, self.forward_index = self._count_forward(forward, outer)
        if outer is not None:
            assert outer_forward is not None
            outer_forward.known.add(count)
            history = outer.accumulate(count)
            with _inside(outer.grad_context):
                self.grad_context = self._grad_loop(forward)
                real_count = outer.pop(history, count)
                self.grad_index = self._count_backward(self.grad_context, real_count, outer)
        else:
            with _inside(outer_forward):
                self.grad_context = self._grad_loop(forward)
                self.grad_index = self._count_backward(self.grad_context, count, None)

    def _grad_loop(self, forward: WhileContext) -> WhileContext:
        return WhileContext(
            forward.maximum_iterations,
            forward.parallel_iterations,
            forward.back_prop,
            forward.swap_memory,
            forward.name,
            self,
        )

    @staticmethod
    def _count_forward(loop: WhileContext, outer: GradLoopState | None) -> tuple[Tensor, Tensor]:
        """A counter of the forward loop's iterations: what it ends with, and what the next iteration sees."""
        start = constant(0, name="f_count")
        if outer is not None:
            # The pushes of one execution of an inner loop come before those of the next.
            start.op._add_control_input(outer.forward_index.op.inputs[0].op)
        with _inside(loop):
            loop.known.add(start)
            entered = _enter(start, loop, "f_count")
            loop.enters.append(entered)
            merged = _merge([entered, entered])
            assert loop.condition is not None
            when_false, when_true = gen("Switch")(merged, loop.condition)
            index = tf.add(when_true, 1)
            following = gen("NextIteration")(index)
            merged.op._update_input(1, following)
            total = gen("Exit")(when_false, name="f_count")
            loop.exits.append(total)
            loop.leave_results([total])
        return total, following

    @staticmethod
    def _count_backward(loop: WhileContext, count: Tensor, outer: GradLoopState | None) -> Tensor:
        """The counter of the gradient's loop, which makes it run; what the next iteration sees."""
        one = constant(1, name="b_count")
        with _inside(loop):
            loop.known.add(count)
            entered = _enter(count, loop, "b_count")
            loop.enters.append(entered)
            merged = _merge([entered, entered])
            loop.pivot_for_pred = merged
            loop.condition = gen("LoopCond")(tf.greater_equal(merged, one), name="b_count")
            when_false, when_true = gen("Switch")(merged, loop.condition)
            index = tf.subtract(when_true, one)
            loop.pivot_for_body = index
            following = gen("NextIteration")(index)
            merged.op._update_input(1, following)
            final = gen("Exit")(when_false, name="b_count")
            loop.exits.append(final)
            if outer is not None:
                outer.grad_sync._add_control_input(final.op)
            loop.leave_results([final])
        return following  # type: ignore[no-any-return]

    @property
    def grad_sync(self) -> Operation:
        """What all pops of an iteration come before."""
        if self._grad_sync is None:
            with control_dependencies(None):
                self._grad_sync = gen("ControlTrigger")(name="b_sync")
            self._grad_sync._set_control_flow_context(self.grad_context)
            self.grad_index.op._add_control_input(self._grad_sync)
            if self.grad_context.outer is not None:
                self.grad_context.outer.add_inner_op(self._grad_sync)
        return self._grad_sync

    @property
    def forward_sync(self) -> Operation:
        """What all pushes out of a conditional's branch come before."""
        if self._forward_sync is None:
            with control_dependencies(None):
                self._forward_sync = gen("ControlTrigger")(name="f_sync")
            self._forward_sync._set_control_flow_context(self.forward_context)
            self.forward_index.op._add_control_input(self._forward_sync)
        return self._forward_sync

    # --- what is recorded --------------------------------------------------------------------------------------------------

    def accumulate(self, value: Tensor, dead_branch: bool = False) -> Tensor:
        """A stack on which the forward loop pushes a tensor in each iteration."""
        current = get_default_graph()._control_flow_context
        with control_dependencies(None):
            with _inside(current), colocate_with(value):
                limit = constant(-1, "int32")
                stack = gen("StackV2")(max_size=limit, elem_type=value.dtype.base_dtype, name="f_acc")
            forward = self.forward_context
            entered = forward.add_value(stack)
            value_context = output_context(value.op)
            if value_context is forward:
                with _inside(forward):
                    pushed = gen("StackPushV2")(entered, value, swap_memory=forward.swap_memory)
                self.forward_index.op._add_control_input(pushed.op)
            else:
                if not isinstance(value_context, CondContext):
                    raise TypeError(f"value_ctxt is not a CondContext: {value_context}")
                with _inside(value_context.outer if dead_branch else value_context):
                    pushed = gen("StackPushV2")(entered, value, swap_memory=forward.swap_memory)
                if dead_branch:
                    pushed.op._set_control_flow_context(value_context)
                self.forward_sync._add_control_input(pushed.op)
            pushed.op._add_control_input(self.forward_index.op.inputs[0].op)
        return stack  # type: ignore[no-any-return]

    def pop(self, stack: Tensor, value: Tensor, dead_branch: bool = False) -> Tensor:
        """What the forward loop pushed, in the gradient's loop: the last first."""
        stack_context = stack.op._get_control_flow_context()
        branch_context = None
        context = value.op._get_control_flow_context()
        while context is not None and context is not stack_context:
            if isinstance(context, CondContext):
                branch_context = context
                break
            context = context.outer
        with control_dependencies(None), _inside(self.grad_context):
            if branch_context is not None:
                # Only the branch that ran has pushed.
                state: GradLoopState | None = self
                pred = None
                while pred is None and state is not None:
                    pred = state.history.get(branch_context.pred)
                    state = state.outer
                branch = 1 - branch_context.branch if dead_branch else branch_context.branch
                stack = switch_colocated(stack, branch_context.pred if pred is None else pred)[branch]
            popped = gen("StackPopV2")(stack, value.dtype.base_dtype)
            popped.set_shape(value.shape)
        if self.grad_context.parallel_iterations > 1:
            self.grad_sync._add_control_input(popped.op)
        return popped  # type: ignore[no-any-return]

    def real_value(self, value: Tensor) -> Tensor:
        """What stands in the gradient's loop for a tensor of the forward loop."""
        found = self.history.get(value)
        if found is not None:
            return found
        current, state = value, self
        history = None
        while True:
            if is_loop_constant(_enter_of(current)):
                # What a loop does not change is read from outside.
                current = _enter_of(current).inputs[0]
                if state.outer is None:
                    found = self.grad_context.add_value(current)
                    break
                state = state.outer
            elif current.op.type == "Const":
                found = constant(constant_value(current), dtype=current.dtype)
                break
            else:
                self.grad_context.leave()
                history = state.accumulate(current)
                self.grad_context.enter()
                break
        if found is None:
            assert history is not None
            found = state.pop(history, current)
            if state is not self:
                found = self.grad_context.add_value(found)
        self.history[value] = found
        return found

    # --- what is summed up ----------------------------------------------------------------------------------------------------

    def sum_up(self, op: Operation, grad: Any) -> Any:
        """The sum, over all iterations, of the gradients of what the loop does not change."""
        loop = self.grad_context
        if isinstance(grad, IndexedSlices):
            return self._sum_up_slices(op, grad)
        loop.leave()
        outer = loop.outer
        if _known(grad):
            with _inside(outer):
                start = constant(0, grad.dtype, shape=grad.shape, name="b_acc")
        else:
            start = self._zeros_outside(op.inputs[0], grad.dtype)
        loop.enter()
        loop.known.add(start)
        entered = _enter(start, loop, "b_acc")
        loop.enters.append(entered)
        merged = _merge([entered, entered], "b_acc")
        when_false, when_true = gen("Switch")(merged, loop.condition)
        total = tf.add(when_true, grad)
        merged.op._update_input(1, gen("NextIteration")(total))
        result = gen("Exit")(when_false, name="b_acc")
        loop.exits.append(result)
        loop.leave_results([result])
        return result

    def _zeros_outside(self, value: Tensor, dtype: Any) -> Tensor:
        """Zeros of a shape that only the forward pass tells, made outside the gradient's loop."""
        outer = self.grad_context.outer
        if isinstance(outer, WhileContext) and outer.grad_state is not None:
            assert self.outer is not None
            with _inside(self.forward_context.outer):
                shape = gen("Shape")(value)
            history = self.outer.accumulate(shape)
            with _inside(outer):
                return tf.zeros(self.outer.pop(history, shape), dtype)  # type: ignore[no-any-return]
        with _inside(outer):
            shape = _shape_of(value)
            return tf.zeros(shape, dtype)  # type: ignore[no-any-return]

    def _sum_up_slices(self, op: Operation, grad: IndexedSlices) -> IndexedSlices:
        loop = self.grad_context
        values, indices, dense_shape = grad.values, grad.indices, grad.dense_shape
        loop.leave()
        with _inside(loop.outer):
            if _known(values):
                first = constant(0, values.dtype, shape=[1, *values.shape.as_list()[1:]], name="b_acc")
            else:
                rest = _shape_of(op.inputs[0])[1:]
                first = tf.zeros(tf.concat([[1], rest], 0), dtype=values.dtype)
            starts = [constant([0], indices.dtype), first]
            if dense_shape is not None:
                if _known(dense_shape):
                    starts.append(constant(0, dense_shape.dtype, shape=dense_shape.shape))
                else:
                    shape = gen("Shape")(op.inputs[0], out_type=dense_shape.dtype)
                    starts.append(tf.zeros_like(shape, optimize=False))
        loop.enter()
        loop.known.update(starts)
        entered = [_enter(start, loop, "b_acc", keeps_shape=False) for start in starts]
        entered[0].set_shape([None])
        if first.shape.rank is not None:
            entered[1].set_shape([None, *first.shape.as_list()[1:]])
        loop.enters.extend(entered)
        merged = [_merge([tensor, tensor], "b_acc") for tensor in entered]
        switched = [gen("Switch")(tensor, loop.condition) for tensor in merged]
        sums = [tf.concat([so_far[1], new], 0) for so_far, new in zip(switched[:2], [indices, values], strict=True)]
        if dense_shape is not None:
            sums.append(tf.maximum(dense_shape, switched[2][1]))
        following = [gen("NextIteration")(tensor) for tensor in sums]
        for tensor, update in zip(merged, following, strict=True):
            tensor.op._update_input(1, update)
        exits = [gen("Exit")(pair[0], name="b_acc") for pair in switched]
        loop.exits.extend(exits)
        loop.leave_results(exits)
        return IndexedSlices(exits[1], exits[0], exits[2] if dense_shape is not None else None)


def _shape_of(value: Tensor) -> Any:
    if value.dtype.base_dtype.name == "resource":
        return variable_shape(value)
    return gen("Shape")(value)


def _enter_of(tensor: Tensor) -> Operation:
    """The op that a tensor comes from, Identities and Switches aside."""
    op = tensor.op
    while op.type in ("Identity", "RefIdentity", "Switch", "RefSwitch"):
        op = op.inputs[0].op
    return op


class LoopGradients:
    """The loops of one call of `tf.gradients`."""

    def __init__(self, colocated_with: Callable[[Operation], Any]) -> None:
        self._states: dict[WhileContext, GradLoopState] = {}
        self._colocated_with = colocated_with

    def add_loops(self, between: dict[Operation, None]) -> None:
        """Makes the loops of the gradients; all exits of a loop that has one are between xs and ys."""
        ops = list(between)
        for op in ops:
            if op.type in LOOP_EXITS:
                with self._colocated_with(op):
                    self._add(op, between, ops)

    def _add(self, op: Operation, between: dict[Operation, None], ops: list[Operation]) -> None:
        loop: Any = op._control_flow_context
        loop = loop.while_context
        if loop is None or loop in self._states:
            return
        outer = None if loop.outer is None else loop.outer.while_context
        state = self._states[loop] = GradLoopState(loop, None if outer is None else self._states.get(outer))
        for tensor in state.forward_exits:
            if tensor.op not in between:
                between[tensor.op] = None
                ops.append(tensor.op)

    def _state(self, op: Operation, before: bool) -> GradLoopState | None:
        """The loop that an op's gradient is made in; of an Exit before it is taken the one around its loop."""
        if before and op.type in LOOP_EXITS:
            context: Any = op._control_flow_context
            context = None if context.outer is None else context.outer.while_context
        else:
            context = op._control_flow_context
            context = None if context is None else context.while_context
        return None if context is None else self._states.get(context)

    def enter(self, op: Operation, before: bool) -> None:
        """Enters the gradient's loop of an op's loop, if it has one."""
        state = self._state(op, before)
        if state is not None:
            state.grad_context.enter()

    def exit(self, op: Operation, before: bool) -> None:
        """Leaves it."""
        state = self._state(op, before)
        if state is not None:
            state.grad_context.leave()

    def is_loop_switch(self, op: Operation) -> bool:
        """Whether an op is the Switch of a loop, not of a conditional."""
        return op.type in SWITCHES and isinstance(op._control_flow_context, WhileContext)

    def process_unused_exits(self, pending: dict[Operation, int], started: set[Operation]) -> list[Tensor]:
        """Exits that no y depends on, of loops all of whose exits are so far."""
        found: list[Tensor] = []
        for state in self._states.values():
            for tensor in state.forward_exits:
                if pending[tensor.op] == 0:
                    state.pending_exits -= 1
                    if tensor.op not in started:
                        state.unused_exits.append(tensor)
                    if state.pending_exits == 0:
                        found.extend(state.unused_exits)
            for tensor in state.forward_context.enters:
                if pending[tensor.op] == 0:
                    pending[tensor.op] = 1
        return found

    def exits_due(self, tensor: Tensor, has_gradients: Callable[[Operation], bool]) -> list[tuple[Tensor, bool]]:
        """A loop's exits are taken together, once all are ready: first those with a gradient, then those that need zeros.

        Gives each with whether it has a gradient, or needs none.
        """
        state = self._state(tensor.op, before=False)
        assert state is not None
        state.deferred_exits.append(tensor)
        state.pending_exits -= 1
        if state.pending_exits != 0:
            return []
        used = [output for output in state.deferred_exits if has_gradients(output.op)]
        state.unused_exits.extend(output for output in state.deferred_exits if output not in used)
        return [(output, True) for output in used] + [(output, not used) for output in state.unused_exits]

    def zeros_for_exit(self, output: Tensor) -> Any:
        """The gradient of a loop's result that nothing was asked of."""
        loop: Any = output.op._control_flow_context
        outer_loop = None if loop.outer is None else loop.outer.while_context
        state = None if outer_loop is None else self._states.get(outer_loop)
        if state is None:
            if _known(output):
                return tf.zeros(output.shape.as_list(), output.dtype)
            return tf.zeros_like(output, optimize=False)
        if _known(output):
            with _inside(state.grad_context):
                return tf.zeros(output.shape.as_list(), output.dtype)
        with _inside(loop.outer):
            shape = gen("Shape")(output)
        history = state.accumulate(shape)
        with _inside(state.grad_context):
            return tf.zeros(state.pop(history, shape), output.dtype)

    def zeros_like_output(self, op: Operation, index: int) -> Any:
        """The gradient of an op's output that nothing was asked of; None of a loop's Switch."""
        if self.is_loop_switch(op):
            return None
        is_dead = op.type in SWITCHES
        state = self._state(op, before=False)
        if state is None:
            return zeros_like_output(op, index)
        context: Any = op._control_flow_context
        output = op.outputs[index]
        if _known(output):
            if output.dtype.base_dtype.name == "resource":
                shape, dtype = variable_shape(output, with_dtype=True)
                result = tf.zeros(shape, dtype)
            else:
                result = constant(0, shape=output.shape, dtype=output.dtype)
            if is_dead:
                pred = state.history[context.pred]
                result = switch_colocated(result, pred)[1 - context.branch]
            return result
        if is_dead:
            with _inside(context.outer):
                passed = switch_colocated(op.inputs[0], context.pred)[1 - context.branch]
                shape = gen("Shape")(passed)
            passed.op._set_control_flow_context(context)
            shape.op._set_control_flow_context(context)
        else:
            with _inside(context):
                shape = gen("Shape")(output)
        state.grad_context.leave()
        history = state.accumulate(shape, dead_branch=is_dead)
        state.grad_context.enter()
        return tf.zeros(state.pop(history, shape, is_dead), output.dtype)

    def post_process(self) -> None:
        """Where a loop's variable does not depend on its value before, all gradients but the last are zeros."""
        for state in self._states.values():
            loop = state.grad_context
            for merged in state.switches.values():
                if merged.op.inputs[0] is not merged.op.inputs[1]:
                    continue
                if _known(merged):
                    with _inside(loop):
                        zeros = constant(0, dtype=merged.dtype, shape=merged.shape)
                        following = gen("NextIteration")(zeros)
                else:
                    with _inside(loop.outer):
                        source = merged.op.inputs[0].op.inputs[0]
                        zeros = tf.zeros(gen("Shape")(source))
                    with _inside(loop):
                        following = gen("NextIteration")(zeros)
                merged.op._update_input(1, following)
