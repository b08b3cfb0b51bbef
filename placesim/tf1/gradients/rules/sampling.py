"""Gradients of random samples with respect to the parameters of their distributions."""

from __future__ import annotations

from typing import Any

from placesim.tf1.gradients.registry import GradientFunction
from placesim.tf1.graphs.default_graph_scopes import control_dependencies
from placesim.tf1.graphs.tensor import Operation, Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen

tf = namespace("")


def _of_alpha(op: Operation, grad: Tensor, alpha: object, more: object) -> Any:
    """Gradient of alpha, summed over the `more` leading dimensions of the samples."""
    alpha = tf.reshape(alpha, tf.concat([tf.ones([more], tf.int32), tf.shape(alpha)], 0))
    partial = gen("RandomGammaGrad")(alpha, op.outputs[0])
    return tf.reduce_sum(grad * partial, axis=tf.range(more))


def _gamma(op: Operation, grad: Tensor) -> list[Any]:
    shape, alpha = op.inputs
    with control_dependencies([grad]):
        return [None, _of_alpha(op, grad, alpha, tf.shape(shape)[0])]


def _stateless_gamma(op: Operation, grad: Tensor) -> list[Any]:
    shape, alpha = op.inputs[0], op.inputs[-1]
    with control_dependencies([grad]):
        more = tf.shape(shape)[0] - tf.rank(alpha)
        return [*([None] * (len(op.inputs) - 1)), _of_alpha(op, grad, alpha, more)]


GRADIENTS: dict[str, GradientFunction] = {
    "RandomGamma": _gamma,
    "StatelessRandomGammaV2": _stateless_gamma,
    "StatelessRandomGammaV3": _stateless_gamma,
}
