"""Gradients that scripts define: `tf.custom_gradient`, `tf.RegisterGradient`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from placesim.tf1.gradients import registry
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor, uid
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import nest

tf = namespace("")


class RegisterGradient:
    """`@tf.RegisterGradient(name)`: gradient function of ops of the type `name`, or of ops that an override maps to `name`."""

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        registry.register(self._op_type, f)
        return f


def NotDifferentiable(op_type: str) -> None:  # noqa: N802 (TensorFlow's name)
    """Register that ops of this type are not differentiable: `tf.gradients` stops at them without an error."""
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    registry.register(op_type, None)


def custom_gradient(f: Any = None) -> Any:
    """Decorator: `f(*args)` returns a result, and a function from gradients of the result to gradients of the arguments."""
    if f is None:
        return custom_gradient

    @wraps(f)
    def decorated(*args: Any, **kwargs: object) -> Any:
        if kwargs:
            raise ValueError(
                "The custom_gradient decorator currently supports keyword arguments only when eager execution is enabled."
            )
        return _in_graph(f, args)

    return decorated


def _in_graph(f: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call `f`, and pass its results and arguments through an IdentityN with the script's gradient.  Return the results."""
    name = f"CustomGradient-{uid()}"
    inputs = [convert_to_tensor(leaf) for leaf in nest.flatten(args)]
    result, grad_fn = f(*nest.pack_sequence_as(args, inputs))
    results = [convert_to_tensor(leaf) for leaf in nest.flatten(result)]
    for tensor in results:
        # TensorFlow makes these nodes, and reads them nowhere
        tf.identity(tensor)

    def gradient(op: Operation, *grads: object) -> list[Any]:
        found = nest.flatten(grad_fn(*grads[: len(results)]))
        if len(found) != len(inputs):
            raise ValueError(
                f"custom_gradient function expected to return {len(inputs)} gradients, but returned {len(found)} instead."
            )
        # the way back must not enter the function itself
        return [*([None] * len(results)), *found]

    registry.register(name, gradient)
    with get_default_graph().gradient_override_map({"IdentityN": name}):
        # the arguments take part, so that the way from the results leads to them
        outputs = gen("IdentityN")([*results, *inputs])
    return nest.pack_sequence_as(result, outputs[: len(results)])


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with the gradient of the identity function."""

    @custom_gradient
    def through(*args: object) -> Any:
        def grad(*upstream: object) -> Any:
            return upstream[0] if len(upstream) == 1 else upstream

        return f(*args), grad

    return through  # type: ignore[no-any-return]


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` whose gradient computes `f` again, instead of reading its intermediate tensors."""

    @custom_gradient
    def inner(*args: object) -> Any:
        result = f(*args)

        def grad(*upstream: Tensor) -> Any:
            from placesim.tf1.gradients.backward import gradients

            with tf.control_dependencies(upstream):
                copies = [tf.identity(arg) for arg in args]
                again = f(*copies)
            return gradients(again, copies, upstream)

        return result, grad

    return inner  # type: ignore[no-any-return]
