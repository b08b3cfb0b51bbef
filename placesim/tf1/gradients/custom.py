"""Gradients that scripts define: `tf.custom_gradient`, `tf.RegisterGradient`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from placesim.ops.categories import VARIABLE_READS, VARIABLES
from placesim.tf1.gradients import registry
from placesim.tf1.graphs.graph import get_default_graph
from placesim.tf1.graphs.tensor import Operation, Tensor, uid
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.conversion import convert_to_tensor
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.types import nest

tf = namespace("")
_READS = (*VARIABLE_READS, "ResourceGather", "ResourceGatherNd")


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
    graph = get_default_graph()
    before = len(graph.get_operations())
    result, grad_fn = f(*nest.pack_sequence_as(args, inputs))
    results = [convert_to_tensor(leaf) for leaf in nest.flatten(result)]
    made = graph.get_operations()[before:]
    for tensor in results:
        # TensorFlow makes these nodes, and reads them nowhere
        tf.identity(tensor)
    variables = _variables_read(graph, made, inputs, results)
    if variables and not _takes_variables(grad_fn):
        raise TypeError(
            "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function uses variables: "
            f"{tuple(variables)}"
        )

    def gradient(op: Operation, *grads: object) -> list[Any]:
        of_results = grads[: len(results)]
        given, of_variables = grad_fn(*of_results, variables=variables) if variables else (grad_fn(*of_results), [])
        found = nest.flatten(given)
        if len(found) != len(inputs):
            raise ValueError(
                f"custom_gradient function expected to return {len(inputs)} gradients, but returned {len(found)} instead."
            )
        if len(of_variables) != len(variables):
            raise ValueError("Must return gradient for each variable from @custom_gradient grad_fn.")
        # the way back must not enter the function itself
        return [*([None] * len(results)), *found, *of_variables]

    registry.register(name, gradient)
    with graph.gradient_override_map({"IdentityN": name}):
        # the arguments take part, so that the way from the results leads to them
        outputs = gen("IdentityN")([*results, *inputs, *variables])
    for variable in variables:
        # TensorFlow reads them for a tape, which a graph has not
        convert_to_tensor(variable)
    return nest.pack_sequence_as(result, outputs[: len(results)])


def _variables_read(graph: Any, made: Sequence[Operation], inputs: Sequence[Tensor], results: Sequence[Tensor]) -> list[Any]:
    """Trainable variables that `made` ops read, or to which the way back from the results to the inputs leads, by name.

    Raises TypeError for a new reference variable.
    """
    new = {op.name for op in made}
    known = {variable.op.name: variable for variable in graph.get_collection("variables")}
    if any(name in new and not hasattr(variable, "handle") for name, variable in known.items()):
        raise TypeError(
            "All variables used by a function wrapped with @custom_gradient must be `ResourceVariable`s. Ensure that no "
            "`variable_scope` is created with `use_resource=False`."
        )
    found = {op.inputs[0].op.name for op in made if op.type in _READS and not op.name.endswith("/Read/ReadVariableOp")}
    left, seen = [tensor.op for tensor in results], set[str]()
    while left:
        op = left.pop()
        if op.type in VARIABLES:
            found.add(op.name)
        if op.name not in seen and _is_differentiable(op):
            left += [tensor.op for tensor in op.inputs if tensor not in inputs]
        seen.add(op.name)
    return [known[name] for name in sorted(found) if name in known and known[name].trainable]


def _is_differentiable(op: Operation) -> bool:
    try:
        return registry.lookup(op.type) is not None
    except LookupError:
        return False


def _takes_variables(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `variables`, or takes any keyword."""
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.name == "variables" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


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
