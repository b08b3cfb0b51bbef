"""Gradients of control flow ops: Switch, Merge, Enter, Exit, NextIteration (7)."""

from __future__ import annotations

from typing import Any

from placesim.tf1.control_flow.conditionals import CondContext
from placesim.tf1.control_flow.contexts import output_context
from placesim.tf1.control_flow.loops import WhileContext
from placesim.tf1.gradients.loop_state import add_exit
from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.gradients.slices import with_one_type
from placesim.tf1.graphs.default_graph_scopes import name_scope
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


def _merge(parts: Any, name: str | None = None) -> Any:
    """Merge of gradients; the result is IndexedSlices if one of them is."""
    if all(not isinstance(part, IndexedSlices) for part in parts):
        return gen("Merge")(list(parts), name=name)[0]
    with name_scope(name, "Merge"):
        return _merge_slices(parts)


def _merge_slices(parts: Any) -> IndexedSlices:
    slices = [_as_slices(part) for part in parts]
    all_indices = with_one_type([part.indices for part in slices])
    values = gen("Merge")([part.values for part in slices])[0]
    indices = gen("Merge")(all_indices)[0]
    if any(part.dense_shape is None for part in slices):
        return IndexedSlices(values, indices, None)
    return IndexedSlices(values, indices, gen("Merge")([part.dense_shape for part in slices])[0])


def _as_slices(part: Any) -> IndexedSlices:
    """The gradient as IndexedSlices; a tensor becomes slices of all its rows."""
    if isinstance(part, IndexedSlices):
        return part
    shape = gen("Shape")(part)
    return IndexedSlices(part, tf.range(0, shape[0]), shape)


def _switched(grad: Tensor, pred: Tensor, name: str | None = None) -> list[Any]:
    """Switch of a gradient by `pred`: the outputs for false and for true."""
    with get_default_graph().colocate_with(grad, ignore_existing=True):
        if not isinstance(grad, IndexedSlices):
            return list(gen("Switch")(grad, pred, name=name))
        with name_scope(name, "Switch"):
            values = gen("Switch")(grad.values, pred)
            indices = gen("Switch")(grad.indices, pred)
            if grad.dense_shape is None:
                return [IndexedSlices(v, i, None) for v, i in zip(values, indices, strict=True)]
            shapes = gen("Switch")(grad.dense_shape, pred)
        return [IndexedSlices(v, i, s) for v, i, s in zip(values, indices, shapes, strict=True)]


def _grad_loop() -> Any:
    return get_default_graph()._control_flow_context


def _switch(op: Operation, *grads: object) -> list[Any]:
    context = op._control_flow_context
    if isinstance(context, WhileContext):
        state = _grad_loop().grad_state
        merged = state.switches.get(op)
        if merged is not None:
            # The second time, grads[1] is the gradient of the previous iteration.
            if grads[1] is not None:
                merged.op._update_input(1, gen("NextIteration")(grads[1]))
            return [None, None]
        if grads[0] is None:
            return [None, None]
        state.switches[op] = found = gen("Merge")([grads[0], grads[0]], name="b_switch")[0]
        return [found, None]
    if isinstance(context, CondContext):
        # a Merge with a missing input would wait forever
        if grads[1 - context.branch] is None:
            if op.inputs[0].dtype.base_dtype.name == "resource":
                return [gen("Merge")([grads[context.branch]] * 2, name="cond_resource_grad")[0], None]
            return [None, None]
        return [_merge(grads, "cond_grad"), None]
    when_false = gen("Switch")(grads[0], op.inputs[1])[0]
    when_true = gen("Switch")(grads[1], op.inputs[1])[1]
    return [gen("Merge")([when_false, when_true])[0], None]


def _merge_gradient(op: Operation, grad: Tensor, _: object) -> list[Any]:
    context: Any = output_context(op.inputs[0].op)
    if isinstance(context, WhileContext):
        return _switched(grad, _grad_loop().condition)
    if isinstance(context, CondContext):
        pred = context.pred
        loop = _grad_loop()
        state = None if loop is None else getattr(loop.while_context, "grad_state", None)
        if state is not None:
            # In a loop, the predicate of each iteration is recorded.
            found = state.stand_ins.get(pred)
            if found is None:
                state.backward_loop.leave()
                history = state.record(pred)
                state.backward_loop.enter()
                found = state.stand_ins[pred] = state.recall(history, pred)
            pred = found
        return _switched(grad, pred, "cond_grad")
    conditions = [tf.equal(op.outputs[1], index) for index in range(len(op.inputs))]
    return [_switched(grad, condition)[1] for condition in conditions]


def _exit(op: Any, grad: Tensor) -> Any:
    loop = _grad_loop()
    if not loop.back_prop:
        return None
    if op._control_flow_context.grad_state is not None:
        # TensorFlow's limit for loops of version 1
        raise TypeError("Second-order gradient for while loops not supported.")
    parts = [grad] if not isinstance(grad, IndexedSlices) else [grad.values, grad.indices, grad.dense_shape]
    loop.known.update(part for part in parts if part is not None)
    with loop.entered():
        entered = [
            part
            if part is None
            else gen("Enter")(part, loop.name, False, loop.parallel_iterations, name="b_exit" if index == 0 else None)
            for index, part in enumerate(parts)
        ]
    for part, source in zip(entered, parts, strict=True):
        if part is not None:
            part.graph.shapes.settle(part.op.node.id, source.sizes)
            loop.enters.append(part)
    return entered[0] if len(entered) == 1 else IndexedSlices(*entered)


def _enter(op: Operation, grad: Tensor) -> Any:
    loop = _grad_loop()
    if loop is None or not getattr(loop, "back_prop", True) or getattr(loop, "grad_state", None) is None:
        return grad
    # an invariant was read in each iteration, so its gradient is the sum of all
    if op.get_attr("is_constant"):
        return loop.grad_state.sum_up(op, grad)
    return add_exit(loop, grad)


GRADIENTS: dict[str, GradientFunction] = {
    "Enter": _enter,
    "Exit": _exit,
    "LoopCond": lambda op, grad: None,
    "Merge": _merge_gradient,
    "NextIteration": lambda op, grad: grad,
    "RefEnter": _enter,
    "RefExit": _exit,
    "RefMerge": _merge_gradient,
    "RefNextIteration": lambda op, grad: grad,
    "RefSwitch": _switch,
    "Switch": _switch,
}
