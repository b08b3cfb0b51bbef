"""Gradients of `While`: another `While`, which goes through the iterations backwards.

For each tensor of an iteration that the gradient reads, the forward loop gets a new loop variable: a list on which each
iteration pushes the tensor, and from which the gradient loop pops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.ops.attributes import Attrs
from placesim.tf1.control_flow.tensor_lists import element_shape_argument
from placesim.tf1.functions.building import build
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.functions.loops import TurnGraph, loop_op
from placesim.tf1.functions.rewriting import extend_op, gradient_name, output_types_and_shapes, redefine
from placesim.tf1.gradients.backward import gradients
from placesim.tf1.gradients.checks import is_trainable
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.gradients.slices import dense
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant, convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")
_MEASURES = frozenset(("Shape", "Size", "Rank", "TensorListElementShape", "TensorListLength"))
"""Ops that are made in the forward loop's body if they read its tensors, since their results take less memory in a list."""
_LEADING = 3
"""Number of loop variables before the gradients: the gradient loop's counter, the maximum and the number of iterations."""


class _TurnGradient(TurnGraph):
    """Body of the gradient loop: the gradient of one iteration."""

    def __init__(self, op: Operation, cond_body: FunctionGraph, forward: FunctionGraph) -> None:
        super().__init__(gradient_name(forward))
        self._op = op
        self._cond_body = cond_body
        self._forward = forward
        self.lists: list[Tensor] = []
        """Empty lists, the initial values of the forward loop's new variables."""
        self.after_turn: dict[Tensor, Tensor] = {}
        """Captured argument -> its value in the next iteration."""
        self._inside: dict[Tensor, Tensor] = {}

    def make(self, op: str, full_name: str, inputs: Any, attrs: Attrs | None = None, control_inputs: Any = ()) -> Operation:
        tensors = list(inputs)
        if op in _MEASURES and all(t.graph is self._forward and self._list_of(t) is None for t in tensors):
            return self._made_ahead(op, full_name, tensors[0], attrs)
        return super().make(op, full_name, tensors, attrs, control_inputs)

    def _made_ahead(self, op: str, full_name: str, tensor: Tensor, attrs: Attrs | None) -> Operation:
        forward = self._forward
        made = forward.builder.graph.ids.get(full_name)
        if made is not None:  # for another gradient of the same loop
            return forward.operation(made)
        with forward.as_default():
            return forward.make(op, forward.claim_name(op, full_name + "/"), [tensor], attrs)

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        if tensor.graph is self:
            return tensor
        name = name or tensor.op.name
        while tensor not in self._inside and tensor.graph is self._forward and tensor.op.type == "Identity":
            tensor = tensor.op.inputs[0]
        found = self._inside.get(tensor)
        if found is None:
            found = self._inside[tensor] = self._brought_in(tensor, name)
        return found

    def _brought_in(self, tensor: Tensor, name: str) -> Tensor:
        # such a tensor is the same in all iterations, and needs no list
        if tensor.graph is not self._forward or self._is_unchanged(tensor):
            return self._kept(tensor, name)
        if tensor.op.type == "Const":
            return constant(tensor.op.node.attrs["value"].array, tensor.dtype)
        if tensor.dtype.name == "resource":
            raise not_there(f"gradients through the resource {tensor.name} made in a loop", "make it before the loop")
        pushed = self._list_of(tensor)
        if pushed is None:
            pushed = self._push(tensor)
        argument = super().capture(pushed, name)
        rest, value = gen("TensorListPopBack")(argument, -1, tensor.dtype)
        value.set_shape(tensor.shape)
        self.after_turn[argument] = rest
        return value  # type: ignore[no-any-return]

    def _kept(self, tensor: Tensor, name: str) -> Tensor:
        argument = super().capture(tensor, name)
        self.after_turn[argument] = argument
        return argument

    def _is_unchanged(self, tensor: Tensor) -> bool:
        """Whether a tensor of the forward loop's body is a loop invariant."""
        return tensor in self._forward.inputs and tensor in self._forward.outputs

    def _list_of(self, tensor: Tensor) -> Tensor | None:
        """List on which the forward loop already pushes a tensor, None if there is none."""
        forward = self._forward
        for consumer in tensor.consumers():
            if consumer.type != "TensorListPushBack":
                continue
            for argument, output in zip(forward.inputs, forward.outputs, strict=False):
                if consumer.inputs[0] is argument and _is_passed(consumer.outputs[0], output):
                    return output
        return None

    def _push(self, tensor: Tensor) -> Tensor:
        """Add a loop variable to the forward loop, a list on which each iteration pushes a tensor.  Return its next value."""
        forward = self._forward
        outer = forward.outer_graph
        with outer.as_default(), outer.control_dependencies(None):
            shape = element_shape_argument(tensor.shape)
            name = f"{tensor.name.replace(':', '_')}/accumulator"
            empty = gen("EmptyTensorList")(shape, self._op.inputs[1], tensor.dtype, name=name)
        self.lists.append(empty)
        with forward.as_default(), forward.control_dependencies(None):
            pushed: Tensor = gen("TensorListPushBack")(empty, tensor)
        forward.outputs.append(pushed)
        with self._cond_body.as_default():
            self._cond_body.capture(empty)
        return pushed


