"""Loops reached by one call of `tf.gradients`: their gradient loops, and the time when their exits are processed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from placesim.tf1.control_flow.loops import WhileContext
from placesim.tf1.control_flow.switching import LOOP_EXITS, SWITCHES, switch_colocated
from placesim.tf1.gradients.conditions import zeros_like_output
from placesim.tf1.gradients.loop_state import GradLoopState, has_known_shape, within
from placesim.tf1.gradients.rules.variables import held_type, variable_shape
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
        for tensor in state.exits:
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

    @contextmanager
    def inside(self, op: Operation, before: bool) -> Iterator[None]:
        """The gradient's loop of an op's loop, if it has one."""
        state = self._state(op, before)
        if state is None:
            yield
            return
        state.backward_loop.enter()
        yield
        state.backward_loop.leave()

    def is_loop_switch(self, op: Operation) -> bool:
        """Whether an op is the Switch of a loop, not of a conditional."""
        return op.type in SWITCHES and isinstance(op._control_flow_context, WhileContext)

    def exits_out_of_reach(self, pending: dict[Operation, int], started: set[Operation]) -> list[Tensor]:
        """The exits that no y depends on, of the loops that have no others but those that are ys themselves."""
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
        """A loop's exits are taken together, once all are ready: first those with a gradient, then those that need zeros.

        Gives each with whether it has a gradient, or needs none.
        """
        state = self._state(tensor.op, before=False)
        assert state is not None
        state.ready_exits.append(tensor)
        state.exits_awaited -= 1
        if state.exits_awaited:
            return []
        used: list[Tensor] = []
        for ready in state.ready_exits:
            (used if has_gradients(ready.op) else state.idle_exits).append(ready)
        return [*((ready, True) for ready in used), *((idle, not used) for idle in state.idle_exits)]

    def zeros_of_exit(self, output: Tensor) -> Any:
        """Gradient of a loop's result without incoming gradients."""
        loop: Any = output.op._control_flow_context
        outer_loop = None if loop.outer is None else loop.outer.while_context
        state = None if outer_loop is None else self._states.get(outer_loop)
        if state is None:
            if has_known_shape(output):
                return tf.zeros(output.shape.as_list(), output.dtype)
            return tf.zeros_like(output, optimize=False)
        if has_known_shape(output):
            with within(state.backward_loop):
                return tf.zeros(output.shape.as_list(), output.dtype)
        with within(loop.outer):
            shape = gen("Shape")(output)
        history = state.record(shape)
        with within(state.backward_loop):
            return tf.zeros(state.recall(history, shape), output.dtype)

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
        if has_known_shape(output):
            if output.dtype.base_dtype.name == "resource":
                result = tf.zeros(variable_shape(output), held_type(output))
            else:
                result = constant(0, shape=output.shape, dtype=output.dtype)
            if is_dead:
                pred = state.stand_ins[context.pred]
                result = switch_colocated(result, pred)[1 - context.branch]
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
        """Set all gradients but the last to zeros for loop variables that do not depend on their value before."""
        for state in self._states.values():
            loop = state.backward_loop
            for merged in state.switches.values():
                if merged.op.inputs[0] is not merged.op.inputs[1]:
                    continue
                if has_known_shape(merged):
                    with within(loop):
                        zeros = constant(0, dtype=merged.dtype, shape=merged.shape)
                        following = gen("NextIteration")(zeros)
                else:
                    with within(loop.outer):
                        source = merged.op.inputs[0].op.inputs[0]
                        zeros = tf.zeros(gen("Shape")(source))
                    with within(loop):
                        following = gen("NextIteration")(zeros)
                merged.op._update_input(1, following)
