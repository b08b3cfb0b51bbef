"""Gradients of `If` and `Case`: another such op, whose branches read intermediate tensors of the forward branches.

The forward op returns each of these tensors as an optional, which is empty if another branch ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from placesim.tf1.functions.branches import conditional
from placesim.tf1.functions.building import build
from placesim.tf1.functions.function_graph import FunctionGraph
from placesim.tf1.functions.rewriting import extend_op, gradient_name, output_types_and_shapes, redefine
from placesim.tf1.gradients.backward import gradients
from placesim.tf1.gradients.checks import is_trainable
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.gradients.rules.variables import held_type, static_variable_shape, zeros_of
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.missing_names import not_there
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import constant
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


class _BranchGradient(FunctionGraph):
    """Gradient of the forward branch `forward`."""

    def __init__(self, forward: FunctionGraph) -> None:
        super().__init__(gradient_name(forward), shares_collections=True)
        self.forward = forward
        self.wrapped: dict[Tensor, Tensor] = {}
        """Intermediate tensor of the forward branch -> optional in which the branch returns it."""
        self.rewrites = False  # whether the forward branch has got new optionals
        self._inside: dict[Tensor, Tensor] = {}

    def capture(self, tensor: Tensor, name: str | None = None) -> Tensor:
        forward = self.forward
        # arguments and results of the branch are tensors outside it, which the gradient reads directly
        if tensor.graph is not forward or tensor in forward.inputs or tensor in forward.outputs:
            return super().capture(tensor, name)
        found = self._inside.get(tensor)
        if found is None:
            found = self._inside[tensor] = self._brought_in(tensor, name)
        return found

    def _brought_in(self, tensor: Tensor, name: str | None) -> Tensor:
        # a constant is made again: no optional, and no further output of the forward op
        if tensor.op.type == "Const":
            return constant(tensor.op.node.attrs["value"].array, tensor.dtype)
        if tensor.dtype.name == "resource":
            raise not_there(f"gradients through the resource {tensor.name} made in a branch", "make it before the branch")
        optional = self.wrapped.get(tensor)
        if optional is None:
            optional = self.wrapped[tensor] = self._wrap(tensor)
        inside = super().capture(optional, name or tensor.op.name)
        found: Tensor = gen("OptionalGetValue")(inside, [tensor.dtype], [tensor.shape])[0]
        return found

    def _wrap(self, tensor: Tensor) -> Tensor:
        outputs = self.forward.outputs
        for consumer in tensor.consumers():
            if consumer.type == "OptionalFromValue" and consumer.outputs[0] in outputs:
                return consumer.outputs[0]
        self.rewrites = True
        with self.forward.as_default(), self.forward.control_dependencies(None):
            found: Tensor = gen("OptionalFromValue")([tensor])
        return found


def _conditional_gradient(op: Operation, *grads: object) -> list[Any]:
    forward: list[FunctionGraph] | None = getattr(op, "bodies", None)
    if forward is None:
        raise not_there("gradients of an imported conditional", "the Python function that made it has one")
    backward = [_branch_gradient(body, grads) for body in forward]
    present = _fill_in_zeros(forward, backward)
    if any(body.rewrites for body in backward):
        _bring_out(op, forward, backward)
    for ahead, back in zip(forward, backward, strict=True):
        _resolve(op, ahead, back)
    results = iter(_gradient_op(op, backward))
    return [None, *[next(results) if there else None for there in present]]


def _gradient_op(op: Operation, backward: Sequence[FunctionGraph]) -> list[Tensor]:
    if "branches" in op.node.attrs:
        return conditional("Case", op.inputs[0], backward, "gradient")
    return conditional("If", op.inputs[0], backward, None)


def _branch_gradient(forward: FunctionGraph, grads: Sequence[Any]) -> _BranchGradient:
    back = _BranchGradient(forward)
    pairs = [(y, grad) for y, grad in zip(forward.outputs, grads, strict=False) if is_trainable(y)]

    def differentiate() -> Any:
        return gradients([y for y, _ in pairs], forward.inputs, grad_ys=[grad for _, grad in pairs], source=forward)

    build(back, differentiate, orders_effects=True)
    return back


def _fill_in_zeros(forward: Sequence[FunctionGraph], backward: Sequence[_BranchGradient]) -> list[bool]:
    """Make zeros for the gradients that only other branches have.  Return, for each input, whether any branch has one."""
    found = [list(back.structured_outputs) for back in backward]
    present = [any(grad is not None for grad in each) for each in zip(*found, strict=True)]
    for ahead, back, grads in zip(forward, backward, found, strict=True):
        with back.as_default():
            for i, (grad, there) in enumerate(zip(grads, present, strict=True)):
                if there and grad is None:
                    grads[i] = _zeros(ahead.inputs[i])
                elif isinstance(grad, IndexedSlices):
                    grads[i] = tf.convert_to_tensor(grad)
            back.outputs = [back.capture(grad) for grad in grads if grad is not None]
    return present


def _zeros(tensor: Tensor) -> Any:
    known = static_variable_shape(tensor) if tensor.dtype.name == "resource" else None
    return zeros_of(tensor) if known is None else tf.zeros(known, held_type(tensor))


def _bring_out(op: Operation, forward: Sequence[FunctionGraph], backward: Sequence[_BranchGradient]) -> None:
    """Give all forward branches the same number of optionals; missing ones are empty."""
    own = [[tensor for tensor in back.wrapped.values() if tensor not in back.forward.outputs] for back in backward]
    most = max(map(len, own))
    added = []
    for ahead, tensors in zip(forward, own, strict=True):
        with ahead.as_default():
            added.append([*tensors, *(gen("OptionalNone")() for _ in range(most - len(tensors)))])
    for ahead, tensors in zip(forward, added, strict=True):
        ahead.outputs.extend(tensors)
    attrs = redefine(op, ["branches"] if "branches" in op.node.attrs else ["then_branch", "else_branch"], forward)
    attrs["Tout"], attrs["output_shapes"] = output_types_and_shapes(forward[0])
    extend_op(op, attrs, added[0])


def _resolve(op: Operation, ahead: FunctionGraph, back: _BranchGradient) -> None:
    """Replace the captured tensors of a forward branch by inputs and outputs of the forward op."""
    resolved = {}
    outside = dict(zip(ahead.inputs, op.inputs[1:], strict=True))
    for tensor, argument in back.captures.items():
        if tensor.graph is ahead:
            tensor = op.outputs[ahead.outputs.index(tensor)] if tensor in ahead.outputs else outside[tensor]
        resolved[tensor] = argument
    back.captures = resolved


GRADIENTS: dict[str, GradientFunction] = dict.fromkeys(("If", "StatelessIf", "Case", "StatelessCase"), _conditional_gradient)
