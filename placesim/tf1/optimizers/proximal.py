"""Optimizers that regularize variables: FTRL, proximal gradient descent and Adagrad, and dual averaging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import placesim.tf1 as tf
from placesim.tf1.graphs.tensor_likes import DTypeLike, ShapeLike
from placesim.tf1.optimizers.by_ops import OpUpdates, refuse_negative
from placesim.tf1.optimizers.optimizer import Optimizer
from placesim.tf1.optimizers.updates import Hyperparameter
from placesim.tf1.variables.variable import Variable


class FtrlOptimizer(Optimizer, OpUpdates):
    """FTRL, with L1 and L2 regularization."""

    _LEAST_RATE = 1e-36
    """Minimum of the learning rate by which beta is divided, recorded from TensorFlow."""

    def __init__(
        self,
        learning_rate: Hyperparameter,
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
        refuse_negative("initial_accumulator_value", initial_accumulator_value, "be positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power:f} needs to be negative or zero")
        strengths = {
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for label, value in strengths.items():
            refuse_negative(label, value, "be positive or zero")
        self._values |= strengths | {"learning_rate_power": learning_rate_power, "beta": 0.0 if beta is None else beta}
        self._start, self._slot_names = initial_accumulator_value, (accum_name, linear_name)
        self._shrinks = l2_shrinkage_regularization_strength > 0.0
        shrinkage = ("l2_shrinkage_regularization_strength",) if self._shrinks else ()
        strengths_in = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength", *shrinkage)
        self.inputs = ("slot:accum", "slot:linear", "grad", *strengths_in, "learning_rate_power")

    def _kernel(self) -> str:
        return "FtrlV2" if self._shrinks else "Ftrl"

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        def start(shape: ShapeLike, dtype: DTypeLike | None = None, partition_info: object = None) -> Any:
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


class ProximalGradientDescentOptimizer(Optimizer, OpUpdates):
    """Gradient descent with L1 and L2 regularization."""

    update = "ProximalGradientDescent"
    casts = False
    hyperparameters = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")
    inputs = (*hyperparameters, "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
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


class ProximalAdagradOptimizer(Optimizer, OpUpdates):
    """Adagrad with L1 and L2 regularization."""

    update = "ProximalAdagrad"
    casts = False
    hyperparameters = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")
    inputs = ("slot:accumulator", *hyperparameters, "grad")

    def __init__(
        self,
        learning_rate: Hyperparameter,
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


class AdagradDAOptimizer(Optimizer, OpUpdates):
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
        learning_rate: Hyperparameter,
        global_step: Variable,
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

    def _apply(self, prefix: str, variable: Any, held: object, gradient: tuple[Any, ...], dtype: DTypeLike) -> Any:
        with tf.device(variable.device):
            self._tensors["step"] = tf.identity(self._next_step)
        return super()._apply(prefix, variable, held, gradient, dtype)

    def _input(self, name: str, dtype: DTypeLike) -> Any:
        if name == "step":
            return self._tensors[name]
        return tf.cast(self._tensors[name] if name in self._tensors else self._values[name], dtype)
