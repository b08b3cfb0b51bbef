"""Gradients of broadcast ops: each is summed over the dimensions along which its input was broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.importing.namespaces import namespace
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices

tf = namespace("")


class GradientReduction(NamedTuple):
    """Reduction of a gradient from the output's shape to the input's."""

    shape: Any
    """The input's shape, a tensor."""
    axes: Any
    """Axes to sum over: a list if the static shapes determine them, else a tensor."""
    needed: bool

    def of(self, grad: Tensor) -> Any:
        """Gradient of the input, from the gradient of the output."""
        if not self.needed or grad is None:
            return grad
        return tf.reshape(tf.reduce_sum(grad, self.axes, keepdims=True), self.shape)


def same_static_shapes(x: Tensor, y: Tensor, grad: Tensor) -> bool:
    """Whether all three have the same fully known shape, so that nothing was broadcast."""
    if isinstance(grad, IndexedSlices):
        return False
    shapes = [tensor.shape for tensor in (x, y, grad)]
    return all(shape.is_fully_defined() for shape in shapes) and shapes[0] == shapes[1] == shapes[2]


def reductions(x: Tensor, y: Tensor) -> tuple[GradientReduction, GradientReduction]:
    """Reductions for the gradients of a broadcast op's two inputs.  Only the sums are made later, by `of`."""
    # made even if the static shapes suffice, as TensorFlow does
    x_shape, y_shape = tf.shape(x), tf.shape(y)
    static = _static_axes(_sizes(x), _sizes(y))
    if static is None:
        x_axes, y_axes = gen("BroadcastGradientArgs")(x_shape, y_shape)
        return GradientReduction(x_shape, x_axes, True), GradientReduction(y_shape, y_axes, True)
    (x_static, x_needed), (y_static, y_needed) = static
    return GradientReduction(x_shape, x_static, x_needed), GradientReduction(y_shape, y_static, y_needed)


def reduced(x: Tensor, y: Tensor, x_grad: Tensor, y_grad: Tensor) -> list[Any]:
    """The two gradients, each reduced to its input's shape."""
    x_reduction, y_reduction = reductions(x, y)
    return [x_reduction.of(x_grad), y_reduction.of(y_grad)]


def _sizes(tensor: Tensor) -> list[int | None] | None:
    return None if tensor.shape.rank is None else tensor.shape.as_list()


def _static_axes(
    x: Sequence[int | None] | None, y: Sequence[int | None] | None
) -> tuple[tuple[list[int], bool], tuple[list[int], bool]] | None:
    """Axes to sum over for each input, and whether a sum is needed; None if static shapes do not determine them."""
    if x is None or y is None:
        return None
    rank = max(len(x), len(y))
    axes: tuple[list[int], list[int]] = ([], [])
    padded_x = [1] * (rank - len(x)) + list(x)
    padded_y = [1] * (rank - len(y)) + list(y)
    for axis, (of_x, of_y) in enumerate(zip(padded_x, padded_y, strict=True)):
        # two unknown dimensions may differ at run time
        if of_x == of_y and of_x is not None:
            continue
        if of_x == 1:
            axes[0].append(axis)
        elif of_y == 1:
            axes[1].append(axis)
        else:
            return None
    # a lower rank needs the reshape even if no dimension was broadcast
    return (axes[0], bool(axes[0]) or len(x) < rank), (axes[1], bool(axes[1]) or len(y) < rank)
