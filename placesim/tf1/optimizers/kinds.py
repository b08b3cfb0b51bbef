"""Optimizers: their slots, and the inputs of their update ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor import Tensor
from placesim.tf1.graphs.tensor_likes import DTypeLike, TensorLike
from placesim.tf1.ops.generated_functions import gen
from placesim.tf1.optimizers.by_ops import OpUpdates
from placesim.tf1.optimizers.optimizer import Optimizer
from placesim.tf1.optimizers.updates import Hyperparameter
from placesim.tf1.sparse.values import IndexedSlices
from placesim.tf1.variables.resource import HandledVariable
from placesim.tf1.variables.variable import Variable


class GradientDescentOptimizer(Optimizer, OpUpdates):
    """`var -= learning_rate * gradient`."""

    update = "GradientDescent"
    hyperparameters = ("learning_rate",)
    inputs = ("learning_rate", "grad")

    def __init__(self, learning_rate: Hyperparameter, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        rate = self._input("learning_rate", var.dtype.base_dtype)
        return var.scatter_sub(
            tf.IndexedSlices(grad.values * rate, grad.indices, grad.dense_shape), use_locking=self._use_locking
        )

    def _resource_apply_sparse_duplicate_indices(self, grad: Tensor, handle: HandledVariable, indices: Tensor) -> Any:
        rate = self._input("learning_rate", grad.dtype.base_dtype)
        return gen("ResourceScatterAdd")(handle.handle, indices, -grad * rate)


class MomentumOptimizer(Optimizer, OpUpdates):
    """`accumulation = momentum * accumulation + gradient; var -= learning_rate * accumulation`."""

    update = "Momentum"
    hyperparameters = ("learning_rate", "momentum")
    inputs = ("slot:momentum", "learning_rate", "grad", "momentum")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        momentum: Hyperparameter,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate, momentum=momentum)
        self._use_nesterov = use_nesterov

    def _attrs(self, is_sparse: bool) -> dict[str, Any]:
        return {"use_nesterov": self._use_nesterov}


class RMSPropOptimizer(Optimizer, OpUpdates):
    """Divides the gradient by the root of its running mean square, or, if `centered`, of its running variance."""

    update = "RMSProp"
    hyperparameters = ("learning_rate", "decay", "momentum", "epsilon")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        decay: Hyperparameter = 0.9,
        momentum: Hyperparameter = 0.0,
        epsilon: Hyperparameter = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate, decay=decay, momentum=momentum, epsilon=epsilon)
        self._centered = centered
        slots = (*(("slot:mg",) if centered else ()), "slot:rms", "slot:momentum")
        self.inputs = (*slots, "learning_rate", "decay", "momentum", "epsilon", "grad")

    def _kernel(self) -> str:
        return "CenteredRMSProp" if self._centered else "RMSProp"

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            shape, dtype = variable.get_shape(), variable.dtype.base_dtype
            start = tf.ones_initializer(dtype=dtype)
            # the mean square begins at 1, not at 0: the first steps are small
            if not shape.is_fully_defined():
                self._get_or_make_slot(variable, tf.ones_like(variable), "rms", self._name)
            else:
                self._get_or_make_slot_with_initializer(variable, start, shape, dtype, "rms", self._name)
            if self._centered:
                self._zeros_slot(variable, "mg", self._name)
            self._zeros_slot(variable, "momentum", self._name)


class AdagradOptimizer(Optimizer, OpUpdates):
    """Divides the learning rate by the root of the sum of squares of all gradients so far."""

    update = "Adagrad"
    hyperparameters = ("learning_rate",)
    inputs = ("slot:accumulator", "learning_rate", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name, learning_rate=learning_rate)
        self._start = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            dtype = variable.dtype.base_dtype
            start = tf.constant_initializer(self._start, dtype=dtype)
            self._get_or_make_slot_with_initializer(variable, start, variable.get_shape(), dtype, "accumulator", self._name)


class AdadeltaOptimizer(Optimizer, OpUpdates):
    """Adadelta."""

    update = "Adadelta"
    hyperparameters = ("lr", "rho", "epsilon")
    inputs = ("slot:accum", "slot:accum_update", "lr", "rho", "epsilon", "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        rho: Hyperparameter = 0.95,
        epsilon: Hyperparameter = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name, lr=learning_rate, rho=rho, epsilon=epsilon)


class AdamOptimizer(Optimizer, OpUpdates):
    """Adam: running means of gradient and squared gradient, corrected for their start at zero."""

    update = "Adam"
    hyperparameters = ("learning_rate", "beta1", "beta2", "epsilon")
    inputs = ("slot:m", "slot:v", "beta1_power", "beta2_power", *hyperparameters, "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter = 0.001,
        beta1: Hyperparameter = 0.9,
        beta2: Hyperparameter = 0.999,
        epsilon: Hyperparameter = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
        use_own_namescope_for_non_slot_vars: bool = False,
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon)
        self._scopes_non_slots = use_own_namescope_for_non_slot_vars

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        graph = tf.get_default_graph()
        return self._get_non_slot_variable("beta1_power", graph), self._get_non_slot_variable("beta2_power", graph)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        # the first by name, not of the list: all workers must put the powers on the same parameter server
        first = min(var_list, key=lambda variable: variable.name)
        for beta in ("beta1", "beta2"):
            self._create_non_slot_variable(self._call_if_callable(self._values[beta]), beta + "_power", first)
        super()._create_slots(var_list)

    def _input(self, name: str, dtype: DTypeLike) -> Any:
        if name.endswith("_power"):
            return tf.cast(self._get_beta_accumulators()[name == "beta2_power"], dtype)
        return super()._input(name, dtype)

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        def add(slot: object, indices: TensorLike, values: TensorLike) -> Any:
            return tf.scatter_add(slot, indices, values, use_locking=self._use_locking)

        return self._apply_sparse_shared(grad.values, var, grad.indices, add)

    def _resource_apply_sparse(self, grad: Tensor, handle: HandledVariable, indices: Tensor) -> Any:
        def add(slot: Any, indices: Tensor, values: Tensor) -> Any:
            with tf.control_dependencies([gen("ResourceScatterAdd")(slot.handle, indices, values)]):
                return slot.value()

        return self._apply_sparse_shared(grad, handle, indices, add)

    def _apply_sparse_shared(
        self, grad: Tensor, var: Variable, indices: Tensor, scatter_add: Callable[[Any, Any, Any], Any]
    ) -> Any:
        """Make an update in which both means decay in all rows, and the gradient is added to the means of its rows."""
        dtype = var.dtype.base_dtype
        beta1_power, beta2_power = (tf.cast(power, dtype) for power in self._get_beta_accumulators())
        rate, beta1, beta2, epsilon = (self._input(name, dtype) for name in self.hyperparameters)
        rate = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)

        def decayed(slot: Any, beta: Tensor, gained: Tensor) -> Any:
            kept = tf.assign(slot, slot * beta, use_locking=self._use_locking)
            with tf.control_dependencies([kept]):
                return scatter_add(slot, indices, gained)

        m = decayed(self.get_slot(var, "m"), beta1, grad * (1 - beta1))
        v = decayed(self.get_slot(var, "v"), beta2, (grad * grad) * (1 - beta2))
        root = tf.sqrt(v)
        update = tf.assign_sub(var, rate * m / (root + epsilon), use_locking=self._use_locking)
        return tf.group(update, m, v)

    def _finish(self, update_ops: list[Any], name_scope: str) -> Any:
        with tf.control_dependencies(update_ops):
            beta1_power, beta2_power = self._get_beta_accumulators()
            with tf.colocate_with(beta1_power):
                changes = [
                    power.assign(power * self._tensors[name], use_locking=self._use_locking)
                    for name, power in (("beta1", beta1_power), ("beta2", beta2_power))
                ]
        return tf.group(*update_ops, *changes, name=name_scope)
