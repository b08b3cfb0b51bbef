"""The optimizers: which slots each has, and how its update ops take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.generated import gen
from placesim.tf1.optimizers.optimizer import Optimizer


class _ByOps(Optimizer):
    """An optimizer whose updates are ops of their own: `ApplyX`, `SparseApplyX`, `ResourceApplyX`, `ResourceSparseApplyX`.

    `update` is X; `hyperparameters` the names of the constants in the order that they are made in; `inputs` what the op takes
    after the variable: `slot:NAME`, a hyperparameter's name, or `grad`, which a sparse op follows by the indices.
    """

    update = ""
    hyperparameters: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    casts = True
    """Whether hyperparameters are cast to the variable's type; the proximal ones take what they are given (recorded)."""

    def __init__(self, use_locking: bool, name: str, **values: Any) -> None:
        super().__init__(use_locking, name)
        self._values = values
        self._tensors: dict[str, Any] = {}

    def _prepare(self) -> None:
        for name in self.hyperparameters:
            value = self._call_if_callable(self._values[name])
            self._tensors[name] = tf.convert_to_tensor(value, name=name)

    def _kernel(self) -> str:
        return self.update

    def _attrs(self, is_sparse: bool) -> dict[str, Any]:
        """The op's attrs beside `use_locking`."""
        return {}

    def _apply(self, prefix: str, variable: Any, held: Any, gradient: tuple[Any, ...], dtype: Any) -> Any:
        given: list[Any] = [held]
        for item in self.inputs:
            if item == "grad":
                given += gradient
            elif item.startswith("slot:"):
                slot = self.get_slot(variable, item.removeprefix("slot:"))
                given.append(slot.handle if prefix.startswith("Resource") else slot)
            else:
                given.append(self._input(item, dtype))
        attrs = {"use_locking": self._use_locking, **self._attrs("Sparse" in prefix)}
        made = gen(prefix + self._kernel())(*given, **attrs)
        return getattr(made, "op", made)

    def _input(self, name: str, dtype: Any) -> Any:
        return tf.cast(self._tensors[name], dtype) if self.casts else self._tensors[name]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._apply("Apply", var, var, (grad,), var.dtype.base_dtype)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._apply("ResourceApply", handle, handle.handle, (grad,), grad.dtype.base_dtype)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._apply("SparseApply", var, var, (grad.values, grad.indices), var.dtype.base_dtype)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._apply("ResourceSparseApply", handle, handle.handle, (grad, indices), grad.dtype)


class GradientDescentOptimizer(_ByOps):
    """`var -= learning_rate * gradient`."""

    update = "GradientDescent"
    hyperparameters = ("learning_rate",)
    inputs = ("learning_rate", "grad")

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate)

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any) -> Any:
        rate = self._input("learning_rate", var.dtype.base_dtype)
        return var.scatter_sub(
            tf.IndexedSlices(grad.values * rate, grad.indices, grad.dense_shape), use_locking=self._use_locking
        )

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        rate = self._input("learning_rate", grad.dtype.base_dtype)
        return gen("ResourceScatterAdd")(handle.handle, indices, -grad * rate)


class MomentumOptimizer(_ByOps):
    """`accumulation = momentum * accumulation + gradient; var -= learning_rate * accumulation`."""

    update = "Momentum"
    hyperparameters = ("learning_rate", "momentum")
    inputs = ("slot:momentum", "learning_rate", "grad", "momentum")

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate, momentum=momentum)
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            self._zeros_slot(variable, "momentum", self._name)

    def _attrs(self, is_sparse: bool) -> dict[str, Any]:
        return {"use_nesterov": self._use_nesterov}


class RMSPropOptimizer(_ByOps):
    """Divides the gradient by a running root of its mean square, about its mean where `centered`."""

    update = "RMSProp"
    hyperparameters = ("learning_rate", "decay", "momentum", "epsilon")

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
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
            if not shape.is_fully_defined():
                self._get_or_make_slot(variable, tf.ones_like(variable), "rms", self._name)
            else:
                self._get_or_make_slot_with_initializer(variable, start, shape, dtype, "rms", self._name)
            if self._centered:
                self._zeros_slot(variable, "mg", self._name)
            self._zeros_slot(variable, "momentum", self._name)


