"""`tf.ConditionalAccumulator` and `tf.SparseConditionalAccumulator`: gradients summed until there are enough."""

from __future__ import annotations

from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike, TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.types.read_only import read_only
from placesim.tf1.types.shapes import TensorShape


class ConditionalAccumulatorBase:
    """An accumulator of gradients.  It ignores gradients of steps before its own step."""

    _counting, _stepping = "AccumulatorNumAccumulated", "AccumulatorSetGlobalStep"

    def __init__(self, dtype: DTypeLike, shape: ShapeLike | None, accumulator_ref: Any) -> None:
        self._dtype = dtype
        self._shape = TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.split("/")[-1]

    accumulator_ref = read_only("_accumulator_ref")

    @property
    def name(self) -> str:
        """The node's name without scopes."""
        return str(self._name)

    dtype = read_only("_dtype")

    def num_accumulated(self, name: str | None = None) -> Any:
        """Number of gradients."""
        return gen(self._counting)(self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step: TensorLike, name: str | None = None) -> Any:
        """Make an op that sets the accumulator's step, which can't decrease."""
        return gen(self._stepping)(self._accumulator_ref, _as_step(new_global_step), name=name)


def _as_step(value: TensorLike) -> Any:
    return tf.cast(tf.convert_to_tensor(value), tf.int64)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulator of dense gradients, which returns their mean or sum."""

    _counting, _stepping = "ResourceAccumulatorNumAccumulated", "ResourceAccumulatorSetGlobalStep"

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike | None = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        made = gen("ResourceConditionalAccumulator")(
            dtype=dtype, shape=TensorShape(shape), shared_name=shared_name, name=name, reduction_type=reduction_type
        )
        super().__init__(dtype, shape, made)

    def apply_grad(self, grad: object, local_step: TensorLike = 0, name: str | None = None) -> Any:
        """Make an op that adds a gradient.  Raises ValueError for another shape."""
        gradient = tf.convert_to_tensor(grad, self._dtype)
        gradient.get_shape().assert_is_compatible_with(self._shape)
        step = _as_step(local_step)
        return gen("ResourceAccumulatorApplyGradient")(self._accumulator_ref, local_step=step, gradient=gradient, name=name)

    def take_grad(self, num_required: object, name: str | None = None) -> Any:
        """The mean or sum once `num_required` gradients were added; taking it resets the accumulator."""
        out = gen("ResourceAccumulatorTakeGradient")(self._accumulator_ref, num_required, dtype=self._dtype, name=name)
        out.set_shape(self._shape)
        return out


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Accumulator of gradients of some rows of a variable."""

    def __init__(
        self,
        dtype: DTypeLike,
        shape: ShapeLike | None = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        made = gen("SparseConditionalAccumulator")(
            dtype=dtype, shape=TensorShape(shape), shared_name=shared_name, name=name, reduction_type=reduction_type
        )
        super().__init__(dtype, shape, made)

    def apply_indexed_slices_grad(self, grad: IndexedSlices, local_step: TensorLike = 0, name: str | None = None) -> Any:
        """Make an op that adds a gradient that is an IndexedSlices."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self,
        grad_indices: object,
        grad_values: object,
        grad_shape: object = None,
        local_step: TensorLike = 0,
        name: str | None = None,
    ) -> Any:
        """Make an op that adds a gradient of the rows `grad_indices`."""
        return gen("SparseAccumulatorApplyGradient")(
            self._accumulator_ref,
            local_step=_as_step(local_step),
            gradient_indices=tf.cast(grad_indices, tf.int64),
            gradient_values=grad_values,
            gradient_shape=tf.cast([] if grad_shape is None else grad_shape, tf.int64),
            has_known_shape=grad_shape is not None,
            name=name,
        )

    def take_grad(self, num_required: object, name: str | None = None) -> Any:
        """Indices, values and shape of the mean or sum once `num_required` gradients were added."""
        return gen("SparseAccumulatorTakeGradient")(self._accumulator_ref, num_required, dtype=self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required: object, name: str | None = None) -> Any:
        """The gradient as an IndexedSlices."""
        found = self.take_grad(num_required, name)
        return tf.IndexedSlices(indices=found.indices, values=found.values, dense_shape=found.shape)