def _is_passed(tensor: Tensor, output: Tensor) -> bool:
    return output is tensor or (output.op.type == "Identity" and output.op.inputs[0] is tensor)


def _loop_gradient(op: Operation, *grads: Tensor | IndexedSlices | None) -> list[Any]:
    bodies: list[FunctionGraph] | None = getattr(op, "bodies", None)
    if bodies is None:
        raise not_there("gradients of an imported loop", "the Python function that made it has one")
    cond_body, forward = bodies
    before = len(forward.outputs)
    count: int = op.node.attrs["_num_original_outputs"]
    seeds = [
        _seed(grad, inside, entering, leaving)
        for grad, inside, entering, leaving in zip(
            grads[:count], forward.outputs[:count], op.inputs[:count], op.outputs[:count], strict=True
        )
    ]
    # lists that an earlier gradient has added are no variables of the script
    seeds += [None] * (len(op.outputs) - count)
    chosen = [i for i, seed in enumerate(seeds) if seed is not None]
    back, entering_back = _turn_gradient(op, cond_body, forward, chosen, [seeds[i] for i in chosen])
    if back.lists:
        attrs = redefine(op, ["cond", "body"], [cond_body, forward])
        attrs["T"], attrs["output_shapes"] = output_types_and_shapes(forward)
        extend_op(op, attrs, forward.outputs[before:], back.lists)
    op._set_attr("_num_original_outputs", len(op.outputs))
    outputs = _backwards(op, cond_body, forward, back, entering_back)
    found: list[Any] = [None] * len(op.inputs)
    for i, output in zip(chosen, outputs[_LEADING:], strict=False):
        found[i] = output
    return found


def _seed(grad: Tensor | IndexedSlices | None, inside: Tensor, entering: Tensor, leaving: Tensor) -> Any:
    """Gradient that a loop variable's last value received, None if it cannot have one."""
    if not is_trainable(inside):
        return None
    if grad is None and leaving.dtype.name in ("resource", "variant"):
        return tf.zeros_like(entering if leaving.dtype.name == "resource" else leaving)
    return dense(grad)


def _turn_gradient(
    op: Operation, cond_body: FunctionGraph, forward: FunctionGraph, chosen: Sequence[int], seeds: Sequence[Tensor]
) -> tuple[_TurnGradient, list[Tensor]]:
    """Body of the gradient loop, and the initial values of its variables, without captures."""
    back = _TurnGradient(op, cond_body, forward)
    total = op.outputs[0]
    entering = [constant(0, total.dtype, name="grad_counter"), op.inputs[1], total, *seeds]
    arguments: list[Any] = [back.placeholder_of(tensor, None) for tensor in entering]

    def turn() -> Any:
        done, most, turns, *given = arguments
        found = gradients(
            [forward.outputs[i] for i in chosen],
            [forward.inputs[i] for i in chosen],
            grad_ys=given,
            unconnected_gradients="zero",
            source=forward,
        )
        return [done + 1, most, turns, *[convert_to_tensor(grad) for grad in found]]

    build(back, turn, orders_effects=True)
    back.outputs.extend(back.after_turn[argument] for argument in back.captures.values())
    return back, entering


def _backwards(
    op: Operation, cond_body: FunctionGraph, forward: FunctionGraph, back: _TurnGradient, entering: list[Tensor]
) -> list[Tensor]:
    """Results of the gradient loop."""
    captured = [op.outputs[forward.outputs.index(t)] if t.graph is forward else t for t in back.captures]
    inputs = [*entering, *captured]
    cond_back = FunctionGraph(gradient_name(cond_body))
    arguments: list[Any] = [cond_back.placeholder_of(tensor, None) for tensor in inputs]
    # as many iterations as the forward loop had
    build(cond_back, lambda: arguments[0] < arguments[2], orders_effects=True)
    sizes = [tensor.sizes for tensor in back.outputs]
    made = loop_op(inputs, cond_back, back, sizes, op.node.attrs.get("parallel_iterations", 10), f"{op.name}_grad")
    return list(map(gen("Identity"), made.outputs))


GRADIENTS: dict[str, GradientFunction] = dict.fromkeys(("While", "StatelessWhile"), _loop_gradient)
