"""Gradients that scripts define: `tf.custom_gradient`, `tf.RegisterGradient`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from placesim.tf1.gradients import registry
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor, uid
from placesim.tf1.graphs.tensor_likes import TensorLike
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


class RegisterGradient:
    """`@tf.RegisterGradient(name)`: the function makes the gradients of ops of this type or name."""

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        registry.register(self._op_type, f)
        return f


def NotDifferentiable(op_type: str) -> None:  # noqa: N802 (TensorFlow's name)
    """Ops of this type have no gradient, and that is no mistake."""
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    registry.register(op_type, None)


def _flatten(value: TensorLike) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _flatten(item)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _flatten(value[key])]
    return [value]


def _packed(like: object, leaves: list[Any]) -> Any:
    """Pack leaves in the structure of `like`, removing them from the list."""
    if isinstance(like, dict):
        return {key: _packed(like[key], leaves) for key in sorted(like)}
    if isinstance(like, list):
        return [_packed(item, leaves) for item in like]
    if isinstance(like, tuple):
        items = [_packed(item, leaves) for item in like]
        return type(like)(*items) if hasattr(like, "_fields") else tuple(items)
    return leaves.pop(0)


def custom_gradient(f: Any = None) -> Any:
    """Decorator: `f(*args)` returns a result and a function from the result's gradients to those of the arguments."""
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
    """An IdentityN of results and arguments stands for the function; its gradient is the script's."""
    name = f"CustomGradient-{uid()}"
    inputs = [convert_to_tensor(leaf) for leaf in _flatten(args)]
    result, grad_fn = f(*_packed(args, list(inputs)))
    results = [convert_to_tensor(leaf) for leaf in _flatten(result)]
    for tensor in results:
        tf.identity(tensor)

    def gradient(op: Operation, *grads: object) -> list[Any]:
        of_arguments = grad_fn(*grads[: len(results)])
        found = _flatten(of_arguments)
        if len(found) != len(inputs):
            raise ValueError(
                f"custom_gradient function expected to return {len(inputs)} gradients, but returned {len(found)} instead."
            )
        return [*([None] * len(results)), *found]

    registry.register(name, gradient)
    with get_default_graph().gradient_override_map({"IdentityN": name}):
        outputs = gen("IdentityN")([*results, *inputs])
    return _packed(result, list(outputs[: len(results)]))


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with a gradient of 1."""

    @custom_gradient
    def through(*args: object) -> Any:
        def grad(*upstream: object) -> Any:
            return upstream[0] if len(upstream) == 1 else upstream

        return f(*args), grad

    return through  # type: ignore[no-any-return]


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with its nodes made again for the gradient."""

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
