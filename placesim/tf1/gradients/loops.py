"""Loops between the xs and ys of one call of `tf.gradients`: their gradient loops, and the order of their exits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from placesim.tf1.control_flow.contexts import ControlFlowContext, loop_of
from placesim.tf1.control_flow.loops import WhileContext
from placesim.tf1.control_flow.switching import LOOP_EXITS, SWITCHES, switch_colocated
from placesim.tf1.gradients.conditions import zeros_like_output
from placesim.tf1.gradients.loop_state import GradLoopState, has_known_shape, within
from placesim.tf1.gradients.rules.variables import zeros_of
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


class LoopGradients:
    """The loops of one call of `tf.gradients`."""

    def __init__(self, colocated_with: Callable[[Operation], Any]) -> None:
        self._states: dict[WhileContext, GradLoopState] = {}
        self._colocated_with = colocated_with

    def add_loops(self, between: dict[Operation, None]) -> None:
        """Make a gradient loop for each loop with an exit in `between`, and add all exits of these loops to `between`."""
        ops = list(between)
        for op in ops:
            if op.type in LOOP_EXITS:
                with self._colocated_with(op):
                    self._add(op, between, ops)

    def _add(self, op: Operation, between: dict[Operation, None], ops: list[Operation]) -> None:
        loop: Any = op._control_flow_context
        loop = loop.while_context
        # the exits of one loop share its gradient loop
        if loop is None or loop in self._states:
            return
        state = self._states[loop] = GradLoopState(loop, self._state_around(loop.outer))
        for tensor in state.exits:
            if tensor.op not in between:
                between[tensor.op] = None
                ops.append(tensor.op)

    def _state_around(self, context: ControlFlowContext | None) -> GradLoopState | None:
        """State of the innermost loop that is `context` or around it."""
        loop: Any = loop_of(context)
        return None if loop is None else self._states.get(loop)

    def inside(self, op: Operation, before: bool) -> AbstractContextManager[None]:
        """Gradient loop in which an op's gradient is made; with `before`, in which its received gradients are summed.

        The two differ for an Exit, whose received gradients are outside its loop.
        """
        context: Any = op._control_flow_context
        state = self._state_around(context.outer if before and op.type in LOOP_EXITS else context)
        return within(None if state is None else state.backward_loop)

    def is_loop_switch(self, op: Operation) -> bool:
        """Whether an op is the Switch of a loop, not of a conditional."""
        return op.type in SWITCHES and isinstance(op._control_flow_context, WhileContext)

    def exits_out_of_reach(self, pending: dict[Operation, int], started: set[Operation]) -> list[Tensor]:
        """Exits, other than ys, of loops of which no exit is read by an op between xs and ys."""
        found: list[Tensor] = []
        for state in self._states.values():
            idle = [tensor for tensor in state.exits if not pending[tensor.op]]
            state.idle_exits += [tensor for tensor in idle if tensor.op not in started]
            state.exits_awaited -= len(idle)
            if idle and not state.exits_awaited:
                found += state.idle_exits
            # The gradient of a gradient goes through a loop's inputs even where no y depends on them.
            for enter in state.forward_context.enters:
                pending[enter.op] = pending[enter.op] or 1
        return found

    def exits_due(self, tensor: Tensor, has_gradients: Callable[[Operation], bool]) -> list[tuple[Tensor, bool]]:
        """Exits to differentiate after the exit `tensor` became ready: all exits of its loop if all are ready, else none.

        Those with a gradient come first.  The flag is False for an exit that needs zeros.
        """
        state = self._state_around(tensor.op._control_flow_context)
        assert state is not None
        state.ready_exits.append(tensor)
        state.exits_awaited -= 1
        # the gradient loop has one start for all variables, so all exits begin together
        if state.exits_awaited:
            return []
        used: list[Tensor] = []
        for ready in state.ready_exits:
            (used if has_gradients(ready.op) else state.idle_exits).append(ready)
        return [*((ready, True) for ready in used), *((idle, not used) for idle in state.idle_exits)]

    def zeros_of_exit(self, output: Tensor) -> Any:
        """Zeros for a loop's exit that received no gradient."""
        loop: Any = output.op._control_flow_context
        state = self._state_around(loop.outer)
        if has_known_shape(output):
            with within(None if state is None else state.backward_loop):
                return tf.zeros(output.shape.as_list(), output.dtype)
        if state is None:
            return tf.zeros_like(output, optimize=False)
        with within(loop.outer):
            shape = gen("Shape")(output)
        history = state.record(shape)
        with within(state.backward_loop):
            return tf.zeros(state.recall(history, shape), output.dtype)

    def zeros_like_output(self, op: Operation, index: int) -> Any:
        """Zeros for an op's output that received no gradient; None for a loop's Switch."""
        # its gradient is a Merge, whose missing input is set when the loop is closed
        if self.is_loop_switch(op):
            return None
        is_dead = op.type in SWITCHES
        state = self._state_around(op._control_flow_context)
        if state is None:
            return zeros_like_output(op, index)
        context: Any = op._control_flow_context
        output = op.outputs[index]
        if has_known_shape(output):
            is_resource = output.dtype.base_dtype.name == "resource"
            result = zeros_of(output) if is_resource else constant(0, shape=output.shape, dtype=output.dtype)
            if is_dead:
                result = switch_colocated(result, state.stand_ins[context.pred])[1 - context.branch]
            return result
        if is_dead:
            with within(context.outer):
                passed = switch_colocated(op.inputs[0], context.pred)[1 - context.branch]
                shape = gen("Shape")(passed)
            passed.op._set_control_flow_context(context)
            shape.op._set_control_flow_context(context)
        else:
            with within(context):
                shape = gen("Shape")(output)
        state.backward_loop.leave()
        history = state.record(shape, dead_branch=is_dead)
        state.backward_loop.enter()
        return tf.zeros(state.recall(history, shape, is_dead), output.dtype)

    def close_unchanged(self) -> None:
        """Set the gradient of a loop variable's current value to zeros if the next value does not depend on it."""
        for state in self._states.values():
            loop = state.backward_loop
            for merged in state.switches.values():
                # the second input is still the stand-in if the body's gradient never reached the Switch
                if merged.op.inputs[0] is not merged.op.inputs[1]:
                    continue
                if has_known_shape(merged):
                    with within(loop):
                        zeros = constant(0, dtype=merged.dtype, shape=merged.shape)
                else:
                    with within(loop.outer):
                        zeros = tf.zeros(gen("Shape")(merged.op.inputs[0].op.inputs[0]))
                with within(loop):
                    merged.op._update_input(1, gen("NextIteration")(zeros))