class AdagradOptimizer(_ByOps):
    """Divides the learning rate by the root of the sum of squares of all gradients so far."""

    update = "Adagrad"
    hyperparameters = ("learning_rate",)
    inputs = ("slot:accumulator", "learning_rate", "grad")

    def __init__(
        self,
        learning_rate: Any,
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


class AdadeltaOptimizer(_ByOps):
    """Adadelta."""

    update = "Adadelta"
    hyperparameters = ("lr", "rho", "epsilon")
    inputs = ("slot:accum", "slot:accum_update", "lr", "rho", "epsilon", "grad")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name, lr=learning_rate, rho=rho, epsilon=epsilon)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            self._zeros_slot(variable, "accum", self._name)
            self._zeros_slot(variable, "accum_update", self._name)


class FtrlOptimizer(_ByOps):
    """FTRL, with L1 and L2 strengths."""

    _LEAST_RATE = 1e-36
    """The learning rate that beta is divided by is at least this (recorded)."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        super().__init__(use_locking, name, learning_rate=learning_rate)
        _refuse_negative("initial_accumulator_value", initial_accumulator_value, "be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        strengths = {
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for label, value in strengths.items():
            _refuse_negative(label, value, "be positive or zero")
        self._values |= strengths | {"learning_rate_power": learning_rate_power, "beta": 0.0 if beta is None else beta}
        self._start, self._slot_names = initial_accumulator_value, (accum_name, linear_name)
        self._shrinks = l2_shrinkage_regularization_strength > 0.0
        shrinkage = ("l2_shrinkage_regularization_strength",) if self._shrinks else ()
        strengths_in = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength", *shrinkage)
        self.inputs = ("slot:accum", "slot:linear", "grad", *strengths_in, "learning_rate_power")

    def _kernel(self) -> str:
        return "FtrlV2" if self._shrinks else "Ftrl"

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        def start(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            return tf.ones(shape, dtype) * self._start

        for variable in var_list:
            shape, dtype = variable.get_shape(), variable.dtype.base_dtype
            accumulated, linear = self._slot_names
            name = accumulated or self._name
            self._get_or_make_slot_with_initializer(variable, start, shape, dtype, "accum", name)
            self._zeros_slot(variable, "linear", linear or self._name)

    def _prepare(self) -> None:
        values = self._values
        for name in ("learning_rate", "l1_regularization_strength"):
            self._tensors[name] = tf.convert_to_tensor(self._call_if_callable(values[name]), name=name)
        rate = tf.maximum(self._call_if_callable(values["learning_rate"]), self._LEAST_RATE)
        l2 = values["l2_regularization_strength"] + values["beta"] / (2.0 * rate)
        self._tensors["l2_regularization_strength"] = l2
        for name in ("beta", "l2_shrinkage_regularization_strength", "learning_rate_power"):
            self._tensors[name] = tf.convert_to_tensor(values[name], name=name)


class ProximalGradientDescentOptimizer(_ByOps):
    """Gradient descent with L1 and L2 strengths."""

    update = "ProximalGradientDescent"
    casts = False
    hyperparameters = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")
    inputs = (*hyperparameters, "grad")

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )


class ProximalAdagradOptimizer(_ByOps):
    """Adagrad with L1 and L2 strengths."""

    update = "ProximalAdagrad"
    casts = False
    hyperparameters = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")
    inputs = ("slot:accumulator", *hyperparameters, "grad")

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )
        self._start = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            with tf.colocate_with(variable):
                start = tf.constant(self._start, shape=variable.get_shape(), dtype=variable.dtype.base_dtype)
            self._get_or_make_slot(variable, start, "accumulator", self._name)


class AdagradDAOptimizer(_ByOps):
    """Dual averaging Adagrad."""

    update = "AdagradDA"
    hyperparameters = ("learning_rate",)
    inputs = (
        "slot:gradient_accumulator",
        "slot:gradient_squared_accumulator",
        "grad",
        "learning_rate",
        "l1_regularization_strength",
        "l2_regularization_strength",
        "step",
    )

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        start = initial_gradient_squared_accumulator_value
        if start <= 0.0:
            raise ValueError(f"initial_gradient_squared_accumulator_value must be positive: {start}")
        super().__init__(
            use_locking,
            name,
            learning_rate=learning_rate,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
        )
        self._start, self._global_step, self._next_step = start, global_step, None

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for variable in var_list:
            shape, dtype = variable.get_shape(), variable.dtype.base_dtype
            with tf.colocate_with(variable):
                sum_start = tf.constant(0.0, shape=shape, dtype=dtype)
                square_start = tf.constant(self._start, shape=shape, dtype=dtype)
            self._get_or_make_slot(variable, sum_start, "gradient_accumulator", self._name)
            self._get_or_make_slot(variable, square_start, "gradient_squared_accumulator", self._name)

    def _prepare(self) -> None:
        super()._prepare()
        with tf.colocate_with(self._tensors["learning_rate"]):
            self._next_step = tf.identity(self._global_step) + 1

    def _apply(self, prefix: str, variable: Any, held: Any, gradient: tuple[Any, ...], dtype: Any) -> Any:
        with tf.device(variable.device):
            self._tensors["step"] = tf.identity(self._next_step)
        return super()._apply(prefix, variable, held, gradient, dtype)

    def _input(self, name: str, dtype: Any) -> Any:
        if name == "step":
            return self._tensors[name]
        return tf.cast(self._tensors[name] if name in self._tensors else self._values[name], dtype)


class AdamOptimizer(_ByOps):
    """Adam: running means of gradient and squared gradient, corrected for their start at zero."""

    update = "Adam"
    hyperparameters = ("learning_rate", "beta1", "beta2", "epsilon")
    inputs = ("slot:m", "slot:v", "beta1_power", "beta2_power", *hyperparameters, "grad")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
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
        first = min(var_list, key=lambda variable: variable.name)
        for beta in ("beta1", "beta2"):
            self._create_non_slot_variable(self._call_if_callable(self._values[beta]), beta + "_power", first)
        for variable in var_list:
            self._zeros_slot(variable, "m", self._name)
            self._zeros_slot(variable, "v", self._name)

    def _input(self, name: str, dtype: Any) -> Any:
        if name.endswith("_power"):
            return tf.cast(self._get_beta_accumulators()[name == "beta2_power"], dtype)
        return super()._input(name, dtype)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        def add(slot: Any, indices: Any, values: Any) -> Any:
            return tf.scatter_add(slot, indices, values, use_locking=self._use_locking)

        return self._apply_sparse_shared(grad.values, var, grad.indices, add)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        def add(slot: Any, indices: Any, values: Any) -> Any:
            with tf.control_dependencies([gen("ResourceScatterAdd")(slot.handle, indices, values)]):
                return slot.value()

        return self._apply_sparse_shared(grad, handle, indices, add)

    def _apply_sparse_shared(self, grad: Any, var: Any, indices: Any, scatter_add: Any) -> Any:
        """The update with means that decay in all rows and gain in the gradient's."""
        dtype = var.dtype.base_dtype
        beta1_power, beta2_power = (tf.cast(power, dtype) for power in self._get_beta_accumulators())
        rate, beta1, beta2, epsilon = (self._input(name, dtype) for name in self.hyperparameters)
        rate = rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)

        def decayed(slot: Any, beta: Any, gained: Any) -> Any:
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


def _refuse_negative(label: str, value: float, wanted: str) -> None:
    if value < 0.0:
        raise ValueError(f"{label} {value} needs to {wanted}")
